//! The clock of a lease: it goes on while the process is stopped and while the machine sleeps.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the time since the machine was started.
pub(crate) fn boot_time() -> Duration {
    #[cfg(any(target_os = "android", target_os = "linux"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "android", target_os = "linux")))]
    let clock = ClockId::Monotonic;
    let time = clock_gettime(clock);
    // Both parts are never negative on these clocks.
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// Returns a time as the number of nanoseconds that a table keeps.
pub(crate) fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the time that a table keeps as a number of nanoseconds.
pub(crate) fn duration(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

/// The time of a journal, which the owner measures from its claim on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalTime {
    /// The time of the journal when the claim was sent.
    pub(crate) passed: Duration,
    /// The own clock at that time.
    pub(crate) at: Duration,
}

impl JournalTime {
    pub(crate) fn now(self) -> Duration {
        self.passed + boot_time().saturating_sub(self.at)
    }
}
