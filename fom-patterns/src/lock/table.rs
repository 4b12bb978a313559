//! A lock for each key, which exists as long as it is used.

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Weak},
};

use fom_protocol::{shrink::Shrink as _, sync::Mutex};
use fom_runtime::{Key, Runtime};
use serde::{Serialize, Serializer};

use crate::lock::{
    Inner, LockStats, LongLock, Of,
    listed::{self, Listed},
    next_number,
    state::State,
};

const SHARDS: usize = 32;

/// [`LongLock`]s by key, such as one for each account. A clone is another handle to the same table.
///
/// A lock exists while it has a handle, a guard or a place in its queue. After that, only its share of the
/// [`stats`](Self::stats) is left. Keys are compared whole: two keys never share a lock.
///
/// ```
/// use fom_patterns::lock::LongLocks;
///
/// let accounts = LongLocks::new("account");
/// let seven = accounts.of(7);
/// assert!(seven == accounts.of(7) && seven != accounts.of(8));
/// assert_eq!(seven.to_string(), "account 7");
/// drop(seven);
/// assert!(accounts.is_empty());
/// ```
#[derive(Clone)]
pub struct LongLocks(pub(super) Arc<Table>);

pub(super) struct Table {
    name: Cow<'static, str>,
    /// The table's place in the order of all locks. Locks in the table are ordered by their keys.
    number: u64,
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    listed: Listed,
}

#[derive(Default)]
struct Shard {
    locks: HashMap<Key, Weak<Inner>>,
    /// The sums of the locks that are gone.
    past: LockStats,
    worst: Option<(Key, LockStats)>,
}

/// The place of a lock in its table.
pub(super) struct Place {
    table: Arc<Table>,
    key: Key,
}

impl Place {
    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    pub(super) fn table_name(&self) -> &str {
        &self.table.name
    }
}

impl Table {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn listed(&self) -> &Listed {
        &self.listed
    }
}

/// Counts and times of the locks of a table.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct LockTableStats {
    /// The number of locks that exist now.
    pub locks: usize,
    /// The sums of all locks, with those that are gone.
    pub total: LockStats,
    /// The lock with the longest wait, if a request had to wait, and its counts. When a lock is gone and made again,
    /// its counts start again.
    #[serde(serialize_with = "with_key")]
    pub worst: Option<(Key, LockStats)>,
}

/// The key as a text.
fn with_key<S: Serializer>(worst: &Option<(Key, LockStats)>, to: S) -> Result<S::Ok, S::Error> {
    let shown = worst.as_ref().map(|(key, stats)| (key.to_string(), stats));
    shown.serialize(to)
}

impl LockTableStats {
    fn add(&mut self, key: &Key, stats: &LockStats) {
        let worst = self.worst.as_ref();
        let most = worst.map_or(std::time::Duration::ZERO, |(_, worst)| worst.longest_wait);
        if stats.longest_wait > most {
            self.worst = Some((key.clone(), *stats));
        }
    }
}

impl LongLocks {
    /// Creates a table with a name for listings: `account` shows its locks as `account 7`.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self(Arc::new(Table {
            name: name.into(),
            number: next_number(),
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::default()),
            listed: Listed::default(),
        }))
    }

    /// Adds this table to the [parts](fom_runtime::observe::Inspect::parts) of a runtime. A fom that makes a lock of
    /// the table does the same.
    pub fn list_in(&self, runtime: &Runtime) {
        listed::list_in(&self.0, runtime);
    }

    /// Returns the lock of this key.
    pub fn of(&self, key: impl Into<Key>) -> LongLock {
        let key = key.into();
        let make = |key: Key| {
            Arc::new(Inner {
                number: self.0.number,
                of: Of::Table(Place {
                    table: Arc::clone(&self.0),
                    key,
                }),
                state: Mutex::new(State::default()),
            })
        };
        let mut shard = self.0.shard(&key).lock();
        match shard.locks.entry(key) {
            Entry::Occupied(mut place) => {
                if let Some(lock) = place.get().upgrade() {
                    return LongLock(lock);
                }
                // The last handle has just gone. The lock has no holder and no waiter, so it may be replaced.
                let lock = make(place.key().clone());
                place.insert(Arc::downgrade(&lock));
                LongLock(lock)
            }
            Entry::Vacant(place) => {
                if self.0.listed.is_new_here() {
                    listed::list_here(&self.0);
                }
                let lock = make(place.key().clone());
                place.insert(Arc::downgrade(&lock));
                LongLock(lock)
            }
        }
    }

    /// Returns the number of locks that exist now.
    pub fn len(&self) -> usize {
        let count = |shard: &Mutex<Shard>| shard.lock().locks.len();
        self.0.shards.iter().map(count).sum()
    }

    /// Returns `true` if no lock exists now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the counts and times of the table's locks.
    pub fn stats(&self) -> LockTableStats {
        let mut found = LockTableStats::default();
        for shard in &self.0.shards {
            let live: Vec<_> = {
                let shard = shard.lock();
                found.total.add(&shard.past);
                if let Some((key, worst)) = &shard.worst {
                    found.add(key, worst);
                }
                shard.locks.values().filter_map(Weak::upgrade).collect()
            };
            // Without the shard's mutex, because the drop of a lock's last handle takes it.
            for lock in live.into_iter().map(LongLock) {
                let stats = lock.stats();
                found.locks += 1;
                found.total.add(&stats);
                if let Some(key) = lock.key() {
                    found.add(key, &stats);
                }
            }
        }
        found
    }
}

impl fmt::Debug for LongLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LongLocks({}, {} locks)", self.0.name, self.len())
    }
}

impl Table {
    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }
}

impl Drop for Inner {
    /// Removes the lock from its table, unless another lock has its place already.
    fn drop(&mut self) {
        let this: *const Self = self;
        let Of::Table(Place { table, key }) = &self.of else {
            return;
        };
        let stats = self.state.lock().stats();
        let mut shard = table.shard(key).lock();
        shard.past.add(&stats);
        let most = shard
            .worst
            .as_ref()
            .map_or_else(Default::default, |(_, worst)| worst.longest_wait);
        if stats.longest_wait > most {
            shard.worst = Some((key.clone(), stats));
        }
        let gone = match shard.locks.entry(key.clone()) {
            Entry::Occupied(place) if std::ptr::eq(place.get().as_ptr(), this) => {
                Some(place.remove())
            }
            _ => None,
        };
        shard.locks.shrink();
        drop(shard);
        drop(gone);
    }
}
