//! One place that chooses between the real primitives and those of the model checkers.
//!
//! `fom_loom` swaps what the lock-free pieces in [`protocol`](crate::protocol) stand on, `fom_shuttle` what whole
//! localities stand on. Our own cfg names, since plain `loom` would change tokio as well.

pub(crate) mod atomic {
    #[cfg(fom_loom)]
    pub(crate) use loom::sync::atomic::{
        AtomicIsize, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
    #[cfg(fom_shuttle)]
    pub(crate) use shuttle::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU8};
    #[cfg(not(any(fom_loom, fom_shuttle)))]
    pub(crate) use std::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU8};

    #[cfg(fom_loom)]
    pub(crate) use loom::sync::atomic::Ordering;
    #[cfg(fom_shuttle)]
    pub(crate) use shuttle::sync::atomic::fence;
    #[cfg(not(fom_loom))]
    pub(crate) use std::sync::atomic::Ordering;
    #[cfg(not(any(fom_loom, fom_shuttle)))]
    pub(crate) use std::sync::atomic::fence;

    #[cfg(fom_shuttle)]
    pub(crate) use shuttle::sync::atomic::{
        AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    };
    #[cfg(not(any(fom_loom, fom_shuttle)))]
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};
}

#[cfg(not(any(fom_loom, fom_shuttle)))]
mod locks {
    use std::time::Duration;

    pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock};
    pub(crate) use std::{thread::sleep, thread_local};

    /// A condition variable whose `wait` takes and gives the guard.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        /// The guard, and whether the time ran out.
        pub(crate) fn wait_for<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            time: Duration,
        ) -> (MutexGuard<'a, T>, bool) {
            let out = self.0.wait_for(&mut guard, time).timed_out();
            (guard, out)
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[cfg(fom_shuttle)]
mod locks {
    use std::time::Duration;

    pub(crate) use shuttle::sync::MutexGuard;
    pub(crate) use shuttle::thread_local;

    /// Shuttle has no time: others go on, or do not.
    pub(crate) fn sleep(_: Duration) {
        shuttle::thread::yield_now();
    }

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T: ?Sized>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct RwLock<T: ?Sized>(shuttle::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
            self.0
                .read()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub(crate) fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
            self.0
                .write()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(shuttle::sync::Condvar);

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0
                .wait(guard)
                .unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        /// Shuttle has no time: nothing ever runs out.
        pub(crate) fn wait_for<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _: Duration,
        ) -> (MutexGuard<'a, T>, bool) {
            (self.wait(guard), false)
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[cfg(not(fom_loom))]
pub(crate) use locks::*;

/// Blocks the thread on a future. Unlike the one of futures also inside an executor: a thread that may wait for a fom may
/// be in the middle of one. And unlike it, in the middle of a task of tokio as well, where channels of tokio have only so many
/// polls until the task yields, which it cannot do before this comes back.
#[cfg(not(any(fom_loom, fom_shuttle)))]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    use std::{
        sync::Arc,
        task::{Context, Poll, Wake, Waker},
        thread::{self, Thread},
    };

    /// The thread, and whether it was woken: somebody else may use up what `unpark` leaves.
    struct Parked(Thread, atomic::AtomicBool);

    impl Wake for Parked {
        fn wake(self: Arc<Self>) {
            self.wake_by_ref();
        }

        fn wake_by_ref(self: &Arc<Self>) {
            self.1.store(true, atomic::Ordering::Release);
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
            thread::park();
        }
    }
}

#[cfg(fom_shuttle)]
pub(crate) use shuttle::future::block_on;
