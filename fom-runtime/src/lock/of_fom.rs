//! What a fom knows of the locks that it waits for, for listings and against waiting twice. Beside the fom, and only of those that
//! ever waited.

use crate::{
    fom::Header,
    lock::{Declared, LockGuard, LockMode, LongLock, owner::Owner},
};

/// Beside the fom, made when it first waits for a lock or enters a phase that declares some.
#[derive(Default)]
pub(crate) struct FomLocks {
    /// The locks in whose queues it stands, with its numbers there.
    waiting: Vec<Waiting>,
    /// All its waits that are over.
    waited: u64,
    /// What it holds because a phase declares it; taken out to be worked on, as that is users' code, too.
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
    /// It stands in the queue of a lock from now on.
    pub(super) fn waits_for_lock(&self, lock: LongLock, mode: LockMode, ticket: u64) {
        let mut locks = self.extra_made().locks.lock();
        locks
            .get_or_insert_default()
            .waiting
            .push(Waiting { lock, mode, ticket });
    }

    /// It stands there no more, and stood there for so long.
    pub(super) fn waited_for_lock(&self, lock: &LongLock, nanos: u64) {
        let Some(extra) = self.extra() else { return };
        let gone = {
            let mut locks = extra.locks.lock();
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

    /// To be put back. Only the thread that runs the fom.
    pub(crate) fn take_declared(&self) -> Declared {
        let locks = self.extra().map(|extra| extra.locks.lock());
        let declared =
            locks.and_then(|mut locks| Some(std::mem::take(&mut locks.as_mut()?.declared)));
        declared.unwrap_or_default()
    }

    pub(crate) fn put_declared(&self, declared: Declared) {
        let mut locks = self.extra_made().locks.lock();
        locks.get_or_insert_default().declared = declared;
    }

    /// Whether it holds a lock because a phase declares it. Only the thread that runs the fom.
    pub(crate) fn holds_declared(&self) -> bool {
        let locks = self.extra().map(|extra| extra.locks.lock());
        locks.is_some_and(|locks| {
            locks
                .as_ref()
                .is_some_and(|locks| locks.declared.holds_any())
        })
    }

    /// It ends, and what it holds because a phase declares it is kept for the one that goes on in its place.
    pub(crate) fn leave_declared(&self) -> Vec<LockGuard> {
        let mut locks = self.extra().map(|extra| extra.locks.lock());
        let locks = locks.as_mut().and_then(|locks| locks.as_mut());
        locks.map_or_else(Vec::new, |locks| locks.declared.leave())
    }

    /// It goes on in the place of one that held these, and has them if it has more to do with them. Before it runs.
    pub(crate) fn take_over(&self, mut held: Vec<LockGuard>) {
        if self.kept().is_some_and(|kept| kept.inner().locked()) {
            for guard in &mut held {
                guard.hand_to(Owner::of_fom(self));
            }
            self.put_declared(Declared::of(held));
        }
    }

    /// How it waits for this lock, if it does.
    pub(super) fn lock_waited_for(&self, lock: &LongLock) -> Option<LockMode> {
        let locks = self.extra()?.locks.lock();
        let mut waiting = locks.as_ref()?.waiting.iter();
        waiting
            .find(|waiting| waiting.lock == *lock)
            .map(|waiting| waiting.mode)
    }

    /// The locks in whose queues it stands.
    pub(super) fn lock_places(&self) -> Vec<Waiting> {
        let locks = self.extra().map(|extra| extra.locks.lock());
        locks
            .and_then(|locks| locks.as_ref().map(|locks| locks.waiting.clone()))
            .unwrap_or_default()
    }

    /// The locks alone.
    pub(crate) fn lock_waits(&self) -> impl Iterator<Item = LongLock> + use<> {
        self.lock_places().into_iter().map(|waiting| waiting.lock)
    }

    /// How long it has waited for locks so far, in waits that are over.
    pub(crate) fn waited_for_locks(&self) -> u64 {
        let locks = self.extra().map(|extra| extra.locks.lock());
        locks
            .and_then(|locks| Some(locks.as_ref()?.waited))
            .unwrap_or(0)
    }
}
