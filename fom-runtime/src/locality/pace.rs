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
    /// What is left of the running fom's budget.
    phases: u32,
    until: u64,
}

impl Pace {
    /// The clock as it is.
    pub(super) fn look(&mut self, clock: &Clock) -> u64 {
        self.now = clock.nanos();
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
        if self.left == 0 {
            self.look_and_adapt(clock);
        } else {
            self.left -= 1;
        }
        self.now
    }

    /// A step counts against the budget.
    #[inline]
    pub(super) fn spend(&mut self) {
        self.phases = if self.now >= self.until {
            0
        } else {
            self.phases.saturating_sub(1)
        };
    }

    /// Whether the running fom must go to the tail.
    #[inline]
    pub(super) fn spent(&self) -> bool {
        self.phases == 0
    }
}
