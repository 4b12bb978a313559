//! The time as of a few steps ago, and the rest of a fom's budget.
//!
//! Reading a clock costs as much as ten short transitions. So a locality reads its clock only every few steps. Two
//! reads are up to [`STRIDE`] steps apart, if these steps take no more than [`SHORT`] together. Otherwise the locality
//! reads the clock at each step. While the steps between two reads take less than [`BRIEF`], two reads are up to
//! [`LONG_STRIDE`] steps apart. A locality that has slept reads the clock at once.
//!
//! Deadlines and listeners get the exact time. In a phase without a deadline, the time in the phase may be off by
//! [`SHORT`], or by the steps between two reads if steps become long suddenly. So may the times of operations in the
//! totals.

use crate::clock::Clock;

/// Maximum number of steps between two looks at the clock.
const STRIDE: u32 = 32;
/// The same while steps are very short.
const LONG_STRIDE: u32 = 64;
/// Time between two looks at the clock, in nanoseconds. Below it, they may be [`LONG_STRIDE`] steps apart.
const BRIEF: u64 = 5_000;
/// Time between two looks at the clock, in nanoseconds. Above it, the looks become more frequent.
const SHORT: u64 = 100_000;

/// A [`Budget`](crate::config::Budget) in the units of its comparisons.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BudgetLimits {
    pub(crate) phases: i32,
    pub(crate) nanos: u64,
}

/// The steps are numbered. The numbers start again at zero after the largest one.
#[derive(Debug)]
pub(crate) struct RunBudget {
    limits: BudgetLimits,
    now: u64,
    /// When the run began.
    began: u64,
    /// The number of the current step.
    step: u32,
    /// A step that is not behind `look_at` and `last`. So a step before it needs only one comparison.
    due: u32,
    /// The step of the next look at the clock.
    look_at: u32,
    /// The step that uses up the running fom's budget.
    last: u32,
    stride: u32,
}

impl RunBudget {
    pub(crate) fn new(limits: BudgetLimits) -> Self {
        Self {
            limits,
            now: 0,
            began: 0,
            step: 0,
            due: 1,
            look_at: 1,
            last: 0,
            stride: 1,
        }
    }

    /// Reads the clock.
    pub(crate) fn look(&mut self, clock: &Clock) -> u64 {
        self.look_with(clock, 1)
    }

    /// Reads the clock. If the time of the run is over, the fom has at most so many steps left.
    fn look_with(&mut self, clock: &Clock, left: u32) -> u64 {
        self.now = clock.nanos();
        // Checked here instead of at each step, because few steps change the time.
        if self.now.saturating_sub(self.began) >= self.limits.nanos
            && self.left() > left.cast_signed()
        {
            self.last = self.step.wrapping_add(left);
            self.due = self.step.wrapping_add(1);
        }
        self.now
    }

    #[cold]
    #[inline(never)]
    fn look_and_adapt(&mut self, clock: &Clock, left: u32) {
        let before = self.now;
        self.look_with(clock, left);
        self.stride = match self.now.saturating_sub(before) {
            _ if !clock.is_real() => 1,
            passed if passed < BRIEF => (self.stride * 2).min(LONG_STRIDE),
            passed if passed <= SHORT => (self.stride * 2).min(STRIDE),
            _ => 1,
        };
        self.look_at = self.step.wrapping_add(self.stride);
    }

    /// Returns the time of the last look.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Begins a new run. Its last step is not before that of the run before, so `due` stays right.
    #[inline]
    pub(crate) fn begin(&mut self, clock: &Clock) {
        if self.stride == 1 {
            self.look_and_adapt(clock, 1);
        }
        self.last = self.step.wrapping_add_signed(self.limits.phases);
        self.began = self.now;
    }

    /// Begins the run of a fom on the stack of the running fom. Returns how many steps the running fom has left.
    #[inline]
    pub(crate) fn lend(&mut self) -> i32 {
        let left = self.left();
        self.last = self.step.wrapping_add_signed(self.limits.phases);
        left
    }

    /// Goes on with the run of a fom that had so many steps left. The run on its stack counts as one step.
    #[inline]
    pub(crate) fn take_back(&mut self, left: i32) {
        self.last = self.step.wrapping_add_signed(left - 1);
        self.due = self.next_due();
    }

    /// Gives each run one step, so that the locality looks at the lease before each phase function.
    pub(crate) fn limit_to_one_step(&mut self) {
        self.limits.phases = 1;
    }

    /// Returns the next step that needs more than a comparison.
    #[inline]
    fn next_due(&self) -> u32 {
        let to_look = self.look_at.wrapping_sub(self.step);
        // Once the budget is used up, each step is due.
        let to_last = self.left().max(1).cast_unsigned();
        self.step.wrapping_add(to_look.min(to_last))
    }

    /// Notes a step that does not count against the budget. Returns as [`step`](Self::step) does.
    #[inline]
    pub(crate) fn free_step(&mut self) -> Option<(u64, bool)> {
        self.last = self.last.wrapping_add(1);
        self.step()
    }

    /// Counts a step against the budget. Returns the time, which may be a few steps old, and whether the step used the
    /// budget up. On `None` the caller must ask [`fall_due`](Self::fall_due) for both.
    #[inline]
    pub(crate) fn step(&mut self) -> Option<(u64, bool)> {
        self.step = self.step.wrapping_add(1);
        (self.step != self.due).then_some((self.now, false))
    }

    pub(super) fn fall_due(&mut self, clock: &Clock) -> (u64, bool) {
        if self.step == self.look_at {
            self.look_and_adapt(clock, 0);
        }
        self.due = self.next_due();
        (self.now, self.spent())
    }

    /// Returns how many steps the running fom has left; zero or less when its budget is used up.
    #[inline]
    fn left(&self) -> i32 {
        self.last.wrapping_sub(self.step).cast_signed()
    }

    /// Returns whether the run has spent nothing of its budget.
    pub(crate) fn is_whole(&self) -> bool {
        self.left() == self.limits.phases
    }

    /// Returns whether the running fom must go to the tail.
    #[inline]
    pub(crate) fn spent(&self) -> bool {
        self.left() <= 0
    }
}
