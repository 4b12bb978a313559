//! A wait for room in the queue.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use fom_runtime::{Operation, Refused};

use crate::admission::{
    Queued,
    waiting_request::{Entry, WaitingRequest},
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
    request: Option<Arc<WaitingRequest<O>>>,
    /// Whether the operation was submitted to the intake.
    begun: bool,
}

impl<O: Operation> fmt::Debug for WaitForRoom<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitForRoom")
    }
}

impl<O: Operation> WaitForRoom<O> {
    pub(super) fn new(request: Arc<WaitingRequest<O>>) -> Self {
        Self {
            request: Some(request),
            begun: false,
        }
    }
}

impl<O: Operation> Future for WaitForRoom<O> {
    type Output = Result<Queued<O>, Refused<O>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(request) = &this.request else {
            panic!("polled after it was ready")
        };
        if !this.begun {
            this.begun = true;
            let entry: Arc<dyn Entry> = request.clone();
            match request.shared.submit_or_wait(&entry) {
                // The operation is in the queue, or has left it meanwhile.
                Ok(true) => request.let_in(),
                Ok(false) => {}
                Err(reason) => {
                    let operation = request.take_back();
                    this.request = None;
                    return match operation {
                        Some(operation) => Poll::Ready(Err(Refused::new(reason, operation))),
                        None => unreachable!("no other code has seen it"),
                    };
                }
            }
        }
        let let_in = std::task::ready!(request.poll_let_in(cx.waker()));
        match (this.request.take(), let_in) {
            (_, Err((reason, operation))) => Poll::Ready(Err(Refused::new(reason, operation))),
            (Some(request), Ok(())) => Poll::Ready(Ok(Queued::new(request))),
            (None, Ok(())) => unreachable!("looked at above"),
        }
    }
}

impl<O: Operation> Drop for WaitForRoom<O> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take()
            && self.begun
        {
            let entry: Arc<dyn Entry> = request.clone();
            if !request.shared.stop_waiting(&entry) {
                // The operation was let in just now.
                Queued::new(request).cancel();
            }
        }
    }
}
