//! The time as it was a few steps ago, and what is left of a fom's budget.
//!
//! Reading a clock costs as much as ten short transitions. So a locality reads it every so many steps: up to [`STRIDE`] steps
//! apart as long as they take no more than [`SHORT`] together, else at each step. What is shown of a phase that has no
//! deadline ("in it since", and the times of operations in the totals) may be that much off, or by one long step after short
//! ones. Deadlines and listeners get the time as it is.

use crate::{Clock, runtime::Allowance};

/// Steps between two looks at the clock, at most.
const STRIDE: u32 = 32;
/// Time between two looks at the clock, in nanoseconds; more makes them more frequent.
const SHORT: u64 = 100_000;

#[derive(Debug, Default)]
pub(super) struct Pace {
    now: u64,
    stride: u32,
    /// Steps until the next look.
    left: u32,
    /// What is left of the running fom's budget, not above zero when it is used up.
    phases: i32,
    until: u64,
}

impl Pace {
    /// The clock as it is.
    pub(super) fn look(&mut self, clock: &Clock) -> u64 {
        self.now = clock.nanos();
        if self.now >= self.until {
            // Looked at here instead of at each step, of which few change the time. The step that is made is its last.
            self.phases = self.phases.min(1);
        }
        self.now
    }

    #[cold]
    #[inline(never)]
    fn look_and_adapt(&mut self, clock: &Clock) {
        let before = self.now;
        self.look(clock);
        self.stride = if self.now.saturating_sub(before) > SHORT || !clock.is_real() {
            1
        } else {
            (self.stride * 2).clamp(1, STRIDE)
        };
        self.left = self.stride - 1;
    }

    /// The time of the last look.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// A new run begins.
    #[inline]
    pub(super) fn begin(&mut self, clock: &Clock, budget: &Allowance) {
        if self.stride <= 1 {
            self.look_and_adapt(clock);
        }
        self.phases = budget.phases;
        self.until = self.now.saturating_add(budget.nanos);
    }

    /// A step was made: the time, not quite as it is.
    #[inline]
    pub(super) fn step(&mut self, clock: &Clock) -> u64 {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => self.look_and_adapt(clock),
        }
        self.now
    }

    /// A step counts against the budget. Says whether that is used up by it.
    #[inline]
    pub(super) fn spend(&mut self) -> bool {
        self.phases = self.phases.wrapping_sub(1);
        self.spent()
    }

    /// Whether the running fom must go to the tail.
    #[inline]
    pub(super) fn spent(&self) -> bool {
        self.phases <= 0
    }
}
