//! A wait for room in the queue.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use fom_runtime::{Operation, Refused};
use tokio::sync::oneshot;

use crate::admission::{
    Queued,
    waiting_request::{AnyProgress as _, WaitingRequest},
};

/// A wait for room; see [`AdmissionRequest::start_when_room`](super::AdmissionRequest::start_when_room). The first poll
/// decides the place among the waiting operations.
///
/// # Cancel safety
///
/// Dropping the wait before it returns a [`Queued`] cancels the operation. If the operation has not started by then, it
/// is dropped and does not start.
#[must_use = "a wait does nothing until it is awaited"]
pub struct WaitForRoom<O: Operation> {
    queued: Option<Queued<O>>,
    room: oneshot::Receiver<()>,
    /// Whether the operation was submitted to the intake.
    begun: bool,
}

impl<O: Operation> fmt::Debug for WaitForRoom<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitForRoom")
    }
}

impl<O: Operation> WaitForRoom<O> {
    pub(super) fn new(queued: Queued<O>, room: oneshot::Receiver<()>) -> Self {
        Self {
            queued: Some(queued),
            room,
            begun: false,
        }
    }
}

impl<O: Operation> Future for WaitForRoom<O> {
    type Output = Result<Queued<O>, Refused<O>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(queued) = &this.queued else {
            panic!("polled after it was ready")
        };
        let request = &queued.request;
        if !this.begun {
            this.begun = true;
            match request.enter(true) {
                // The operation is in the queue, or has left it meanwhile.
                Ok(true) => request.progress.end_wait(true),
                Ok(false) => {}
                Err(refused) => {
                    this.queued = None;
                    return Poll::Ready(Err(refused));
                }
            }
        }
        let is_given_back = ready!(Pin::new(&mut this.room).poll(cx)).is_err();
        if is_given_back && let Some(operation) = request.progress.take_back() {
            let reason = request.shared.runtime.extension().late_reason();
            this.queued = None;
            return Poll::Ready(Err(Refused::new(reason, operation)));
        }
        match this.queued.take() {
            Some(queued) => Poll::Ready(Ok(queued)),
            None => unreachable!("looked at above"),
        }
    }
}

impl<O: Operation> Drop for WaitForRoom<O> {
    fn drop(&mut self) {
        if let Some(queued) = self.queued.take()
            && self.begun
        {
            let request: Arc<WaitingRequest> = queued.request.clone();
            if !request.shared.stop_waiting(&request) {
                // The operation was let in just now.
                queued.cancel();
            }
        }
    }
}
