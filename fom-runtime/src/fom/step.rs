//! The steps of a fom: why a function of its phase runs, and what the fom does after that.
//!
//! Hidden items here are for generated code.

use std::convert::Infallible;

/// The reason for a run of a phase function.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<E> {
    /// The phase was entered (or is tried again, or was restored).
    Enter,
    /// An event arrived that the phase waits for.
    Event(E),
    /// The deadline of the phase passed.
    Late,
    /// The last attempt failed.
    Exhausted,
    /// The fom failed.
    Failed,
}

impl Entry<Infallible> {
    /// Returns the same entry for an operation with events.
    #[inline(always)]
    pub(crate) fn without_event<E>(self) -> Entry<E> {
        match self {
            Self::Enter => Entry::Enter,
            Self::Late => Entry::Late,
            Self::Exhausted => Entry::Exhausted,
            Self::Failed => Entry::Failed,
        }
    }
}

/// A function of a phase, without an event. [`Entry::Enter`] is the phase's own function.
pub type Function = Entry<Infallible>;

/// What a fom does when its step is made, and committed if it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The fom enters its first phase, or the phase that it was saved in.
    Begin {
        /// Whether the resume function runs first.
        resumed: bool,
    },
    /// The fom enters the phase that it is in by now. `by`: the function that chose the phase.
    Enter {
        /// The index of the phase that the fom leaves.
        from: u8,
        /// The function that chose the phase.
        by: Function,
    },
    /// The fom waits for the next event in this visit.
    Stay,
    /// The fom waits until this time, and enters the phase again.
    Retry(u64),
    /// The fom has failed.
    Fail,
    /// The fom waits for its turn, or for its time, and has not begun.
    Wait,
}
