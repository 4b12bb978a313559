//! Several objects of one type behind one name.

use std::{
    fmt,
    hash::{BuildHasher, Hash, RandomState},
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use fom_runtime::{Runtime, submission::Placement};

use crate::active::{Activation, Active, NotActivated, ObjectRef};

/// A pool of active objects. A call goes to the object with the least to do, or to an object chosen by key. Calls go
/// through the same proxies as calls to a single object.
///
/// A call stays with its first object. If calls take very different times, a call can wait behind a long call while
/// another object is free.
///
/// ```
/// use fom_patterns::{active::Pool, prelude::*};
///
/// #[derive(Default)]
/// struct Counter {
///     count: u64,
/// }
///
/// #[active]
/// impl Counter {
///     pub fn count(&mut self) -> u64 {
///         self.count += 1;
///         self.count
///     }
/// }
///
/// # let runtime = Runtime::builder().localities(2).build()?;
/// let counters = Pool::start(&runtime, 4, |_| Counter::default().activation())?;
/// counters.free().count().wait()?;
/// // The same customer, the same object.
/// let first = counters.by_key("ada").count().wait()?;
/// assert_eq!(counters.by_key("ada").count().wait()?, first + 1);
/// # Ok::<(), BoxError>(())
/// ```
pub struct Pool<P> {
    proxies: Arc<[P]>,
    hasher: RandomState,
    turn: Arc<AtomicUsize>,
}

impl<P> Clone for Pool<P> {
    fn clone(&self) -> Self {
        Self {
            proxies: Arc::clone(&self.proxies),
            hasher: self.hasher.clone(),
            turn: Arc::clone(&self.turn),
        }
    }
}

impl<P> fmt::Debug for Pool<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} objects)", self.proxies.len())
    }
}

impl<P: Deref<Target = ObjectRef>> Pool<P> {
    /// Starts `objects` active objects, at least one, and spreads them over the localities. `make` gets the number of
    /// each object. A placement that `make` sets is ignored.
    ///
    /// # Errors
    ///
    /// Fails with [`NotActivated`], which holds the first refused object. The objects started before it end.
    pub fn start<A>(
        runtime: &Runtime,
        objects: usize,
        mut make: impl FnMut(usize) -> Activation<A>,
    ) -> Result<Self, NotActivated<A>>
    where
        A: Active<Proxy = P>,
    {
        let localities = runtime.localities();
        let start = |n| {
            let home = Placement::Locality(n % localities);
            make(n).place(home).start(runtime)
        };
        let proxies: Result<Vec<P>, _> = (0..objects.max(1)).map(start).collect();
        Ok(Self {
            proxies: proxies?.into(),
            hasher: RandomState::new(),
            turn: Arc::default(),
        })
    }

    /// Returns the proxies of all objects, by number.
    pub fn all(&self) -> &[P] {
        &self.proxies
    }

    /// Returns the proxy of the object with the fewest requests, including running ones. Among equal objects, takes the
    /// next in turn.
    pub fn free(&self) -> &P {
        let (before, after) = self.proxies.split_at(self.turn() % self.proxies.len());
        let mut best = &self.proxies[0];
        let mut least = usize::MAX;
        for proxy in after.iter().chain(before) {
            let load = proxy.load();
            if load < least {
                (best, least) = (proxy, load);
            }
            if load == 0 {
                break;
            }
        }
        best
    }

    fn turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the proxy for `key`, always the same one for the same key. Several keys can share a proxy.
    pub fn by_key(&self, key: impl Hash) -> &P {
        let hash = self.hasher.hash_one(key);
        &self.proxies[(hash % self.proxies.len() as u64) as usize]
    }
}
