//! A lock for each key, for as long as somebody has or wants it.

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Weak},
};

use crate::{
    Key,
    lock::{Inner, LockStats, LongLock, Of, next_number, state::State},
    shrink::Shrink as _,
    sync::Mutex,
};

const SHARDS: usize = 32;

/// [`LongLock`]s by key, such as one for each account. A clone is another handle to the same table.
///
/// A lock is there while anybody has a handle, a guard or a place in its queue; after that nothing of it is left but what it adds
/// to [`stats`](Self::stats). Keys are compared whole: two keys never share a lock.
///
/// ```
/// use fom_runtime::LongLocks;
///
/// let accounts = LongLocks::new("account");
/// let seven = accounts.of(7);
/// assert!(seven == accounts.of(7) && seven != accounts.of(8));
/// assert_eq!(seven.to_string(), "account 7");
/// drop(seven);
/// assert!(accounts.is_empty());
/// ```
#[derive(Clone)]
pub struct LongLocks(Arc<Table>);

pub(super) struct Table {
    name: Cow<'static, str>,
    /// Its place among all locks: those in it are ordered by their keys.
    number: u64,
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    locks: HashMap<Key, Weak<Inner>>,
    /// Of those that are gone.
    past: LockStats,
    worst: Option<(Key, LockStats)>,
}

/// Where a lock stands.
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

/// What was counted of the locks of a table.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LockTableStats {
    /// How many locks are there now.
    pub locks: usize,
    /// All of them together, also those that are gone.
    pub total: LockStats,
    /// The one that was waited for longest, if any was waited for, and what was counted of it. When a lock is gone and made anew, it
    /// is counted anew.
    pub worst: Option<(Key, LockStats)>,
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
    /// A table with a name for listings: `account` shows its locks as `account 7`.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self(Arc::new(Table {
            name: name.into(),
            number: next_number(),
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::default()),
        }))
    }

    /// The lock of this key.
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
                // Its last handle has just gone: nobody has it or waits for it, so this may be another one.
                let lock = make(place.key().clone());
                place.insert(Arc::downgrade(&lock));
                LongLock(lock)
            }
            Entry::Vacant(place) => {
                let lock = make(place.key().clone());
                place.insert(Arc::downgrade(&lock));
                LongLock(lock)
            }
        }
    }

    /// How many locks are there now.
    pub fn len(&self) -> usize {
        let count = |shard: &Mutex<Shard>| shard.lock().locks.len();
        self.0.shards.iter().map(count).sum()
    }

    /// Whether no lock is there now: nobody has one or wants one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was counted of its locks.
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
            // Without the shard, which the last handle of a lock takes when it goes.
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
    /// The last handle of a lock goes: out of its table, unless another one stands in its place already.
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
