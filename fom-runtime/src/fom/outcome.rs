//! How the outcome of a fom comes to whoever has its handle: it stays in the fom until it is taken. Who may touch it when, and
//! why that is right, stands in `protocol/marks.rs`.

use std::{mem::MaybeUninit, task::Waker};

use crate::{
    error::{Cause, Failure},
    fom::{Header, Typed, Watcher},
    operation::Operation,
    protocol::{Detached, Taken},
    runtime::Ended,
};

/// How a fom ended.
pub(crate) type Outcome<O> = Result<Ended<O>, Failure<O>>;

impl Header {
    /// Gives up on it. Says whether that was the first answer.
    pub(super) fn give_up_on(&self) -> bool {
        let first = self.marks.abandon();
        if first == Some(true) {
            self.tell_end(None);
        }
        if first.is_some() {
            self.forget_once();
            self.give_ticket();
        }
        first.is_some()
    }

    /// Without the lock: whoever is woken may do anything with this fom at once.
    #[cold]
    pub(super) fn tell_end(&self, ended: Option<usize>) {
        let Some(extra) = self.extra() else { return };
        let (waker, watchers) = {
            let mut waits = extra.waits.lock();
            (waits.waker.take(), std::mem::take(&mut waits.watchers))
        };
        for mut watcher in watchers {
            watcher.tell_end(ended);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Registers a wait for a phase, or answers it when the fom has ended; says whether it was registered. Whoever waits for
    /// the phase that the fom is in already is told by a call of [`arrived`](Self::arrived) on the thread that runs its
    /// locality.
    pub(crate) fn watch(&self, watcher: Watcher) -> bool {
        self.extra_made().waits.lock().watch(watcher);
        let Some(in_phase) = self.marks.observe() else {
            return true;
        };
        self.tell_end(in_phase.then(|| self.phase_index()));
        false
    }

    /// Tells those who wait for this phase.
    #[cold]
    pub(crate) fn arrived(&self, index: usize) {
        let Some(extra) = self.extra() else { return };
        let told = super::Told::Phase(index);
        let watchers: Vec<_> = extra
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
    /// The outcome if it is there; else `waker` is told when it is. Only by the handle.
    pub(crate) fn poll_outcome(&self, waker: &Waker) -> Option<Outcome<O>> {
        if self.marks.is_answered() {
            return Some(self.take_answer());
        }
        let old = self.extra_made().waits.lock().waker.replace(waker.clone());
        // It may be the last of a task of the user's: dropped without the lock.
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
    /// The outcome lies in the body, and the caller is the one it was left to.
    unsafe fn take_outcome(&self) -> Outcome<O> {
        let mut outcome = MaybeUninit::<Outcome<O>>::uninit();
        // SAFETY: the fom is of `O`, so its table writes an `Outcome<O>`; the rest is the caller's promise.
        unsafe {
            (self.pool().vtable.take_outcome)(self.whole(), outcome.as_mut_ptr().cast());
            outcome.assume_init()
        }
    }

    /// The handle goes: nobody will ask for the outcome.
    pub(crate) fn detach(&self) {
        match self.marks.detach() {
            // SAFETY: it was left to the handle, and is not taken.
            Detached::Outcome => drop(unsafe { self.take_outcome() }),
            Detached::Waker => {
                let waker = self
                    .extra()
                    .and_then(|extra| extra.waits.lock().waker.take());
                drop(waker);
            }
            Detached::Nothing => {}
        }
    }
}
