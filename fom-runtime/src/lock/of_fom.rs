//! The locks that a fom waits for, for listings and against waiting twice. Stored beside the fom, and only for foms
//! that ever waited.

use crate::{
    fom::Header,
    lock::{Declared, LockGuard, LockMode, LongLock, owner::Owner},
};

/// Made when the fom first waits for a lock, or enters a phase that declares locks.
#[derive(Default)]
pub(crate) struct FomLocks {
    /// The locks that the fom queues for, with its numbers in the queues.
    waiting: Vec<Waiting>,
    /// The total time of the waits that are over.
    waited: u64,
    /// The locks that the fom holds because a phase declares them. Taken out for use, because that runs users' code,
    /// too.
    declared: Declared,
}

/// A place in a queue.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) lock: LongLock,
    mode: LockMode,
    pub(super) ticket: u64,
}

impl Header {
    /// Notes that the fom stands in the queue of a lock.
    pub(super) fn waits_for_lock(&self, lock: LongLock, mode: LockMode, ticket: u64) {
        let mut locks = self.cold_made().locks.lock();
        locks
            .get_or_insert_default()
            .waiting
            .push(Waiting { lock, mode, ticket });
    }

    /// Notes that the fom has left the queue, after a wait of this time.
    pub(super) fn waited_for_lock(&self, lock: &LongLock, nanos: u64) {
        let Some(cold) = self.cold() else { return };
        let gone = {
            let mut locks = cold.locks.lock();
            let Some(locks) = locks.as_mut() else { return };
            locks.waited = locks.waited.saturating_add(nanos);
            let place = locks
                .waiting
                .iter()
                .position(|waiting| waiting.lock == *lock);
            place.map(|place| locks.waiting.swap_remove(place))
        };
        drop(gone);
    }

    /// Takes the declared locks. The caller must put them back. Only for the thread that runs the fom.
    pub(crate) fn take_declared(&self) -> Declared {
        let locks = self.cold().map(|cold| cold.locks.lock());
        let declared =
            locks.and_then(|mut locks| Some(std::mem::take(&mut locks.as_mut()?.declared)));
        declared.unwrap_or_default()
    }

    pub(crate) fn put_declared(&self, declared: Declared) {
        let mut locks = self.cold_made().locks.lock();
        locks.get_or_insert_default().declared = declared;
    }

    /// Whether the fom holds a lock because a phase declares it. Only for the thread that runs the fom.
    pub(crate) fn holds_declared(&self) -> bool {
        let locks = self.cold().map(|cold| cold.locks.lock());
        locks.is_some_and(|locks| {
            locks
                .as_ref()
                .is_some_and(|locks| locks.declared.holds_any())
        })
    }

    /// Takes the declared locks of a fom that ends, for the fom that replaces it.
    pub(crate) fn leave_declared(&self) -> Vec<LockGuard> {
        let mut locks = self.cold().map(|cold| cold.locks.lock());
        let locks = locks.as_mut().and_then(|locks| locks.as_mut());
        locks.map_or_else(Vec::new, |locks| locks.declared.leave())
    }

    /// Gives this fom the locks of the fom that it replaces, if it has more to do with them. Must be called before this
    /// fom runs.
    pub(crate) fn take_over(&self, mut held: Vec<LockGuard>) {
        if self.kept().is_some_and(|kept| kept.holds_locks()) {
            for guard in &mut held {
                guard.hand_to(Owner::of_fom(self));
            }
            self.put_declared(Declared::of(held));
        }
    }

    /// Returns how the fom waits for this lock, if it does.
    pub(super) fn lock_waited_for(&self, lock: &LongLock) -> Option<LockMode> {
        let locks = self.cold()?.locks.lock();
        let mut waiting = locks.as_ref()?.waiting.iter();
        waiting
            .find(|waiting| waiting.lock == *lock)
            .map(|waiting| waiting.mode)
    }

    /// Returns the locks that the fom queues for, with its numbers in the queues.
    pub(super) fn lock_places(&self) -> Vec<Waiting> {
        let locks = self.cold().map(|cold| cold.locks.lock());
        locks
            .and_then(|locks| locks.as_ref().map(|locks| locks.waiting.clone()))
            .unwrap_or_default()
    }

    /// Returns the locks that the fom queues for.
    pub(crate) fn lock_waits(&self) -> impl Iterator<Item = LongLock> + use<> {
        self.lock_places().into_iter().map(|waiting| waiting.lock)
    }

    /// Returns how long the fom has waited for locks, in waits that are over.
    pub(crate) fn waited_for_locks(&self) -> u64 {
        let locks = self.cold().map(|cold| cold.locks.lock());
        locks
            .and_then(|locks| Some(locks.as_ref()?.waited))
            .unwrap_or(0)
    }
}
