//! The clock of leases: it goes on while the process is stopped and while the machine sleeps. In a simulation, it is virtual.

use std::time::Duration;

use fom_protocol::schedule::schedule;
use rustix::time::{ClockId, clock_gettime};

/// Returns the time since the machine was started.
pub(crate) fn boot_time() -> Duration {
    if let Some(schedule) = schedule() {
        return schedule.now();
    }
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
