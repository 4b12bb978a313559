//! The time as of a few steps ago, and the rest of a fom's budget.
//!
//! Reading a clock costs as much as ten short transitions. So a locality reads its clock only every few steps. Two
//! reads are up to [`STRIDE`] steps apart, if these steps take no more than [`SHORT`] together. Otherwise the locality
//! reads the clock at each step. Deadlines and listeners get the exact time. In a phase without a deadline, the time in
//! the phase may be off by [`SHORT`], or by one long step after short ones. So may the times of operations in the totals.

use crate::clock::Clock;

/// Maximum number of steps between two looks at the clock.
const STRIDE: u32 = 32;
/// Time between two looks at the clock, in nanoseconds. Above it, the looks become more frequent.
const SHORT: u64 = 100_000;

/// A [`Budget`](crate::config::Budget) in the units of its comparisons.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BudgetLimits {
    pub(crate) phases: i32,
    pub(crate) nanos: u64,
}

#[derive(Debug, Default)]
pub(crate) struct RunBudget {
    now: u64,
    stride: u32,
    /// Number of steps until the next look.
    left: u32,
    /// The rest of the running fom's budget; zero or less when it is used up.
    phases: i32,
    until: u64,
}

impl RunBudget {
    /// Reads the clock.
    pub(crate) fn look(&mut self, clock: &Clock) -> u64 {
        self.now = clock.nanos();
        if self.now >= self.until {
            // Checked here instead of at each step, because few steps change the time. The current step is the fom's
            // last.
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

    /// Returns the time of the last look.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Begins a new run.
    #[inline]
    pub(crate) fn begin(&mut self, clock: &Clock, budget: &BudgetLimits) {
        if self.stride <= 1 {
            self.look_and_adapt(clock);
        }
        self.phases = budget.phases;
        self.until = self.now.saturating_add(budget.nanos);
    }

    /// Notes a step. Returns the time, which may be a few steps old.
    #[inline]
    pub(crate) fn step(&mut self, clock: &Clock) -> u64 {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => self.look_and_adapt(clock),
        }
        self.now
    }

    /// Counts a step against the budget. Returns whether the step used the budget up.
    #[inline]
    pub(crate) fn spend(&mut self) -> bool {
        self.phases = self.phases.wrapping_sub(1);
        self.spent()
    }

    /// Returns whether the run has spent nothing of its budget.
    pub(crate) fn is_whole(&self, budget: &BudgetLimits) -> bool {
        self.phases == budget.phases
    }

    /// Returns whether the running fom must go to the tail.
    #[inline]
    pub(crate) fn spent(&self) -> bool {
        self.phases <= 0
    }
}
