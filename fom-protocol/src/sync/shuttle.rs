//! The primitives of shuttle, which draws the next thread at each step.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use shuttle::rand::{Rng, thread_rng};

pub use shuttle::{thread::yield_now, thread_local};

/// A wait of this length or longer ends only with a notification.
const EVER: Duration = Duration::from_secs(60);

shuttle::lazy_static! {
    /// Nanoseconds passed in this run.
    static ref PASSED: AtomicU64 = AtomicU64::new(0);
}

fn pass(time: Duration) -> Instant {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let passed = PASSED.fetch_add(time, Relaxed) + time;
    *BEGUN + Duration::from_nanos(passed)
}

/// Returns the time that limits waits. Each call adds some time, drawn at random like the order of the steps.
pub fn now() -> Instant {
    pass(Duration::from_micros(thread_rng().gen_range(0..200)))
}

/// Lets other threads change the state of another package before `read` reads it.
pub fn look<R>(read: impl FnOnce() -> R) -> R {
    yield_now();
    read()
}

/// Lets other threads continue, or not.
pub fn sleep(_: Duration) {
    yield_now();
}

#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.0.lock();
        MutexGuard {
            of: self,
            guard: guard.unwrap_or_else(|poisoned| poisoned.into_inner()),
        }
    }
}

/// A guard that knows its lock, so that `wait_for` can release the lock and take it again.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    of: &'a Mutex<T>,
    guard: shuttle::sync::MutexGuard<'a, T>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
        self.0
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
        self.0
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let MutexGuard { of, guard } = guard;
        let guard = self.0.wait(guard);
        MutexGuard {
            of,
            guard: guard.unwrap_or_else(|poisoned| poisoned.into_inner()),
        }
    }

    /// Shuttle has no time. A wait with a short limit ends at any moment: without a reason, or with its time over.
    pub fn wait_for<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        if time >= EVER {
            return (self.wait(guard), false);
        }
        let of = guard.of;
        drop(guard);
        yield_now();
        let guard = of.lock();
        let out = thread_rng().gen_bool(0.5);
        if out {
            pass(time);
        }
        (guard, out)
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
