//! The source of time: the machine's monotonic clock, or a clock that a test moves.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::{self, Duration},
};

use crate::instant::Instant;
use fom_protocol::nanos;
use fom_protocol::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

/// Returns the time from `at` to `now`. A time before the start of the clock is negative, in two's complement.
pub(crate) fn elapsed(now: u64, at: u64) -> Duration {
    Duration::from_nanos(passed(now, at))
}

/// As [`elapsed`], in nanoseconds.
#[inline]
pub(crate) fn passed(now: u64, at: u64) -> u64 {
    // A time of a few steps ago may precede `at`.
    now.wrapping_sub(at).cast_signed().max(0).cast_unsigned()
}

/// The clock of a runtime. All deadlines and ages use it. Steps of the wall clock do not affect it.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System(time::Instant),
    Test(TestClock),
}

impl Default for Clock {
    /// Returns the machine's clock. In a simulation, this is the clock of the simulation.
    fn default() -> Self {
        #[cfg(not(fom_shuttle))]
        if let Some(schedule) = fom_protocol::schedule::schedule() {
            return TestClock::with(schedule.clock(), true).into();
        }
        Self::system()
    }
}

impl Clock {
    /// Returns the machine's monotonic clock.
    pub fn system() -> Self {
        Self(Source::System(time::Instant::now()))
    }

    /// Returns the time now.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.nanos())
    }

    pub(crate) fn nanos(&self) -> u64 {
        match &self.0 {
            Source::System(start) => nanos(start.elapsed()),
            Source::Test(clock) => clock.0.now.load(Ordering::Acquire),
        }
    }

    /// Whether this is the machine's clock.
    pub(crate) fn is_real(&self) -> bool {
        matches!(self.0, Source::System(_))
    }

    /// Whether sleeping brings deadlines nearer.
    pub(crate) fn passes(&self) -> bool {
        match &self.0 {
            Source::System(_) => true,
            Source::Test(clock) => clock.0.passes,
        }
    }

    pub(crate) fn watch(&self, watcher: Weak<dyn Moved>) {
        if let Source::Test(clock) = &self.0 {
            clock.0.watchers.lock().push(watcher);
        }
    }
}

impl From<TestClock> for Clock {
    fn from(clock: TestClock) -> Self {
        Self(Source::Test(clock))
    }
}

impl From<&TestClock> for Clock {
    fn from(clock: &TestClock) -> Self {
        clock.clone().into()
    }
}

/// A watcher of a test's clock.
pub(crate) trait Moved: Send + Sync {
    fn moved(&self);
}

/// A clock that stands still until a test moves it.
///
/// ```
/// use std::time::Duration;
/// use fom_runtime::time::{Clock, Instant, TestClock};
///
/// let clock = TestClock::new();
/// let seen = Clock::from(&clock);
/// clock.advance(Duration::from_secs(32));
/// assert_eq!(seen.now(), Instant::START + Duration::from_secs(32));
/// ```
#[derive(Clone)]
pub struct TestClock(Arc<Shared>);

struct Shared {
    now: Arc<AtomicU64>,
    /// Whether time passes while a thread sleeps: in a simulation.
    passes: bool,
    watchers: Mutex<Vec<Weak<dyn Moved>>>,
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TestClock")
            .field(&Duration::from_nanos(self.0.now.load(Ordering::Acquire)))
            .finish()
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl TestClock {
    /// Returns a clock that stands at zero.
    pub fn new() -> Self {
        Self::with(Arc::default(), false)
    }

    fn with(now: Arc<AtomicU64>, passes: bool) -> Self {
        Self(Arc::new(Shared {
            now,
            passes,
            watchers: Mutex::new(Vec::new()),
        }))
    }

    /// Moves the clock forward. Deadlines that passed fire soon after, in the order of their times.
    ///
    /// To make sure that foms already wait when the clock moves, use [`Runtime::quiet`](crate::Runtime::quiet).
    pub fn advance(&self, by: Duration) {
        let on = |now: u64| Some(now.saturating_add(nanos(by)));
        // The update never fails.
        let _ = self
            .0
            .now
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, on);
        let watchers: Vec<_> = {
            let mut watchers = self.0.watchers.lock();
            watchers.retain(|watcher| watcher.strong_count() > 0);
            watchers.iter().filter_map(Weak::upgrade).collect()
        };
        for watcher in watchers {
            watcher.moved();
        }
    }
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_test_clock_stops_at_its_end() {
        let clock = TestClock::new();
        clock.advance(Duration::from_secs(1));
        clock.advance(Duration::MAX);
        assert_eq!(Clock::from(&clock).nanos(), u64::MAX);
    }
}
