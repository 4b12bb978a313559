//! Lanes: streams of requests, in order for each key. A request runs in the locality that its key belongs to.
//!
//! | file | content |
//! | --- | --- |
//! | `options.rs` | the bounds of lanes, and how keys take turns |
//! | `error.rs` | why a request was not taken in |
//! | `inlet.rs` | how requests enter a locality |
//! | `keys.rs` | the state of the keys there |
//! | `sets.rs` | all lanes of a locality, and how a turn reaches them |
//! | `home.rs` | how requests become foms, and the lanes' part of the handler's round |
//! | `feed.rs` | the batches of one submitter |

mod error;
mod feed;
mod home;
mod inlet;
mod keys;
mod options;
mod sets;

use std::{
    collections::VecDeque,
    fmt,
    hash::{BuildHasher, Hash},
    ops::Deref,
    sync::Arc,
};

use foldhash::fast::RandomState;

pub use error::{PushError, PushReason};
pub use feed::Feed;
pub(crate) use home::run;
use inlet::{Inlet, Item};
pub use options::LaneOptions;
pub(crate) use sets::{LanePlace, LaneSets};

use crate::{
    operation::Operation,
    runtime::{Runtime, Shared},
};

/// A type that can be a key of lanes: every type that can be compared, hashed, cloned and sent. [`Key`](crate::Key) is
/// one. A plain number or a custom type costs less.
pub trait LaneKey: Hash + Eq + Clone + Send + Sync + 'static {}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> LaneKey for K {}

/// What all handles and localities of a set of lanes share.
pub(crate) struct Common<O: Operation, K> {
    shared: Arc<Shared>,
    options: LaneOptions,
    hasher: RandomState,
    inlets: Box<[Inlet<O, K>]>,
}

/// A handle that may push. After the last one is dropped, the lanes go as soon as they are empty.
struct Handle<O: Operation, K: LaneKey>(Arc<Last<O, K>>);

struct Last<O: Operation, K: LaneKey>(Arc<Common<O, K>>);

impl<O: Operation, K: LaneKey> Clone for Handle<O, K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<O: Operation, K: LaneKey> Deref for Handle<O, K> {
    type Target = Arc<Common<O, K>>;

    #[inline]
    fn deref(&self) -> &Arc<Common<O, K>> {
        &self.0.0
    }
}

impl<O: Operation, K: LaneKey> Drop for Last<O, K> {
    fn drop(&mut self) {
        for locality in &self.0.shared.localities {
            let common = Arc::clone(&self.0);
            locality.post_job(Box::new(move |core| core.lanes.retire(&common)));
        }
    }
}

