//! Chooses between the real primitives and those of the model checkers.
//!
//! `fom_loom` replaces the primitives of the lock-free pieces in this package. `fom_shuttle` replaces
//! the primitives of whole localities. The cfg names are our own, since plain `loom` would change tokio as well.

#[cfg(not(fom_loom))]
use std::time::{Duration, Instant};

/// Atomics.
pub mod atomic {
    #[cfg(fom_loom)]
    pub use loom::sync::atomic::{
        AtomicIsize, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
    #[cfg(fom_shuttle)]
    pub use shuttle::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU8};
    #[cfg(not(any(fom_loom, fom_shuttle)))]
    #[doc(no_inline)]
    pub use std::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU8};

    #[cfg(fom_loom)]
    pub use loom::sync::atomic::Ordering;
    #[cfg(fom_shuttle)]
    pub use shuttle::sync::atomic::fence;
    #[cfg(not(fom_loom))]
    #[doc(no_inline)]
    pub use std::sync::atomic::Ordering;
    #[cfg(not(any(fom_loom, fom_shuttle)))]
    #[doc(no_inline)]
    pub use std::sync::atomic::fence;

    #[cfg(fom_shuttle)]
    pub use shuttle::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};
    #[cfg(not(any(fom_loom, fom_shuttle)))]
    #[doc(no_inline)]
    pub use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};
}

/// A cell that loom can watch.
pub(crate) mod cell {
    #[cfg(fom_loom)]
    pub(crate) use loom::cell::UnsafeCell;

    /// The same functions without loom.
    #[cfg(not(fom_loom))]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    #[cfg(not(fom_loom))]
    impl<T> UnsafeCell<T> {
        #[inline]
        pub(crate) fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }

        #[inline]
        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }
}

#[cfg(not(any(fom_loom, fom_shuttle)))]
mod locks {
    use std::{
        sync::LazyLock,
        thread,
        time::{Duration, Instant},
    };

    use crate::schedule::{address, notify, schedule};

    #[doc(no_inline)]
    pub use parking_lot::{Mutex, MutexGuard, RwLock};
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
        read()
    }

    /// A condition variable. Its `wait` takes the guard and returns it.
    #[derive(Debug, Default)]
    pub struct Condvar(parking_lot::Condvar);

    impl Condvar {
        /// Waits for a notification.
        pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            match schedule() {
                None => self.0.wait(&mut guard),
                Some(schedule) => MutexGuard::unlocked(&mut guard, || {
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
                None => self.0.wait_for(&mut guard, time).timed_out(),
                Some(schedule) => {
                    MutexGuard::unlocked(&mut guard, || schedule.wait(address(self), Some(time)))
                }
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
}

#[cfg(fom_shuttle)]
mod locks {
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
}

#[cfg(not(fom_loom))]
pub use locks::*;

#[cfg(not(fom_loom))]
impl Condvar {
    /// Waits until `done` returns `true`, at most until the time `by`. Returns the guard, and the last result of
    /// `done`.
    pub fn wait_until<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        by: Instant,
        mut done: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, bool) {
        /// So that the end of a wait never overflows the clock.
        const LONGEST: Duration = Duration::from_secs(3600);
        loop {
            if done(&mut guard) {
                return (guard, true);
            }
            let left = by.saturating_duration_since(now());
            if left.is_zero() {
                return (guard, false);
            }
            (guard, _) = self.wait_for(guard, left.min(LONGEST));
        }
    }
}

/// Blocks the thread on a future. Unlike `block_on` of futures, this also works inside an executor: a thread that waits
/// for a fom may be inside one. It also works inside a task of tokio. There, channels of tokio allow only so many polls
/// until the task yields, which the task cannot do before this function returns.
#[cfg(not(any(fom_loom, fom_shuttle)))]
pub fn block_on<F: Future>(future: F) -> F::Output {
    use std::{
        sync::Arc,
        task::{Context, Poll, Wake, Waker},
        thread::{self, Thread},
    };

    /// The thread, and whether it was woken. Other code may consume the token that `unpark` leaves.
    struct Parked(Thread, atomic::AtomicBool);

    impl Wake for Parked {
        fn wake(self: Arc<Self>) {
            self.wake_by_ref();
        }

        fn wake_by_ref(self: &Arc<Self>) {
            self.1.store(true, atomic::Ordering::Release);
            crate::schedule::notify(crate::schedule::address(&**self), true);
            self.0.unpark();
        }
    }

    let parked = Arc::new(Parked(thread::current(), atomic::AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&parked));
    let mut future = std::pin::pin!(tokio::task::unconstrained(future));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        while !parked.1.swap(false, atomic::Ordering::Acquire) {
            match crate::schedule::schedule() {
                Some(schedule) => drop(schedule.wait(crate::schedule::address(&*parked), None)),
                None => thread::park(),
            }
        }
    }
}

#[cfg(fom_shuttle)]
pub use shuttle::future::block_on;
