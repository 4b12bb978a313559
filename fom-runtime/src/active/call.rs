//! The future of one call.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use crate::{
    Sleep,
    active::{
        CallError,
        servant::set_waiting,
        slot::{Outcome, Slot},
        station::{Place, is_current},
    },
    locality::has_core,
};

/// A call on its way: a future of what the method returns. The request was queued when the proxy's method was called, and
/// calls of one thread are queued in their order.
///
/// Await it, or [`wait`](Self::wait) in a plain thread. Dropping it leaves the call alone: the method is called in its turn, and
/// what it returns is dropped. Who wants the call undone [cancels](Self::cancel) it.
///
/// # Cancel safety
///
/// As a future it is cancel safe: the outcome stays until it is taken.
#[must_use = "whether the call was taken, and what it came to, is told here"]
pub struct Call<T> {
    slot: Arc<Slot<T>>,
    /// None: it was refused, and is answered.
    place: Option<Place>,
    deadline: Option<(Sleep, Duration)>,
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("object", &self.slot.station.name())
            .field("ready", &self.is_ready())
            .finish()
    }
}

impl<T> Call<T> {
    pub(super) fn new(slot: Arc<Slot<T>>, place: Option<Place>) -> Self {
        Self {
            slot,
            place,
            deadline: None,
        }
    }

    /// Whether the outcome is there.
    pub fn is_ready(&self) -> bool {
        self.slot.is_ready()
    }

    /// Calls `f` with the outcome, once: in the thread that answers the call, or here and now if it is answered already. No lock is
    /// held meanwhile. What is to be done in a certain locality is better awaited there.
    ///
    /// A panic in `f` in the answering thread is an [incident](crate::Operations::incidents) and harms nobody.
    pub fn observe(self, f: impl FnOnce(Result<&T, &CallError>) + Send + 'static) -> Self {
        self.slot.observe(Box::new(f));
        self
    }

    /// Cancels the call. In the list: it is taken out, and answered [`CallError::Cancelled`] at once. Running: an async method
    /// is dropped at its next wait and answered so; a plain one reads [`is_cancelled`](crate::active::is_cancelled), and what it
    /// returns is the answer. Ended: nothing happens.
    pub fn cancel(&self) {
        if let Some(place) = self.place {
            self.slot.station.cancel(place);
        }
    }

    /// Gives the call this much time from now on, on the runtime's clock. Who waits for it is answered
    /// [`CallError::TimedOut`] then, and the call is cancelled. The time is looked at by who waits: a call that nobody
    /// awaits has no deadline.
    pub fn within(mut self, time: Duration) -> Self {
        let sleep = Sleep::new(self.slot.station.home(), time);
        self.deadline = Some((sleep, time));
        self
    }

    /// Blocks the thread until the call is answered: for threads that are no handlers.
    ///
    /// # Errors
    ///
    /// [`CallError`]; [`CallError::OnHandler`] and [`CallError::OwnObject`] at once, where waiting would hold up a locality or
    /// be for ever. Then the call is cancelled.
    pub fn wait(self) -> Result<T, CallError> {
        if !self.is_ready() && (has_core() || crate::locality::is_taken()) {
            self.cancel();
            return Err(if is_current(&self.slot.station) {
                CallError::OwnObject
            } else {
                CallError::OnHandler
            });
        }
        crate::sync::block_on(self)
    }
}

impl<T> Future for Call<T> {
    type Output = Outcome<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<T>> {
        let this = &mut *self;
        if let Poll::Ready(outcome) = this.slot.poll(cx.waker()) {
            return Poll::Ready(outcome);
        }
        if is_current(&this.slot.station) {
            this.cancel();
            return Poll::Ready(Err(CallError::OwnObject));
        }
        if let Some((sleep, time)) = &mut this.deadline
            && Pin::new(sleep).poll(cx).is_ready()
        {
            let time = *time;
            this.cancel();
            return Poll::Ready(Err(CallError::TimedOut(time)));
        }
        set_waiting();
        Poll::Pending
    }
}
