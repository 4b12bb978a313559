//! The real primitives, and the waits of a simulation.

use std::{
    sync::LazyLock,
    thread,
    time::{Duration, Instant},
};

use super::mutex::{real, unlocked};
use crate::schedule::{address, notify, schedule};

pub use super::mutex::{Mutex, MutexGuard, RwLock};
#[doc(no_inline)]
pub use std::{thread::yield_now, thread_local};

/// Returns the time that limits waits.
pub fn now() -> Instant {
    /// The beginning of all simulations.
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    match schedule() {
        Some(schedule) => *BEGUN + schedule.now(),
        None => Instant::now(),
    }
}

/// Puts the thread to sleep for a time.
pub fn sleep(time: Duration) {
    match schedule() {
        // No other thread knows this address.
        Some(schedule) => drop(schedule.wait(address(&time), Some(time))),
        None => thread::sleep(time),
    }
}

/// Reads the state of another package, such as a channel of tokio. The model checker knows nothing of that state.
#[inline]
pub fn look<R>(read: impl FnOnce() -> R) -> R {
    #[cfg(feature = "locks")]
    if let Some(schedule) = schedule() {
        schedule.turn();
    }
    read()
}

/// A condition variable. Its `wait` takes the guard and returns it.
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// Waits for a notification.
    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        match schedule() {
            None => self.0.wait(real(&mut guard)),
            Some(schedule) => unlocked(&mut guard, || {
                schedule.wait(address(self), None);
            }),
        }
        guard
    }

    /// Returns the guard, and whether the time ran out.
    pub fn wait_for<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let out = match schedule() {
            None => self.0.wait_for(real(&mut guard), time).timed_out(),
            Some(schedule) => unlocked(&mut guard, || schedule.wait(address(self), Some(time))),
        };
        (guard, out)
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        notify(address(self), false);
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        notify(address(self), true);
        self.0.notify_all();
    }
}
