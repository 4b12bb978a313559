//! Locks at which a thread of a simulation may lose its turn.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed},
    },
};

use crate::schedule::{Schedule, address, schedule};

/// A lock that one thread holds at a time.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    held: Held,
    lock: parking_lot::Mutex<T>,
}

/// A lock that one thread holds, or some that only read.
#[derive(Debug, Default)]
pub struct RwLock<T> {
    held: Held,
    lock: parking_lot::RwLock<T>,
}

/// Unlocks a [`Mutex`] when it is dropped.
pub type MutexGuard<'a, T> = Guard<'a, parking_lot::MutexGuard<'a, T>>;

impl<T> Mutex<T> {
    /// Returns an unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self {
            held: Held::new(),
            lock: parking_lot::Mutex::new(value),
        }
    }

    /// Waits until no other thread holds the lock, and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.held.taken(WRITER, || self.lock.lock())
    }
}

impl<T> RwLock<T> {
    /// Returns an unlocked lock.
    pub const fn new(value: T) -> Self {
        Self {
            held: Held::new(),
            lock: parking_lot::RwLock::new(value),
        }
    }

    /// Waits until no thread writes, and takes the lock to read.
    pub fn read(&self) -> Guard<'_, parking_lot::RwLockReadGuard<'_, T>> {
        self.held.taken(READER, || self.lock.read())
    }

    /// Waits until no other thread holds the lock, and takes it to write.
    pub fn write(&self) -> Guard<'_, parking_lot::RwLockWriteGuard<'_, T>> {
        self.held.taken(WRITER, || self.lock.write())
    }
}

/// Unlocks when it is dropped.
#[derive(Debug)]
pub struct Guard<'a, G> {
    // Dropped before the guard: from then on, no thread of this simulation holds the lock.
    taken: Taken<'a>,
    real: G,
}

impl<G: Deref> Deref for Guard<'_, G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.real
    }
}

impl<G: DerefMut> DerefMut for Guard<'_, G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.real
    }
}

/// Calls `f` with the lock released.
pub(super) fn unlocked<T, R>(guard: &mut MutexGuard<'_, T>, f: impl FnOnce() -> R) -> R {
    let held = guard.taken.0;
    held.give();
    let result = parking_lot::MutexGuard::unlocked(&mut guard.real, || {
        let result = f();
        held.wait(WRITER);
        result
    });
    held.take(WRITER);
    result
}

/// Returns the guard of `parking_lot`.
pub(super) fn real<'g, 'a, T>(
    guard: &'g mut MutexGuard<'a, T>,
) -> &'g mut parking_lot::MutexGuard<'a, T> {
    &mut guard.real
}

const READER: isize = 1;
const WRITER: isize = -1;

/// Whether threads of a simulation hold a lock. Such a thread may lose its turn while it holds the lock, so no other thread of its
/// simulation may block for it.
#[derive(Debug, Default)]
struct Held {
    /// The address of the simulation. A static lock may belong to several, one after the other.
    by: AtomicUsize,
    /// The number of threads that read, or -1 for one that writes.
    threads: AtomicIsize,
}

impl Held {
    const fn new() -> Self {
        Self {
            by: AtomicUsize::new(0),
            threads: AtomicIsize::new(0),
        }
    }

    /// Takes the lock, after other threads had a turn.
    fn taken<G>(&self, way: isize, lock: impl FnOnce() -> G) -> Guard<'_, G> {
        if let Some(schedule) = schedule() {
            schedule.turn();
        }
        self.wait(way);
        let real = lock();
        self.take(way);
        let taken = Taken(self);
        Guard { taken, real }
    }

    /// Waits until this thread can take the lock. It has its turn then.
    fn wait(&self, way: isize) {
        let Some(schedule) = schedule() else { return };
        let is_free = || {
            self.by.load(Relaxed) != number(&schedule)
                || way == READER && self.threads.load(Relaxed) >= 0
        };
        while !is_free() {
            schedule.wait(address(self), None);
        }
    }

    /// Notes that this thread has the lock.
    fn take(&self, way: isize) {
        if let Some(schedule) = schedule() {
            self.by.store(number(&schedule), Relaxed);
            self.threads.fetch_add(way, Relaxed);
        }
    }

    /// Notes that this thread gives the lock back.
    fn give(&self) {
        let Some(schedule) = schedule() else { return };
        let left = match self.threads.load(Relaxed) {
            threads @ READER.. => threads - READER,
            _ => 0,
        };
        self.threads.store(left, Relaxed);
        if left == 0 {
            self.by.store(0, Relaxed);
            schedule.notify(address(self), true);
        }
    }
}

fn number(schedule: &Arc<dyn Schedule>) -> usize {
    Arc::as_ptr(schedule).addr()
}

/// Gives the lock back when it is dropped.
#[derive(Debug)]
struct Taken<'a>(&'a Held);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.give();
    }
}
