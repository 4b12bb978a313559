//! The future of one call.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt, future};

use crate::{
    Local, Runtime, Sleep,
    active::{
        CallError,
        servant::set_waiting,
        slot::{Outcome, Slot},
        station::{Place, Station, is_current},
    },
    locality::{has_core, is_taken},
};

/// A call on its way: a future of what the method returns. The request was queued when the proxy's method was called, and
/// calls of one thread are queued in their order.
///
/// Await it, or [`wait`](Self::wait) in a plain thread. Dropping it leaves the call alone: the method is called in its turn, and
/// what it returns is dropped; only a call that [waits for room](crate::active::WhenFull::Wait) is taken back. Who wants the call
/// undone [cancels](Self::cancel) it.
///
/// # Cancel safety
///
/// As a future it is cancel safe: the outcome stays until it is taken.
#[must_use = "whether the call was taken, and what it came to, is told here"]
pub struct Call<T> {
    slot: Arc<Slot<T>>,
    /// None: it was refused, and is answered.
    place: Option<Place>,
    /// It may still wait for room.
    outside: bool,
    deadline: Option<Box<(Sleep, Duration)>>,
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
    pub(super) fn new(slot: Arc<Slot<T>>, queued: Option<(Place, bool)>) -> Self {
        Self {
            slot,
            place: queued.map(|(place, _)| place),
            outside: queued.is_some_and(|(_, waits)| waits),
            deadline: None,
        }
    }

    pub(super) fn station(&self) -> &Arc<dyn Station> {
        &self.slot.station
    }

    /// Whether the outcome is there.
    pub fn is_ready(&self) -> bool {
        self.slot.is_ready()
    }

    /// Cancels the call. In the list: it is taken out, and answered [`CallError::Cancelled`] at once. Running: an async method
    /// is dropped at its next wait and answered so; a plain one reads [`is_cancelled`](crate::active::is_cancelled), and what it
    /// returns is the answer. Answered: nothing happens.
    pub fn cancel(&self) {
        self.canceller().cancel();
    }

    /// What cancels the call from elsewhere, while somebody waits for it.
    pub fn canceller(&self) -> Canceller {
        Canceller(self.place.map(|place| (Arc::clone(self.station()), place)))
    }

    /// Gives the call this much time from now on, on the runtime's clock. Who waits for it is answered
    /// [`CallError::TimedOut`] then, and the call is cancelled. The time is looked at by who waits: a call that nobody
    /// waits for has no deadline.
    pub fn within(mut self, time: Duration) -> Self {
        let sleep = Sleep::new(self.station().home(), time);
        self.deadline = Some(Box::new((sleep, time)));
        self
    }

    /// As [`within`](Self::within), until this time of the runtime's clock ([`Runtime::now`]).
    pub fn until(self, at: Duration) -> Self {
        let now = self.station().world().clock.now();
        self.within(at.saturating_sub(now))
    }

    /// Blocks the thread until the call is answered: for threads that are no handlers.
    ///
    /// # Errors
    ///
    /// [`CallError`]; [`CallError::OnHandler`] and [`CallError::OwnObject`] at once, where waiting would hold up a locality or
    /// be for ever. Then the call is cancelled.
    pub fn wait(self) -> Result<T, CallError> {
        if let Err(error) = may_block(&self) {
            self.cancel();
            return Err(error);
        }
        crate::sync::block_on(self)
    }

    /// Blocks the thread for this time at most, on the runtime's clock. None: the call is not answered yet, and goes on; ask again.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait), but the call is not cancelled.
    ///
    /// # Panics
    ///
    /// After it gave the outcome.
    pub fn wait_within(&mut self, time: Duration) -> Option<Result<T, CallError>> {
        if let Err(error) = may_block(self) {
            return Some(Err(error));
        }
        let sleep = Sleep::new(self.station().home(), time);
        crate::sync::block_on(async {
            match future::select(self, sleep).await {
                future::Either::Left((outcome, _)) => Some(outcome),
                future::Either::Right(_) => None,
            }
        })
    }

    /// As [`wait_within`](Self::wait_within), until this time of the runtime's clock ([`Runtime::now`]).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Panics
    ///
    /// As there.
    pub fn wait_until(&mut self, at: Duration) -> Option<Result<T, CallError>> {
        let now = self.station().world().clock.now();
        self.wait_within(at.saturating_sub(now))
    }

    /// A future that can be cloned: all clones get the same outcome.
    pub fn shared(self) -> future::Shared<Self>
    where
        T: Clone,
    {
        FutureExt::shared(self)
    }

    /// Calls `f` with the outcome, once: in the thread that answers the call, or here and now if it is answered already. No lock is
    /// held meanwhile. What is to be done in a certain locality goes there with [`then`](Self::then), or is awaited there.
    ///
    /// A panic in `f` is an [incident](crate::Operations::incidents) and harms nobody.
    pub fn observe(self, f: impl FnOnce(Result<&T, &CallError>) + Send + 'static) -> Self {
        self.slot.observe(Box::new(f));
        self
    }

    /// Has the outcome delivered into a locality: `f` is called there, where nothing else of that locality runs. Time that was given
    /// with [`within`](Self::within) is not looked at. When the runtime has shut down by then, `f` is dropped.
    ///
    /// A fom needs nothing of the kind: what stands behind its `.await` runs in its own locality. With a key, submit a fom with
    /// that key that awaits the call.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use fom_runtime::prelude::*;
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
    ///     // Whoever asked may have gone.
    ///     let _ = tell.send((local.index(), sum.ok()));
    /// });
    /// assert_eq!(told.recv()?, (1, Some(7)));
    /// # Ok::<(), BoxError>(())
    /// ```
    pub fn then(
        mut self,
        runtime: &Runtime,
        locality: usize,
        f: impl FnOnce(&mut Local<'_>, Result<T, CallError>) + Send + 'static,
    ) where
        T: Send + 'static,
    {
        let runtime = Runtime::of(runtime.world());
        // It is waited for as long as the runtime lives.
        self.outside = false;
        self.slot.consume(Box::new(move |outcome| {
            // A runtime that has shut down delivers nothing.
            let _ = runtime.post(locality, move |local| f(local, outcome));
        }));
    }
}

/// Whether this thread may be blocked for the call; not asked if that is answered.
pub(super) fn may_block<T>(call: &Call<T>) -> Result<(), CallError> {
    if call.is_ready() {
        Ok(())
    } else if is_current(call.station()) {
        Err(CallError::OwnObject)
    } else if has_core() || is_taken() {
        Err(CallError::OnHandler)
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
        if is_current(this.station()) {
            this.cancel();
            return Poll::Ready(Err(CallError::OwnObject));
        }
        if let Some(deadline) = &mut this.deadline
            && Pin::new(&mut deadline.0).poll(cx).is_ready()
        {
            let time = deadline.1;
            this.cancel();
            return Poll::Ready(Err(CallError::TimedOut(time)));
        }
        set_waiting();
        Poll::Pending
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        if let (true, Some(place)) = (self.outside, self.place) {
            self.slot.station.withdraw(place);
        }
    }
}

/// Cancels a call from elsewhere; see [`Call::canceller`].
#[derive(Clone)]
pub struct Canceller(Option<(Arc<dyn Station>, Place)>);

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Canceller")
    }
}

impl Canceller {
    /// As [`Call::cancel`].
    pub fn cancel(&self) {
        if let Some((station, place)) = &self.0 {
            station.cancel(*place);
        }
    }
}
