//! The time of the cluster. The nodes measure it and pass it on with their heartbeats, so it goes on while one of them runs.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use fom_protocol::nanos;

use crate::clock::boot_time;

/// The time of the cluster, on one node. It never goes back.
#[derive(Debug, Default)]
pub(crate) struct ClusterTime {
    /// How far it is ahead of the own clock, in nanoseconds, plus [`BIAS`].
    ahead: AtomicU64,
}

/// Makes a difference in either direction a number above zero.
const BIAS: u64 = 1 << 62;

impl ClusterTime {
    /// Returns the time now. Zero before the first heartbeat.
    pub(crate) fn now(&self) -> Duration {
        match self.ahead.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            ahead => Duration::from_nanos((nanos(boot_time()) + ahead).saturating_sub(BIAS)),
        }
    }

    /// Notes that it is at least this time, if it was so at `at` on the own clock.
    pub(crate) fn is_at_least(&self, time: Duration, at: Duration) {
        let ahead = (BIAS + nanos(time)).saturating_sub(nanos(at));
        self.ahead.fetch_max(ahead, Ordering::AcqRel);
    }
}
