//! A wait for room in the queue.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use crate::{
    admission::{
        Queued,
        place::{Entry, Place},
        tagged::refused,
    },
    operation::Operation,
    runtime::Refused,
};

/// A wait for room; see [`Tagged::start_when_room`](super::Tagged::start_when_room). The first poll decides the place
/// among the waiting operations.
///
/// # Cancel safety
///
/// Dropping the wait before it returns a [`Queued`] cancels the operation. If the operation has not started by then, it
/// is dropped and does not start.
#[must_use = "a wait does nothing until it is awaited"]
pub struct WaitForRoom<O: Operation> {
    place: Option<Arc<Place<O>>>,
    /// Whether the operation was submitted to the gate.
    begun: bool,
}

impl<O: Operation> fmt::Debug for WaitForRoom<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitForRoom")
    }
}

impl<O: Operation> WaitForRoom<O> {
    pub(super) fn new(place: Arc<Place<O>>) -> Self {
        Self {
            place: Some(place),
            begun: false,
        }
    }
}

impl<O: Operation> Future for WaitForRoom<O> {
    type Output = Result<Queued<O>, Refused<O>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(place) = &this.place else {
            panic!("polled after it was ready")
        };
        if !this.begun {
            this.begun = true;
            let entry: Arc<dyn Entry> = place.clone();
            match place.shared.submit_or_wait(&entry) {
                // The operation is in the queue, or has left it meanwhile.
                Ok(true) => place.let_in(),
                Ok(false) => {}
                Err(reason) => {
                    let operation = place.take_back();
                    this.place = None;
                    return match operation {
                        Some(operation) => Poll::Ready(Err(refused(reason, operation))),
                        None => unreachable!("nobody else has seen it"),
                    };
                }
            }
        }
        let let_in = std::task::ready!(place.poll_let_in(cx.waker()));
        match (this.place.take(), let_in) {
            (_, Err((reason, operation))) => Poll::Ready(Err(refused(reason, operation))),
            (Some(place), Ok(())) => Poll::Ready(Ok(Queued::new(place))),
            (None, Ok(())) => unreachable!("looked at above"),
        }
    }
}

impl<O: Operation> Drop for WaitForRoom<O> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take()
            && self.begun
        {
            let entry: Arc<dyn Entry> = place.clone();
            if !place.shared.wait_no_more(&entry) {
                // The operation was let in just now.
                Queued::new(place).cancel();
            }
        }
    }
}
