//! The context of a phase function: its way to the runtime, its locality, events, answers and time.

mod block;
mod call;

use std::{any::type_name, fmt, future::poll_fn, sync::Arc, task::Poll, time::Duration};

pub use block::{BlockGuard, BlockingCx};
pub use call::Reply;

use crate::{
    defaults::NoEvent,
    fom::{Carried, Cause, FomAddress, Header, Mailed, RunningFom, WaitingFor},
    id::{FomId, Key},
    instant::Instant,
    locality::Sleep,
    operation::Operation,
    runtime::{EventSender, Runtime, Shared, Submission},
    step_key::StepKey,
};

/// The context of a running fom; `E` is the type of its events.
pub struct Cx<'a, E = NoEvent> {
    fom: &'a Mailed<E>,
}

/// For generated code: returns the context of a phase function.
#[doc(hidden)]
#[inline(always)]
pub fn context<E>(fom: RunningFom<'_, E>) -> Cx<'_, E> {
    Cx { fom: fom.get() }
}

/// For generated code: returns why the phase has failed.
#[doc(hidden)]
pub fn failure<C: 'static, E>(fom: RunningFom<'_, E>) -> Cause<C> {
    let Some(cause) = fom.get().failure().take() else {
        unreachable!("a function for a failure without one")
    };
    cause
}

impl<E> fmt::Debug for Cx<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = self.fom;
        write!(
            f,
            "Cx({} {} in {})",
            header.type_name(),
            header.id(),
            header.phase_name()
        )
    }
}

impl<'a, E> Cx<'a, E> {
    pub(crate) fn header(&self) -> &Header {
        self.fom
    }

    /// Returns the fom's id.
    pub fn id(&self) -> FomId {
        self.fom.id()
    }

    /// Returns the key that the fom was submitted with.
    pub fn key(&self) -> Option<&Key> {
        self.fom.key()
    }

    /// Returns the name of the [series](crate::Submission::serial) that the fom was submitted to.
    pub fn serial(&self) -> Option<&Key> {
        self.fom.turn().serial().map(|of| &of.key)
    }

    /// Returns the index of the fom's home.
    pub fn locality(&self) -> usize {
        self.fom.home_index()
    }

    /// Returns the number of failed attempts at this phase before this one.
    pub fn attempt(&self) -> u32 {
        self.fom.visit().attempt()
    }

    /// Returns the idempotency key for calls from this function. It names this visit of this phase or, once the
    /// function has taken an event, the last event that it took. The key stays the same when the function runs again,
    /// or takes the event again, after a failed attempt or in another process. See [`StepKey`].
    ///
    /// ```
    /// use fom_runtime::prelude::*;
    ///
    /// /// The header of a request to a payment provider.
    /// fn header(cx: &Cx<'_>) -> String {
    ///     format!("Idempotency-Key: {}", cx.step_key())
    /// }
    /// ```
    pub fn step_key(&self) -> StepKey {
        self.fom.visit().step_key()
    }

    /// Returns the messages of the failed attempts at this phase, oldest first, also of attempts before a restart. At
    /// most sixteen are kept. A message is cut after 400 characters.
    pub fn causes(&self) -> Vec<String> {
        self.fom
            .visit()
            .tried()
            .into_iter()
            .map(|attempt| attempt.error)
            .collect()
    }

    /// Returns whether the fom was told to end. This is true after a cancel that the phase hears, after the deadline of
    /// the phase, and when a shutdown no longer waits for the fom. [`deadline`](Self::deadline) tells a missed deadline
    /// from the other cases. The fom is dropped at its next wait; the result of a plain function still counts.
    pub fn is_cancelled(&self) -> bool {
        self.fom.interrupt().is_some()
    }

    /// Returns the time on the runtime's clock.
    pub fn now(&self) -> Instant {
        self.fom.env().clock.now()
    }

    /// Returns the deadline of this visit, on the runtime's clock.
    pub fn deadline(&self) -> Option<Instant> {
        self.fom.visit().deadline().map(Instant::from_nanos)
    }

    /// Returns a handle to the runtime, for example to find other foms. The handle does not keep the runtime alive.
    pub fn runtime(&self) -> Runtime {
        Runtime::of(Shared::of(self.fom))
    }

    /// Submits an operation to the runtime of this fom. The home of the new fom is this locality, unless a key or a
    /// placement says otherwise.
    #[inline(always)]
    pub fn submit<O: Operation>(&self, operation: O) -> Submission<'_, O> {
        Submission::new(Shared::of(self.fom), operation)
    }

    /// Returns the value of this type that the fom [carries](crate::Builder::carry). Returns `None` if the runtime was built
    /// without it.
    pub fn carried<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Carried::of(self.fom)?.get()
    }

    /// Returns the resource of this type.
    ///
    /// # Panics
    ///
    /// Panics if the runtime was built without the resource; the fom then fails with that message.
    pub fn resource<T: Send + Sync + 'static>(&self) -> &T {
        resource(self.fom).0
    }

    /// Returns a way to send events to this fom, for a component that answers later.
    pub fn address(&self) -> EventSender<E> {
        EventSender::of(self.fom)
    }

    /// Returns the address of this fom without its operation type, for packages on top of the runtime.
    pub fn fom_address(&self) -> FomAddress {
        FomAddress::of(self.fom)
    }

    /// Takes the oldest event that this phase takes, if there is one.
    pub fn try_event(&self) -> Option<E> {
        self.fom.take_event()
    }

    /// Waits for an event that this phase takes (`on(..)`). Other events stay in the mailbox, in order. A phase without
    /// `on` takes no events: there this method waits until the deadline or a cancel.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: an event is taken only when it is returned.
    pub async fn event(&self) -> E {
        poll_fn(|_| match self.fom.take_event() {
            Some(event) => Poll::Ready(event),
            None => {
                self.fom.waiting.set(WaitingFor::Event);
                Poll::Pending
            }
        })
        .await
    }

    /// As [`event`](Self::event), for at most this time on the runtime's clock.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn event_within(&self, time: Duration) -> Option<E> {
        let mut sleep = std::pin::pin!(self.sleep(time));
        poll_fn(|cx| {
            if let Some(event) = self.fom.take_event() {
                return Poll::Ready(Some(event));
            }
            let slept = sleep.as_mut().poll(cx).map(|()| None);
            self.fom.waiting.set(WaitingFor::Event);
            slept
        })
        .await
    }

    /// Sleeps on the runtime's clock.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn sleep(&self, time: Duration) -> Sleep {
        Sleep::of(self.fom, time)
    }

    /// Runs `f` with the data of this type that the locality has, without a lock. `f` can reach nothing else of the
    /// locality.
    ///
    /// # Panics
    ///
    /// Panics if the runtime was built without [`locality_data`](crate::Builder::locality_data) of this type, or inside
    /// another `local`.
    pub fn local<T: Send + 'static, R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R {
        self.fom.flags.settle();
        let done = crate::locality::with_core(|core| core.data_mut::<T>().map(f));
        match done {
            Some(Some(done)) => done,
            Some(None) => panic!(
                "there is no locality data of type `{0}`; give `Builder::locality_data` one that makes `{0}`",
                type_name::<T>()
            ),
            None => panic!(
                "the locality's data is taken: `local` inside `local`, or outside of the fom's own locality"
            ),
        }
    }
}

fn resource<T: Send + Sync + 'static>(fom: &Header) -> (&T, u32) {
    match Shared::of(fom).resources.get() {
        Some(found) => found,
        None => panic!(
            "there is no resource of type `{0}`; give one to `Builder::resource`",
            type_name::<T>()
        ),
    }
}
