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
    waiting_request::{Entry, LetIn},
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
    room: oneshot::Receiver<LetIn<O>>,
    /// Whether the operation was submitted to the intake.
    begun: bool,
}

impl<O: Operation> fmt::Debug for WaitForRoom<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitForRoom")
    }
}

impl<O: Operation> WaitForRoom<O> {
    pub(super) fn new(queued: Queued<O>, room: oneshot::Receiver<LetIn<O>>) -> Self {
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
        if !this.begun {
            this.begun = true;
            let request = &queued.request;
            let entry: Arc<dyn Entry> = request.clone();
            match request.shared.submit_or_wait(&entry) {
                // The operation is in the queue, or has left it meanwhile.
                Ok(true) => request.let_in(),
                Ok(false) => {}
                Err(reason) => {
                    let operation = request.take_back();
                    this.queued = None;
                    return match operation {
                        Some(operation) => Poll::Ready(Err(Refused::new(reason, operation))),
                        None => unreachable!("no other code has seen it"),
                    };
                }
            }
        }
        // Without an answer, the operation has left the queue already.
        let let_in = ready!(Pin::new(&mut this.room).poll(cx)).unwrap_or(Ok(()));
        match (this.queued.take(), let_in) {
            (_, Err((reason, operation))) => Poll::Ready(Err(Refused::new(reason, operation))),
            (Some(queued), Ok(())) => Poll::Ready(Ok(queued)),
            (None, Ok(())) => unreachable!("looked at above"),
        }
    }
}

impl<O: Operation> Drop for WaitForRoom<O> {
    fn drop(&mut self) {
        if let Some(queued) = self.queued.take()
            && self.begun
        {
            let entry: Arc<dyn Entry> = queued.request.clone();
            if !queued.request.shared.stop_waiting(&entry) {
                // The operation was let in just now.
                queued.cancel();
            }
        }
    }
}
