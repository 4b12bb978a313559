//! The guard of a lock.

use std::fmt;

use crate::lock::{
    LockMode, LongLock,
    owner::{Owner, OwnerId},
    state::Left,
};

/// Holds a [`LongLock`] until the guard is dropped. The guard may be kept in the operation or in the data of a phase,
/// go to another thread, and be dropped by a panic. The drop wakes the next waiters.
#[must_use = "the lock is given back when this is dropped"]
pub struct LockGuard {
    lock: LongLock,
    mode: LockMode,
    owner: OwnerId,
}

impl LockGuard {
    pub(super) fn new(lock: LongLock, mode: LockMode, owner: OwnerId) -> Self {
        Self { lock, mode, owner }
    }

    /// Returns the lock.
    pub fn lock(&self) -> &LongLock {
        &self.lock
    }

    /// Returns how the lock is held.
    pub fn mode(&self) -> LockMode {
        self.mode
    }

    /// Gives the lock to another owner, without a gap.
    pub(super) fn hand_to(&mut self, owner: Owner) {
        let id = owner.id();
        let before = self.lock.state().hand_over(self.owner, owner);
        self.owner = id;
        // Without the mutex, because it may be the last handle of its fom.
        drop(before);
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockGuard({} to {})", self.lock, self.mode)
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let mut left = Left::default();
        self.lock.state().release(self.owner, &mut left);
        left.settle();
    }
}
