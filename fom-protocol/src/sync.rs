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
#[path = "sync/real.rs"]
mod locks;
#[cfg(fom_shuttle)]
#[path = "sync/shuttle.rs"]
mod locks;
#[cfg(not(any(fom_loom, fom_shuttle)))]
#[cfg_attr(feature = "locks", path = "sync/scheduled.rs")]
mod mutex;

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
