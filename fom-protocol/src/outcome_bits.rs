//! Which thread may touch the outcome of a fom, and which waiters must be told of it.
//!
//! # Why it is right
//!
//! One byte decides, and each change of the byte is a read-modify-write. The body of a fom, with the outcome in it,
//! belongs to
//!
//! - the thread that runs the fom, until it sets ANSWERED;
//! - after that the handle, if WANTED was still set at that moment;
//! - otherwise to no thread: without WANTED, the thread that sets ANSWERED drops the outcome before it continues.
//!
//! A handle that is dropped clears WANTED. If it does so before ANSWERED, the thread of the fom sees that. If after,
//! the outcome was left to the handle, which drops the outcome. A waiter stores its waker and then sets WATCHED. If
//! it does so before ANSWERED, it is told; if after, it checks again by itself.
//!
//! ABANDONED is the answer for a fom that does not return from the user's function. The handle gets a failure that
//! needs no body. The thread inside the body drops the result of the body, whenever it returns. ABANDONED is only
//! ever set before ANSWERED, because an outcome that exists already has an owner.
//!
//! A fom without any address needs no answer, because no handle can ask for its outcome.

use crate::sync::atomic::{AtomicU8, Ordering};

/// There is a handle.
const WANTED: u8 = 1;
/// A waiter must be told of the end.
const WATCHED: u8 = 1 << 1;
/// The outcome is there.
const ANSWERED: u8 = 1 << 2;
/// There will be no outcome.
const ABANDONED: u8 = 1 << 3;
/// The handle has taken the outcome.
const TAKEN: u8 = 1 << 4;
/// The fom ended in a phase, not in the standard failed outcome.
const IN_PHASE: u8 = 1 << 5;
/// A waiter must be told of phases.
const OBSERVED: u8 = 1 << 6;

/// The marks of one fom.
#[derive(Debug, Default)]
pub struct OutcomeBits(AtomicU8);

/// The result of [`OutcomeBits::answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Answered {
    /// The handle takes the outcome. If `false`, the caller drops the outcome.
    pub wanted: bool,
    /// There are waiters to tell.
    pub watched: bool,
}

/// The answer for the handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Taken {
    /// The outcome, which now belongs to the caller.
    Outcome,
    /// No outcome.
    Abandoned,
}

/// The work of a handle that is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Detached {
    /// The outcome was left to the handle, which must drop it.
    Outcome,
    /// The handle may have left a waker.
    Waker,
    /// Nothing to do.
    Nothing,
}

impl OutcomeBits {
    /// Resets the marks for a new fom, before other threads can see the fom.
    #[inline]
    pub fn reset(&self, wanted: bool) {
        self.0.store(wanted.into(), Ordering::Relaxed);
    }

    #[inline]
    fn mark(&self, marks: u8) -> u8 {
        self.0.fetch_or(marks, Ordering::AcqRel)
    }

    /// Notes that a handle is made, of a fom that had none. Only the thread that runs the fom calls this, before
    /// [`answer`](Self::answer).
    #[inline]
    pub fn want(&self) {
        self.mark(WANTED);
    }

    /// Returns whether a waiter waits for a phase of the fom.
    #[inline]
    pub fn is_observed(&self) -> bool {
        self.0.load(Ordering::Relaxed) & OBSERVED != 0
    }

    /// Records that the outcome is in the body. The thread that runs the fom calls this once. `alone`: no other
    /// thread has an address of the fom.
    #[inline]
    pub fn answer(&self, in_phase: bool, alone: bool) -> Answered {
        if alone {
            return Answered {
                wanted: false,
                // A leader waits for its helper even after it has dropped the handle.
                watched: self.0.load(Ordering::Relaxed) & WATCHED != 0,
            };
        }
        let marks = self.mark(ANSWERED | if in_phase { IN_PHASE } else { 0 });
        Answered {
            wanted: marks & (WANTED | ABANDONED) == WANTED,
            watched: marks & WATCHED != 0,
        }
    }

    /// Records that waiters get no outcome. Returns `None` if there is an answer already, else whether there are
    /// waiters to tell.
    #[inline]
    pub fn abandon(&self) -> Option<bool> {
        let mut marks = self.0.load(Ordering::Relaxed);
        loop {
            if marks & (ANSWERED | ABANDONED) != 0 {
                return None;
            }
            match self.0.compare_exchange_weak(
                marks,
                marks | ABANDONED,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(marks & WATCHED != 0),
                Err(now) => marks = now,
            }
        }
    }

    /// Records a registered wait for a phase. If there is an answer already, returns whether the fom ended in a phase.
    #[inline]
    pub fn observe(&self) -> Option<bool> {
        let marks = self.mark(WATCHED | OBSERVED);
        is_answered(marks).then_some(marks & IN_PHASE != 0)
    }

    /// Returns whether the handle may [`take`](Self::take) now.
    #[inline]
    pub fn is_answered(&self) -> bool {
        is_answered(self.0.load(Ordering::Acquire))
    }

    /// Records that the handle has registered a waker. On `true` the handle may [`take`](Self::take) now.
    #[inline]
    pub fn watch(&self) -> bool {
        is_answered(self.mark(WATCHED))
    }

    /// Takes the answer for the handle, after the handle learned that it may.
    ///
    /// # Panics
    ///
    /// If it is called a second time.
    #[inline]
    pub fn take(&self) -> Taken {
        let marks = self.mark(TAKEN);
        assert!(
            marks & TAKEN == 0,
            "a handle was polled after it gave its outcome"
        );
        if marks & ABANDONED != 0 {
            Taken::Abandoned
        } else {
            Taken::Outcome
        }
    }

    /// Records that the handle is dropped and no longer asks for the outcome.
    #[inline]
    pub fn detach(&self) -> Detached {
        let marks = self.0.fetch_and(!WANTED, Ordering::AcqRel);
        if marks & (ANSWERED | ABANDONED | TAKEN) == ANSWERED {
            Detached::Outcome
        } else if marks & WATCHED != 0 {
            Detached::Waker
        } else {
            Detached::Nothing
        }
    }
}

fn is_answered(marks: u8) -> bool {
    marks & (ANSWERED | ABANDONED) != 0
}
