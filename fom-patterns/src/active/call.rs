//! The future of one call.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use fom_protocol::sync::block_on;
use fom_runtime::{
    Runtime,
    context::Local,
    extension::holds_locality,
    time::{Instant, Sleep},
};
use futures::{FutureExt, future};

use crate::active::{
    ActiveCallError,
    object_handle::{ObjectHandle, Place, is_current},
    servant::ANSWER,
    slot::{Outcome, Slot},
};

/// A call in progress: a future of the method's return value. Calling the proxy's method has already queued the
/// request. Calls from one thread are queued in their order.
///
/// Await the `Call`, or use [`wait`](Self::wait) in a plain thread. Dropping the `Call` does not stop the call: the
/// method still runs in its turn, and its return value is dropped. The exception is a call that waits for room
/// ([`WhenFull::Wait`](crate::active::WhenFull::Wait)): dropping the `Call` takes it back. To undo a call,
/// [cancel](Self::cancel) it.
///
/// # Cancel safety
///
/// As a future, a `Call` is cancel safe: the outcome stays until it is taken.
#[must_use = "this value has the outcome of the call, and says whether the object took it"]
pub struct Call<T> {
    slot: Arc<Slot<T>>,
    /// `None` if the call was refused, and so is answered.
    place: Option<Place>,
    /// Whether the request may still wait for room.
    outside: bool,
    deadline: Option<Box<(Sleep, Duration)>>,
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("object", &self.slot.handle.name())
            .field("ready", &self.is_ready())
            .finish()
    }
}

impl<T> Call<T> {
    pub(super) fn new(slot: Arc<Slot<T>>, queued: Option<(Place, bool)>) -> Self {
        Self {
            slot,
            place: queued.map(|(place, _)| place),
            outside: queued.is_some_and(|(_, waits)| waits),
            deadline: None,
        }
    }

    pub(super) fn handle(&self) -> &Arc<dyn ObjectHandle> {
        &self.slot.handle
    }

    /// Returns whether the outcome is available.
    pub fn is_ready(&self) -> bool {
        self.slot.is_ready()
    }

    /// Cancels the call. The effect depends on the state of the call:
    ///
    /// - In the list: the request is removed, and the call fails with [`ActiveCallError::Cancelled`] at once.
    /// - Running, async method: the method is dropped at its next wait, and the call fails with
    ///   [`ActiveCallError::Cancelled`].
    /// - Running, plain method: the method reads [`is_cancelled`](crate::active::is_cancelled). Its return
    ///   value is the answer.
    /// - Answered: nothing happens.
    pub fn cancel(&self) {
        self.canceller().cancel();
    }

    /// Returns a [`Canceller`], which cancels the call from elsewhere while a caller waits for the outcome.
    pub fn canceller(&self) -> Canceller {
        Canceller(self.place.map(|place| (Arc::clone(self.handle()), place)))
    }

    /// Sets a deadline for the call: `time` from now, on the runtime's clock. At the deadline the wait fails with
    /// [`ActiveCallError::TimedOut`], and the call is cancelled. Only a wait checks the deadline. A call that no caller
    /// waits for has no deadline.
    pub fn within(mut self, time: Duration) -> Self {
        let sleep = self.handle().runtime().sleep(time);
        self.deadline = Some(Box::new((sleep, time)));
        self
    }

    /// Like [`within`](Self::within), with the deadline at the time `at` of the runtime's clock ([`Runtime::now`]).
    pub fn until(self, at: Instant) -> Self {
        let now = self.handle().runtime().now();
        self.within(at - now)
    }

    /// Blocks the thread until the call is answered. For threads that are not handlers.
    ///
    /// # Errors
    ///
    /// Fails with the call's [`ActiveCallError`]. Fails at once with [`ActiveCallError::OnHandler`] if waiting would
    /// hold up a locality, and with [`ActiveCallError::OwnObject`] if waiting would never end. In these two cases the
    /// call is cancelled.
    pub fn wait(self) -> Result<T, ActiveCallError> {
        if let Err(error) = may_block(&self) {
            self.cancel();
            return Err(error);
        }
        block_on(self)
    }

    /// Blocks the thread for at most `time`, on the runtime's clock. Returns `None` if the call is not answered by
    /// then. The call continues, and the caller can wait again.
    ///
    /// # Errors
    ///
    /// Fails like [`wait`](Self::wait), but does not cancel the call.
    ///
    /// # Panics
    ///
    /// Panics if the outcome was already returned.
    pub fn wait_within(&mut self, time: Duration) -> Option<Result<T, ActiveCallError>> {
        if let Err(error) = may_block(self) {
            return Some(Err(error));
        }
        let sleep = self.handle().runtime().sleep(time);
        block_on(async {
            match future::select(self, sleep).await {
                future::Either::Left((outcome, _)) => Some(outcome),
                future::Either::Right(_) => None,
            }
        })
    }

