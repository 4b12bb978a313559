//! The number of operations that a generator has in flight, and a way to wait until there are fewer.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Poll, Waker},
};

use futures_util::task::AtomicWaker;

/// The window of a generator that keeps its tasks on its thread.
#[derive(Debug, Default)]
pub struct LocalWindow {
    flying: Cell<usize>,
    low: Cell<usize>,
    waker: RefCell<Option<Waker>>,
}

impl LocalWindow {
    /// Makes a window that lives forever.
    pub fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    /// Adds `n` operations.
    pub fn add(&self, n: usize) {
        self.flying.set(self.flying.get() + n);
    }

    /// Removes one operation.
    pub fn done(&self) {
        let left = self.flying.get() - 1;
        self.flying.set(left);
        if left == self.low.get()
            && let Some(waker) = self.waker.borrow_mut().take()
        {
            waker.wake();
        }
    }

    /// Waits until no more than `low` are left.
    pub async fn at_most(&self, low: usize) {
        self.low.set(low);
        poll_fn(|cx| {
            if self.flying.get() <= low {
                return Poll::Ready(());
            }
            *self.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// The window of a generator that lets any thread run its tasks.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SharedWindow {
    flying: AtomicUsize,
    low: AtomicUsize,
    waker: AtomicWaker,
}

impl SharedWindow {
    /// Makes a window that lives forever.
    pub fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    /// Adds `n` operations.
    pub fn add(&self, n: usize) {
        self.flying.fetch_add(n, Ordering::Relaxed);
    }

    /// Removes one operation.
    pub fn done(&self) {
        let left = self.flying.fetch_sub(1, Ordering::AcqRel) - 1;
        if left == self.low.load(Ordering::Relaxed) {
            self.waker.wake();
        }
    }

    /// Waits until no more than `low` are left. Only one task may wait at a time, and always for the same `low`.
    pub async fn at_most(&self, low: usize) {
        self.low.store(low, Ordering::Relaxed);
        poll_fn(|cx| {
            self.waker.register(cx.waker());
            if self.flying.load(Ordering::Acquire) <= low {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}
