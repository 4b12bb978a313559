//! Who may touch the outcome of a fom, and who is to be told that it is there.
//!
//! # Why it is right
//!
//! One byte decides it, each change of which is a read-modify-write. The body of a fom, and the outcome in it, belong to
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
//! body, and what the body comes to is dropped by the thread that is in it, whenever that is. It is only ever set before
//! ANSWERED: an outcome that is there already has been left to somebody.
//!
//! A fom that nobody has the address of is asked for by nobody: it needs no answer.

use crate::sync::atomic::{AtomicU8, Ordering};

/// There is a handle.
const WANTED: u8 = 1;
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

/// The marks of one fom.
#[derive(Debug, Default)]
pub struct Marks(AtomicU8);

/// What [`Marks::answer`] met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Answered {
    /// The handle comes for the outcome; otherwise the caller drops it.
    pub wanted: bool,
    /// Those who wait are to be told.
    pub watched: bool,
}

/// What the handle gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Taken {
    /// The outcome, which is the caller's now.
    Outcome,
    /// There is none.
    Abandoned,
}

/// What a handle has to do that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Detached {
    /// The outcome was left to it: it drops it.
    Outcome,
    /// It may have left a waker.
    Waker,
    /// Nothing.
    Nothing,
}

impl Marks {
    /// For a new fom. Before others can see it.
    #[inline]
    pub fn reset(&self, wanted: bool) {
        self.0.store(wanted.into(), Ordering::Relaxed);
    }

    #[inline]
    fn mark(&self, marks: u8) -> u8 {
        self.0.fetch_or(marks, Ordering::AcqRel)
    }

    /// Whether somebody waits for a phase of it.
    #[inline]
    pub fn is_observed(&self) -> bool {
        self.0.load(Ordering::Relaxed) & OBSERVED != 0
    }

    /// The outcome lies in the body. Once, by the thread that runs the fom. `alone`: nobody else has its address.
    #[inline]
    pub fn answer(&self, in_phase: bool, alone: bool) -> Answered {
        if alone {
            return Answered {
                wanted: false,
                // A leader waits for its helper even if it has dropped the handle.
                watched: self.0.load(Ordering::Relaxed) & WATCHED != 0,
            };
        }
        let marks = self.mark(ANSWERED | if in_phase { IN_PHASE } else { 0 });
        Answered {
            wanted: marks & (WANTED | ABANDONED) == WANTED,
            watched: marks & WATCHED != 0,
        }
    }

    /// There will be no outcome, as far as anybody waits for it. None when there is an answer already; else whether those who
    /// wait are to be told.
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

    /// Somebody waits for a phase, and has registered. When there is an answer already: whether the fom ended in a phase.
    pub fn observe(&self) -> Option<bool> {
        let marks = self.mark(WATCHED | OBSERVED);
        is_answered(marks).then_some(marks & IN_PHASE != 0)
    }

    /// Whether the handle may [`take`](Self::take) now.
    pub fn is_answered(&self) -> bool {
        is_answered(self.0.load(Ordering::Acquire))
    }

    /// The handle waits, and has registered. `true`: it may [`take`](Self::take) now.
    pub fn watch(&self) -> bool {
        is_answered(self.mark(WATCHED))
    }

    /// The handle takes what there is, after it was told that it may.
    ///
    /// # Panics
    ///
    /// The second time.
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

    /// The handle goes: nobody will ask for the outcome.
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