    /// Like [`wait_within`](Self::wait_within), until the time `at` of the runtime's clock ([`Runtime::now`]).
    ///
    /// # Errors
    ///
    /// Fails like [`wait_within`](Self::wait_within).
    ///
    /// # Panics
    ///
    /// Panics like [`wait_within`](Self::wait_within).
    pub fn wait_until(&mut self, at: Instant) -> Option<Result<T, ActiveCallError>> {
        let now = self.handle().runtime().now();
        self.wait_within(at - now)
    }

    /// Returns a future that can be cloned. All clones get the same outcome.
    pub fn shared(self) -> future::Shared<Self>
    where
        T: Clone,
    {
        FutureExt::shared(self)
    }

    /// Calls `f` once with the outcome: in the thread that answers the call, or immediately if the call is already
    /// answered. No lock is held during `f`. To run code in a certain locality, use [`then`](Self::then), or await the
    /// call there.
    ///
    /// A panic in `f` is recorded as an [incident](fom_runtime::observe::Operations::incidents) and affects nothing
    /// else.
    pub fn observe(self, f: impl FnOnce(Result<&T, &ActiveCallError>) + Send + 'static) -> Self {
        self.slot.observe(Box::new(f));
        self
    }

    /// Delivers the outcome into a locality: calls `f` there while no other code of that locality runs. A deadline set
    /// with [`within`](Self::within) is ignored. If the runtime has shut down by then, `f` is dropped.
    ///
    /// A fom does not need `then`: the code after its `.await` runs in its own locality. To deliver the outcome by key,
    /// submit a fom with that key that awaits the call.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use fom_patterns::prelude::*;
    ///
    /// struct Adder;
    ///
    /// #[active]
    /// impl Adder {
    ///     pub fn add(&self, a: u64, b: u64) -> u64 {
    ///         a + b
    ///     }
    /// }
    ///
    /// let runtime = Runtime::builder().localities(2).build()?;
    /// let adder = Adder.activate(&runtime)?;
    /// let (tell, told) = mpsc::channel();
    /// adder.add(3, 4).then(&runtime, 1, move |local, sum| {
    ///     // The receiver may be gone.
    ///     let _ = tell.send((local.index(), sum.ok()));
    /// });
    /// assert_eq!(told.recv()?, (1, Some(7)));
    /// # Ok::<(), BoxError>(())
    /// ```
    pub fn then(
        mut self,
        runtime: &Runtime,
        locality: usize,
        f: impl FnOnce(&mut Local<'_>, Result<T, ActiveCallError>) + Send + 'static,
    ) where
        T: Send + 'static,
    {
        let runtime = runtime.detached();
        // The request waits for room as long as the runtime lives: dropping `self` must not take it back.
        self.outside = false;
        self.slot.consume(Box::new(move |outcome| {
            // A runtime that has shut down delivers nothing.
            let _ = runtime.post(locality, move |local| f(local, outcome));
        }));
    }
}

/// Checks whether this thread may block for the call. An answered call needs no check.
pub(super) fn may_block<T>(call: &Call<T>) -> Result<(), ActiveCallError> {
    if call.is_ready() {
        Ok(())
    } else if is_current(call.handle()) {
        Err(ActiveCallError::OwnObject)
    } else if holds_locality() {
        Err(ActiveCallError::OnHandler)
    } else {
        Ok(())
    }
}

impl<T> Future for Call<T> {
    type Output = Outcome<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<T>> {
        let this = &mut *self;
        if let Poll::Ready(outcome) = this.slot.poll(cx.waker()) {
            return Poll::Ready(outcome);
        }
        if is_current(this.handle()) {
            this.cancel();
            return Poll::Ready(Err(ActiveCallError::OwnObject));
        }
        if let Some(deadline) = &mut this.deadline
            && Pin::new(&mut deadline.0).poll(cx).is_ready()
        {
            let time = deadline.1;
            this.cancel();
            return Poll::Ready(Err(ActiveCallError::TimedOut(time)));
        }
        ANSWER.record();
        Poll::Pending
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        if let (true, Some(place)) = (self.outside, self.place) {
            self.slot.handle.withdraw(place);
        }
    }
}

/// Cancels a call from elsewhere; see [`Call::canceller`].
#[derive(Clone)]
pub struct Canceller(Option<(Arc<dyn ObjectHandle>, Place)>);

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Canceller")
    }
}

impl Canceller {
    /// Cancels the call, like [`Call::cancel`].
    pub fn cancel(&self) {
        if let Some((handle, place)) = &self.0 {
            handle.cancel(*place);
        }
    }
}
