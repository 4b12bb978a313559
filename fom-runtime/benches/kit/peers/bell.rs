//! The leanest way for a peer's operation to wait for another thread.

use std::{
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll},
};

use futures_util::task::AtomicWaker;

/// A number for a task that waits for it, and the task's waker: no allocation, no queue. Zero means no number.
#[derive(Debug, Default)]
pub struct Bell {
    waker: AtomicWaker,
    number: AtomicU64,
}

impl Bell {
    /// Makes `n` bells that live forever.
    pub fn some(n: usize) -> &'static [Self] {
        Box::leak((0..n).map(|_| Self::default()).collect())
    }

    /// Gives the number, from any thread.
    pub fn ring(&self, number: u64) {
        self.number.store(number, Ordering::Release);
        self.waker.wake();
    }

    /// Waits for a number. Only one task may wait.
    pub fn heard(&'static self) -> Heard {
        Heard(self)
    }

    fn take(&self) -> Poll<u64> {
        if self.number.load(Ordering::Acquire) == 0 {
            return Poll::Pending;
        }
        Poll::Ready(self.number.swap(0, Ordering::Acquire))
    }
}

/// A wait for a [`Bell`].
#[derive(Debug)]
#[must_use = "the wait begins when it is awaited"]
pub struct Heard(&'static Bell);

impl Future for Heard {
    type Output = u64;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u64> {
        let number = self.0.take();
        if number.is_ready() {
            return number;
        }
        self.0.waker.register(cx.waker());
        // The bell may have been rung meanwhile.
        self.0.take()
    }
}
