//! What the phases of a machine need of the run. The answers are constants, so the run of a machine has no code for what
//! none of its phases needs.

use super::{PhaseInfo, Retry};

/// What some phase of a graph needs of the run.
#[derive(Clone, Copy)]
pub(crate) struct Needs<'a>(pub(super) &'a [PhaseInfo]);

impl Needs<'_> {
    /// Whether a fom of this graph can need its own timer.
    pub(crate) const fn deadlines(self) -> bool {
        let mut index = 0;
        while index < self.0.len() {
            let phase = &self.0[index];
            let is_limited = phase.deadline.within().is_some() || phase.deadline.is_asked();
            if is_limited || phase.retry.is_some() {
                return true;
            }
            index += 1;
        }
        false
    }

    /// Whether any phase chooses an exit after a failure.
    pub(crate) const fn ways_out(self) -> bool {
        let mut index = 0;
        while index < self.0.len() {
            if self.0[index].exits.ways_out > 0 {
                return true;
            }
            index += 1;
        }
        false
    }

    /// Whether any phase takes an event.
    pub(crate) const fn events(self) -> bool {
        let mut index = 0;
        while index < self.0.len() {
            if !self.0[index].on.is_empty() {
                return true;
            }
            index += 1;
        }
        false
    }

    /// Whether a function of any phase says a time limit or retries.
    pub(crate) const fn asked_times(self) -> bool {
        let mut index = 0;
        while index < self.0.len() {
            let phase = &self.0[index];
            let asks_retry = matches!(phase.retry, Some(Retry { times: 0, .. }));
            if phase.deadline.is_asked() || asks_retry {
                return true;
            }
            index += 1;
        }
        false
    }

    /// Whether any phase gives its data to its function.
    pub(crate) const fn taken_data(self) -> bool {
        let mut index = 0;
        while index < self.0.len() {
            if self.0[index].saved.taken {
                return true;
            }
            index += 1;
        }
        false
    }

    /// Whether any phase has a gate.
    pub(crate) const fn gates(self) -> bool {
        let mut index = 0;
        while index < self.0.len() {
            if self.0[index].gate.is_some() {
                return true;
            }
            index += 1;
        }
        false
    }
}
