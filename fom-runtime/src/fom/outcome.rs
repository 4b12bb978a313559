//! How the handle of a fom gets the outcome: the outcome stays in the fom until the handle takes it.
//! `fom-protocol/src/outcome_bits.rs` says which thread may touch the outcome at what time, and why that is right.

use std::{fmt, mem::MaybeUninit, task::Waker};

use crate::{
    fom::{Cause, Failure, Header, Typed, Watcher},
    operation::Operation,
};
use fom_protocol::{Detached, Taken};

/// The end of a fom, or its failure.
pub type Outcome<O> = Result<Ended<O>, Failure<O>>;

impl Header {
    /// Gives up on the fom. Returns whether there was no answer before.
    pub(super) fn give_up_on(&self) -> bool {
        let first = self.marks.abandon();
        if first == Some(true) {
            self.tell_end(None);
        }
        if first.is_some() {
            if let Some(state) = self.cold().and_then(|cold| cold.durable.as_deref()) {
                state.given_up(self);
            }
            self.give_guard();
        }
        first.is_some()
    }

    /// Tells the end without the lock, because a woken task may use this fom at once.
    #[cold]
    pub(super) fn tell_end(&self, ended: Option<usize>) {
        let Some(cold) = self.cold() else { return };
        let (waker, watchers) = {
            let mut waits = cold.waits.lock();
            (waits.waker.take(), std::mem::take(&mut waits.watchers))
        };
        for mut watcher in watchers {
            watcher.tell_end(ended);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Registers a wait for a phase, or answers it if the fom has ended. Returns whether the wait was registered. A
    /// wait for the phase that the fom is in already is answered by a call of [`arrived`](Self::arrived), on the thread
    /// that runs the fom's locality.
    pub(crate) fn watch(&self, watcher: Watcher) -> bool {
        self.cold_made().waits.lock().watch(watcher);
        let Some(in_phase) = self.marks.observe() else {
            return true;
        };
        self.tell_end(in_phase.then(|| self.phase_index()));
        false
    }

    /// Tells the waiters for this phase.
    #[cold]
    pub(crate) fn arrived(&self, index: usize) {
        let Some(cold) = self.cold() else { return };
        let told = super::Told::Phase(index);
        let watchers: Vec<_> = cold
            .waits
            .lock()
            .watchers
            .extract_if(.., |watcher| watcher.hears(told))
            .collect();
        for mut watcher in watchers {
            watcher.tell(told);
        }
    }
}

impl<O: Operation> Typed<O> {
    /// Returns the outcome if it is there. Otherwise `waker` is woken when it is. Only the handle calls this.
    pub(crate) fn poll_outcome(&self, waker: &Waker) -> Option<Outcome<O>> {
        if self.marks.is_answered() {
            return Some(self.take_answer());
        }
        let old = self.cold_made().waits.lock().waker.replace(waker.clone());
        // The old waker may hold the last reference to a task of the user's, so it is dropped without the lock.
        drop(old);
        self.marks.watch().then(|| self.take_answer())
    }

    fn take_answer(&self) -> Outcome<O> {
        let mut outcome = match self.marks.take() {
            Taken::Abandoned => Err(Failure::new(Cause::Shutdown, self.phase_name(), None)),
            // SAFETY: the body was left to the handle, which takes it once.
            Taken::Outcome => unsafe { self.take_outcome() },
        };
        let untaken = self.mail.rest();
        match &mut outcome {
            Ok(ended) => ended.untaken = untaken,
            Err(failure) => failure.untaken = untaken,
        }
        outcome
    }

    /// # Safety
    ///
    /// The outcome is in the body, and was left to the caller.
    unsafe fn take_outcome(&self) -> Outcome<O> {
        let mut outcome = MaybeUninit::<Outcome<O>>::uninit();
        // SAFETY: the fom is of `O`, so its table writes an `Outcome<O>`; the rest is the caller's promise.
        unsafe {
            (self.pool().vtable.take_outcome)(self.whole(), outcome.as_mut_ptr().cast());
            outcome.assume_init()
        }
    }

    /// Drops the handle's claim to the outcome.
    pub(crate) fn detach(&self) {
        match self.marks.detach() {
            // SAFETY: the outcome was left to the handle, and is not taken.
            Detached::Outcome => drop(unsafe { self.take_outcome() }),
            Detached::Waker => {
                let waker = self.cold().and_then(|cold| cold.waits.lock().waker.take());
                drop(waker);
            }
            Detached::Nothing => {}
        }
    }
}

/// A fom that ended in one of its end phases.
#[non_exhaustive]
pub struct Ended<O: Operation> {
    /// The end phase, with its data.
    pub phase: O::Phase,
    /// The operation.
    pub operation: O,
    /// Events that were sent to the fom and that no phase took, oldest first.
    pub untaken: Vec<O::Event>,
}

impl<O: Operation> fmt::Debug for Ended<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended")
            .field("phase", &O::kind(&self.phase))
            .finish_non_exhaustive()
    }
}
