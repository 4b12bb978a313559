//! A time on the clock of a runtime.

use std::{
    fmt,
    ops::{Add, AddAssign, Sub},
    time::Duration,
};

use fom_protocol::nanos;

/// A time on the clock of a runtime, in whole nanoseconds since the start of that clock.
///
/// An instant is no [`Duration`], so a sleep until an instant does not compile:
///
/// ```compile_fail,E0308
/// # async fn f(cx: &fom_runtime::Cx<'_>) {
/// cx.sleep(cx.now()).await;
/// # }
/// ```
///
/// The difference of two instants is a duration:
///
/// ```
/// use std::time::Duration;
/// use fom_runtime::time::Instant;
///
/// let early = Instant::START + Duration::from_secs(2);
/// let late = early + Duration::from_secs(3);
/// assert_eq!(late - early, Duration::from_secs(3));
/// assert_eq!(early - late, Duration::ZERO);
/// assert_eq!(format!("{late:?}"), "5s");
/// ```
///
/// Instants of two clocks have nothing in common. The clock of a process ends with the process, so an instant is not
/// saved: save a duration, or a time of the wall clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The start of the clock. A test clock begins here.
    pub const START: Self = Self(0);

    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub(crate) const fn nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this instant, or zero if `earlier` is later.
    #[must_use]
    pub const fn duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Stops at the last instant, 584 years after the start.
impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(nanos(time)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, time: Duration) {
        *self = *self + time;
    }
}

/// Stops at the start of the clock.
impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(time)))
    }
}

/// As [`duration_since`](Instant::duration_since).
impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

/// As the duration since the start of the clock, such as `1.5s`.
impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.duration_since(Self::START), f)
    }
}

/// As [`Debug`](fmt::Debug).
impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