/// A way into a runtime for streams of requests, in order for each key. A clone is a second handle to the same lanes.
///
/// Each key has a lane. The requests of a key run one after the other, in the order of the pushes, in the locality that
/// the key belongs to. Requests of different keys run independently. A request that waits holds up its own key and no
/// other. It may wait for an event, an answer, a timer, a retry, a blocking section, or anything else that its future
/// awaits. Keys are compared as a whole, so two keys with equal hashes share nothing. A key with nothing in
/// flight takes no memory.
///
/// A request becomes a fom when its turn comes, with everything that a fom has. It is listed while it waits, a panic
/// ends only that request, and its failure is counted ([`Operations`](crate::Operations)). It has no handle; if a
/// caller waits for an answer, the operation itself sends it. Use [`Submission::key`](crate::Submission::key) if you
/// need handles, priorities, or foms that can be found by key. The keys of lanes are separate, and find no fom.
///
/// Keys take turns: a key that has used its [quantum](LaneOptions::quantum) queues while others are ready. The lanes
/// take turns with the other foms of their locality.
///
/// In a runtime with a journal, a request is committed when it becomes a fom. Requests that still queue at a crash are
/// lost, as if they had not been pushed.
///
/// A [`Shutdown::Drain`](crate::Shutdown::Drain) runs all requests that were taken in. After a
/// [`Shutdown::Now`](crate::Shutdown::Now), or once the drain's time is over, queued requests never run;
/// [`take_refused`](Self::take_refused) returns them.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use fom_runtime::prelude::*;
/// use fom_runtime::LaneOptions;
///
/// static BALANCE: AtomicU64 = AtomicU64::new(0);
///
/// struct Deposit { cents: u64 }
///
/// #[fom(operation(Deposit), transient)]
/// enum Depositing {
///     #[phase(start, sync, to(Done))]
///     Book,
///     #[phase(end)]
///     Done,
/// }
///
/// impl DepositingTransitions for Deposit {
///     fn book(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
///         BALANCE.fetch_add(self.cents, Ordering::Relaxed);
///         Ok(())
///     }
/// }
///
/// let runtime = Runtime::builder().localities(1).build()?;
/// let deposits = runtime.lanes::<Deposit, u64>(LaneOptions::default());
/// for account in 0..100 {
///     deposits.push(account, Deposit { cents: 5 })?;
/// }
/// runtime.shutdown_blocking(Shutdown::Drain, std::time::Duration::from_secs(5));
/// assert_eq!(BALANCE.load(Ordering::Relaxed), 500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Lanes<O: Operation, K: LaneKey>(Handle<O, K>);

impl<O: Operation, K: LaneKey> Clone for Lanes<O, K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<O: Operation, K: LaneKey> fmt::Debug for Lanes<O, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes")
            .field("operation", &O::GRAPH.operation())
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// Creates a set of lanes for streams of requests with keys; see [`Lanes`]. The set goes when its last handle is
    /// dropped and all its requests have ended.
    pub fn lanes<O: Operation, K: LaneKey>(&self, options: LaneOptions) -> Lanes<O, K> {
        Lanes(Handle(Arc::new(Last(Arc::new(Common {
            shared: Arc::clone(self.shared()),
            options,
            hasher: RandomState::default(),
            inlets: (0..self.localities()).map(|_| Inlet::new()).collect(),
        })))))
    }
}

impl<O: Operation, K: LaneKey> Lanes<O, K> {
    /// Takes in a request, which then runs without any further call.
    ///
    /// Any thread may push. Of two pushes with one key, the one that happens before the other runs first.
    ///
    /// # Errors
    ///
    /// Returns a [`PushError`] with the key and the operation if there is no room, or if the runtime shuts down.
    pub fn push(&self, key: K, operation: O) -> Result<(), PushError<O, K>> {
        let hash = self.0.hash(&key);
        self.0.push_one(Item {
            hash,
            key,
            operation,
        })
    }

    /// Takes in a request as [`push`](Self::push) does, and waits while there is no room, without blocking a thread.
    ///
    /// # Errors
    ///
    /// Fails with [`PushReason::ShuttingDown`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, the request is dropped with it.
    pub async fn push_waiting(&self, key: K, operation: O) -> Result<(), PushError<O, K>> {
        let hash = self.0.hash(&key);
        let mut item = Item {
            hash,
            key,
            operation,
        };
        loop {
            match self.0.push_one(item) {
                Err(error) if error.reason() != PushReason::ShuttingDown => {
                    item = error.into_item()
                }
                done => return done,
            }
            self.0.room(&item).await;
        }
    }

    /// Takes in a request as [`push`](Self::push) does, and blocks the thread while there is no room. In a phase
    /// function, the call is a blocking section by itself.
    ///
    /// # Errors
    ///
    /// Fails with [`PushReason::ShuttingDown`].
    ///
    /// # Panics
    ///
    /// Panics like [`Handle::wait`](crate::Handle::wait).
    pub fn push_blocking(&self, key: K, operation: O) -> Result<(), PushError<O, K>> {
        crate::runtime::block_on(self.push_waiting(key, operation))
    }

