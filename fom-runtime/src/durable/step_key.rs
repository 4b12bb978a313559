//! The name of one visit of one phase, for those who are called from it.

use std::fmt;

/// Names one visit of a phase: the same in every attempt of it, also after a restart, and different for every other visit of this
/// and any other fom of this journal. In a `sync` phase that stays, each event that it takes counts as a visit. A phase that
/// is entered again, by a loop or from a dead letter phase, is another visit with another key: what is to happen once over all of them
/// takes a name that is saved in the operation.
///
/// Transitions happen exactly once, effects at least once: a phase function that was run and whose transition was not committed is
/// run again. Give the key to whoever you call, as the idempotency key: then it can tell a repetition from a new request.
///
/// A `late` or `exhausted` function belongs to the visit of its phase and has the same key; where it asks for something else, take a
/// [`part`](Self::part). Requests made by [`Cx::call`](crate::Cx::call) and its like have parts from 1 on.
///
/// Without a journal it is unique in this run of the program alone. A journal that was restored from a copy gives keys again that
/// were given since the copy was made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepKey {
    pub(crate) journal: u128,
    pub(crate) fom: u64,
    pub(crate) step: u64,
    pub(crate) part: u32,
}

impl StepKey {
    /// The key of one of several effects in the same visit. `part(0)` is the key itself.
    ///
    /// Number the effects in an order that does not change when the function is run again.
    pub fn part(self, number: u32) -> Self {
        Self {
            part: number,
            ..self
        }
    }
}

/// Letters, digits and dashes: fit for headers and for columns of tables.
impl fmt::Display for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}-{:x}-{:x}", self.journal, self.fom, self.step)?;
        match self.part {
            0 => Ok(()),
            part => write!(f, "-{part:x}"),
        }
    }
}

impl fmt::Debug for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StepKey({self})")
    }
}
