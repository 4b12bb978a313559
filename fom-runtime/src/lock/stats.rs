//! What is counted of a long lock, always.

use std::time::Duration;

/// Counts and times of a long lock, or of a table of them, on the clocks of the runtimes that used it. Each is added when a wait
/// or a hold is over; what goes on now is counted in [`holders`](Self::holders) and [`waiters`](Self::waiters) alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockStats {
    /// Times that it was granted to read.
    pub reads: u64,
    /// Times that it was granted to write.
    pub writes: u64,
    /// Waits for it that are over: those that did not get it at once.
    pub waits: u64,
    /// Of these: cancelled or too late.
    pub given_up: u64,
    /// The time of all these waits together.
    pub wait_time: Duration,
    /// The longest of them.
    pub longest_wait: Duration,
    /// The time that it was held, summed over its holders.
    pub hold_time: Duration,
    /// The longest time that one held it.
    pub longest_hold: Duration,
    /// Who holds it now.
    pub holders: usize,
    /// Who waits for it now.
    pub waiters: usize,
}

impl LockStats {
    pub(super) fn waited(&mut self, nanos: u64) {
        let time = Duration::from_nanos(nanos);
        self.waits += 1;
        self.wait_time = self.wait_time.saturating_add(time);
        self.longest_wait = self.longest_wait.max(time);
    }

    pub(super) fn held(&mut self, nanos: u64) {
        let time = Duration::from_nanos(nanos);
        self.hold_time = self.hold_time.saturating_add(time);
        self.longest_hold = self.longest_hold.max(time);
    }

    /// The sum of two.
    pub(super) fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.waits += other.waits;
        self.given_up += other.given_up;
        self.wait_time = self.wait_time.saturating_add(other.wait_time);
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.hold_time = self.hold_time.saturating_add(other.hold_time);
        self.longest_hold = self.longest_hold.max(other.longest_hold);
        self.holders += other.holders;
        self.waiters += other.waiters;
    }
}
