//! How the outcome of a fom comes to whoever has its handle: it stays in the fom until it is taken.
//!
//! # Why it is right
//!
//! Who may touch the body (and the outcome in it) is decided by one byte, each change of which is a read-modify-write:
//!
//! - the thread that runs the fom, until it sets ANSWERED;
//! - after that the handle, if WANTED was still set at that moment;
//! - after that nobody: without WANTED the thread that set ANSWERED drops the outcome before it goes on.
//!
//! A handle that goes takes WANTED away: either before ANSWERED, and the fom's thread sees it, or after, and then the outcome
//! was left to it and it drops it. Who waits puts its waker in and then sets WATCHED: before ANSWERED, and it is told; or
//! after, and it looks again by itself.
//!
//! ABANDONED is the answer to a fom that does not come back from the user's function: the handle gets a failure that needs no
//! body, and what the body comes to is dropped by the thread that is in it, whenever that is.

use std::{mem::MaybeUninit, task::Waker};

use crate::{
    error::{Cause, Failure},
    fom::{Header, Typed, Watcher},
    operation::Operation,
    runtime::Ended,
    sync::atomic::Ordering,
};

/// How a fom ended.
pub(crate) type Outcome<O> = Result<Ended<O>, Failure<O>>;

/// There is a handle.
pub(super) const WANTED: u8 = 1;
/// Somebody is to be told of the end.
const WATCHED: u8 = 1 << 1;
/// The outcome is there.
const ANSWERED: u8 = 1 << 2;
/// There will be none.
const ABANDONED: u8 = 1 << 3;
/// The handle has it.
const TAKEN: u8 = 1 << 4;
/// It ended in a phase, not in the standard failed outcome.
const IN_PHASE: u8 = 1 << 5;
/// Somebody is to be told of phases.
const OBSERVED: u8 = 1 << 6;

/// What [`Header::answer`] met.
pub(super) struct Answered {
    pub(super) wanted: bool,
    pub(super) watched: bool,
}

impl Header {
    fn mark(&self, marks: u8) -> u8 {
        self.marks.fetch_or(marks, Ordering::AcqRel)
    }

    /// Whether somebody waits for a phase of it.
    #[inline]
    pub(super) fn is_observed(&self) -> bool {
        self.marks.load(Ordering::Relaxed) & OBSERVED != 0
    }

    /// The outcome lies in the body. Says whether somebody will come for it, otherwise the caller drops it; and whether
    /// somebody is to be told.
    #[inline]
    pub(super) fn answer(&self, in_phase: bool) -> Answered {
        // Nobody has its address, so there is nobody to wait for it.
        if self.is_alone() {
            return Answered {
                wanted: false,
                watched: false,
            };
        }
        let marks = self.mark(ANSWERED | if in_phase { IN_PHASE } else { 0 });
        Answered {
            wanted: marks & (WANTED | ABANDONED) == WANTED,
            watched: marks & WATCHED != 0,
        }
    }

    /// Says whether it was the first answer.
    pub(super) fn give_up_on(&self) -> bool {
        let marks = self.mark(ABANDONED);
        let first = marks & (ANSWERED | ABANDONED) == 0;
        if first && marks & WATCHED != 0 {
            self.tell_end(None);
        }
        first
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
        let marks = self.mark(WATCHED | OBSERVED);
        if marks & (ANSWERED | ABANDONED) == 0 {
            return true;
        }
        self.tell_end((marks & IN_PHASE != 0).then(|| self.phase_index()));
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
        let marks = self.marks.load(Ordering::Acquire);
        if marks & (ANSWERED | ABANDONED) != 0 {
            return Some(self.take_answer());
        }
        let old = self.extra_made().waits.lock().waker.replace(waker.clone());
        // It may be the last of a task of the user's: dropped without the lock.
        drop(old);
        let marks = self.mark(WATCHED);
        (marks & (ANSWERED | ABANDONED) != 0).then(|| self.take_answer())
    }

    fn take_answer(&self) -> Outcome<O> {
        let marks = self.mark(TAKEN);
        assert!(
            marks & TAKEN == 0,
            "a handle was polled after it gave its outcome"
        );
        let mut outcome = if marks & ABANDONED != 0 {
            Err(Failure::new(Cause::Shutdown, self.phase_name(), None))
        } else {
            // SAFETY: ANSWERED was set while WANTED was, so the body is the handle's, once.
            unsafe { self.take_outcome() }
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
        let marks = self.marks.fetch_and(!WANTED, Ordering::AcqRel);
        if marks & (ANSWERED | ABANDONED | TAKEN) == ANSWERED {
            // SAFETY: it was left to the handle, and is not taken.
            drop(unsafe { self.take_outcome() });
        } else if marks & WATCHED != 0 {
            let waker = self
                .extra()
                .and_then(|extra| extra.waits.lock().waker.take());
            drop(waker);
        }
    }
}