    /// Creates a feed for one submitter that pushes many requests.
    pub fn feed(&self) -> Feed<O, K> {
        Feed::new(self.0.clone())
    }

    /// Returns the number of requests that were taken in and have not ended.
    pub fn in_flight(&self) -> usize {
        let inlets = self.0.inlets.iter();
        inlets.map(|inlet| inlet.lock().in_flight()).sum()
    }

    /// Returns the requests that were taken in but never ran because the runtime shut down. Each is returned once. The
    /// requests of a key keep their order.
    pub fn take_refused(&self) -> Vec<(K, O)> {
        let inlets = self.0.inlets.iter();
        inlets
            .flat_map(|inlet| std::mem::take(&mut inlet.lock().refused))
            .collect()
    }
}

impl<O: Operation, K: LaneKey> Common<O, K> {
    #[inline]
    fn hash(&self, key: &K) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Returns the locality that a key belongs to.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.inlets.len() as u128) >> 64) as usize
    }

    fn push_one(self: &Arc<Self>, item: Item<O, K>) -> Result<(), PushError<O, K>> {
        let index = self.home(item.hash);
        if self.inlets[index].is_choosy() && self.is_full(index, &item) {
            return Err(PushError::new(PushReason::KeyFull, item));
        }
        let mut item = Some(item);
        let put = |arrived: &mut VecDeque<_>| arrived.extend(item.take());
        self.hand_over(index, 1, false, put).map_err(|reason| {
            let item = item.take().expect("it was not taken in");
            PushError::new(reason, item)
        })
    }

    #[cold]
    fn is_full(&self, index: usize, item: &Item<O, K>) -> bool {
        let full = self.inlets[index].full_keys();
        full.iter()
            .any(|(hash, key)| *hash == item.hash && *key == item.key)
    }

    /// Puts all requests into an inlet, or none. With `anyway`, also if there is no room.
    #[inline]
    fn hand_over(
        self: &Arc<Self>,
        index: usize,
        requests: usize,
        anyway: bool,
        put: impl FnOnce(&mut VecDeque<Item<O, K>>),
    ) -> Result<(), PushReason> {
        let requests = requests as u64;
        let (shared, inlet) = (&self.shared, &self.inlets[index]);
        let locality = &shared.localities[index];
        let open = locality.counts.sent(requests, || self.is_open());
        let mut state = inlet.lock();
        let reason = if !open || state.closed {
            Some(PushReason::ShuttingDown)
        } else if !anyway && state.in_flight() >= self.options.bound {
            Some(PushReason::Full)
        } else {
            None
        };
        if let Some(reason) = reason {
            drop(state);
            locality.take_back_all(requests);
            shared.tell_idle();
            return Err(reason);
        }
        put(&mut state.arrived);
        let signal = state.must_signal();
        if signal {
            inlet.set_resting(false);
        }
        drop(state);
        if signal {
            let common = Arc::clone(self);
            locality.post_job(Box::new(move |core| {
                let index = core.home.index;
                core.lanes.signal(common, index);
            }));
        }
        Ok(())
    }

    /// Returns whether requests of this thread are taken in. While the runtime drains, only foms in flight may push.
    fn is_open(&self) -> bool {
        let shared = &self.shared;
        !shared.takes_nothing() || shared.is_draining() && crate::locality::runs_fom_of(shared)
    }

    /// Waits until this request may be taken in, or until the runtime shuts down.
    async fn room(&self, item: &Item<O, K>) {
        let index = self.home(item.hash);
        let inlet = &self.inlets[index];
        loop {
            let mut told = std::pin::pin!(inlet.room.notified());
            told.as_mut().enable();
            let full = {
                let mut state = inlet.lock();
                let full = !state.closed && state.in_flight() >= self.options.bound;
                state.awaited = true;
                full
            };
            // The locality notifies after it has changed what is checked here.
            if !self.is_open() || !full && !self.is_full(index, item) {
                return;
            }
            told.await;
        }
    }
}
