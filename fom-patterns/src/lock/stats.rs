//! The statistics of a long lock.

use std::time::Duration;

use fom_runtime::extension::serialized;
use serde::Serialize;

/// Counts and times of a long lock, or of a table of locks, on the clocks of the runtimes that used it. Waits and holds
/// that are not over count with their time so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LockStats {
    /// Number of grants to read.
    pub reads: u64,
    /// Number of grants to write.
    pub writes: u64,
    /// Number of requests that did not get the lock at once, with those that wait now.
    pub waits: u64,
    /// Number of these that were cancelled or timed out.
    pub given_up: u64,
    /// Total time of their waits.
    #[serde(serialize_with = "serialized::seconds")]
    pub wait_time: Duration,
    /// The longest of these waits.
    #[serde(serialize_with = "serialized::seconds")]
    pub longest_wait: Duration,
    /// Time that the lock was held, summed over its holders.
    #[serde(serialize_with = "serialized::seconds")]
    pub hold_time: Duration,
    /// The longest time that an owner held the lock.
    #[serde(serialize_with = "serialized::seconds")]
    pub longest_hold: Duration,
    /// Number of current holders.
    pub holders: usize,
    /// Number of current waiters.
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

    /// Adds the statistics of another lock.
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
