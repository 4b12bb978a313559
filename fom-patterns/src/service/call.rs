//! A call, and the wait for its answer.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::service::{
    CallCause, CallFailure, Refusal, Service, Services,
    awaited::Awaits,
    call_fom,
    call_state::{CallState, NotMade, Outcome, Sink, deliver},
    callback::{self, Callback},
    entry::{Entry, Turned},
    provider::{Provided, Runs},
};
use fom_runtime::{
    Key,
    error::RefusedReason,
    extension::{current_fom, holds_locality},
};

/// A prepared call. It is made when this is awaited, or by [`wait`](Self::wait), [`start`](Self::start),
/// [`then`](Self::then) or [`detach`](Self::detach).
///
/// Every call gets exactly one answer: its result, or a [`CallFailure`]. The failure has the argument if the function
/// was not entered. Waiting calls are foms in the queue, so
/// [`Builder::capacity`](fom_runtime::Builder::capacity) limits them.
#[must_use = "a call does nothing until it is awaited or started"]
pub struct ServiceCall<A, R> {
    services: Services,
    service: Service<A, R>,
    argument: A,
    within: Option<Duration>,
    strand: Option<Key>,
}

impl<A, R> fmt::Debug for ServiceCall<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceCall")
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

impl<A: Send + 'static, R: Send + 'static> ServiceCall<A, R> {
    pub(super) fn new(services: &Services, service: &Service<A, R>, argument: A) -> Self {
        Self {
            services: services.clone(),
            service: service.clone(),
            argument,
            within: None,
            strand: None,
        }
    }

    /// Sets the time limit for the answer, on the runtime's clock. After this time the answer is [`CallCause::Late`]. A
    /// function that was not entered never is. A running function is told to end.
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// Sets the strand of the caller, for the [callback](Self::then), and for services with calls in
    /// [strands](crate::service::Provider::in_strand). A strand is a key and need not be created. Different strands
    /// never wait for each other.
    pub fn strand(mut self, key: impl Into<Key>) -> Self {
        self.strand = Some(key.into());
        self
    }

    /// Makes the call. The returned future resolves to the answer.
    ///
    /// # Errors
    ///
    /// [`CallFailure`] with the argument, if the call was not admitted.
    pub fn start(self) -> Result<Calling<A, R>, CallFailure<A>> {
        let (tell, told) = oneshot::channel();
        let call = self.make(Sink::Caller(tell)).map_err(|made| made.0)?;
        Ok(Calling::new(Some(call), told))
    }

    /// Makes the call and blocks this thread until the answer. For plain threads, and for blocking sections.
    ///
    /// # Errors
    ///
    /// [`CallFailure`]. The cause is [`CallCause::WouldBlock`] if this thread runs a locality, which the wait would
    /// stop.
    pub fn wait(self) -> Result<R, CallFailure<A>> {
        if holds_locality() {
            let cause = CallCause::WouldBlock;
            return Err(self.fail(cause));
        }
        fom_protocol::sync::block_on(self.start()?)
    }

    /// Makes the call without an answer.
    ///
    /// # Errors
    ///
    /// [`CallFailure`] with the argument, if the call was not admitted.
    pub fn detach(self) -> Result<(), CallFailure<A>> {
        let made = self.make(Sink::None);
        made.map(drop).map_err(|made| made.0)
    }

    /// Makes the call and runs `callback` with the answer, in the caller's locality. From outside, the localities take
    /// turns. Callbacks of one [strand](Self::strand) never overlap, and run in the order in which their calls were
    /// answered. A callback must not block.
    ///
    /// The callback runs once for each call, even if the call was not admitted or was cancelled. If the runtime ends
    /// first, the callback runs on the thread that finds this out, and the order of strands ends there. A callback that
    /// panics is reported in [`Operations::incidents`](fom_runtime::observe::Operations::incidents).
    ///
    /// ```
    /// # use fom_patterns::{prelude::*, service::{Provider, Service}};
    /// # fn main() -> Result<(), BoxError> {
    /// static DOUBLE: Service<u64, u64> = Service::new("double");
    /// let runtime = Runtime::builder().localities(1).build()?;
    /// let services = runtime.services();
    /// let _double = services.register(&DOUBLE, Provider::function(|_, n| 2 * n))?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// services.call(&DOUBLE, 21).then(move |answer| tell.send(answer.ok()).unwrap());
    /// assert_eq!(told.recv()?, Some(42));
    /// # Ok(())
    /// # }
    /// ```
    pub fn then(self, callback: impl FnOnce(Result<R, CallFailure<A>>) + Send + 'static) {
        let runtime = &self.services.runtime;
        let locality = match &self.strand {
            Some(strand) => runtime.extension().home_of(&in_strand(strand)),
            None => callback::here(runtime).unwrap_or_else(|| runtime.extension().next_locality()),
        };
        let sink = Sink::Callback(Callback {
            function: Box::new(callback),
            locality,
        });
        self.make_or_answer(sink);
    }

    fn fail(self, cause: CallCause) -> CallFailure<A> {
        CallFailure::new(self.service.name(), cause, Some(self.argument))
    }

    /// Returns the key behind which the call queues.
    fn key(&self, entry: &Entry, provided: &Provided<A, R>) -> Result<Option<Key>, CallCause> {
        match &provided.runs {
            Runs::In(_) => Ok(None),
            Runs::InStrand => Ok(self.strand.as_ref().map(in_strand)),
            Runs::ByKey(key) => {
                let key = super::caught(|| key(&self.argument)).map_err(CallCause::Panicked)?;
                Ok(Some((("service", entry.name.as_str()), key).into()))
            }
        }
    }

    /// Makes the call, or gives back the sink for its answer.
    fn make(self, sink: Sink<A, R>) -> Result<Arc<CallState<A, R>>, NotMade<A, R>> {
        let Services { runtime, registry } = &self.services;
        let found = self.services.find(&self.service);
        let found = found
            .map_err(CallCause::from)
            .and_then(|(entry, provided)| {
                let key = self.key(&entry, &provided)?;
                Ok((entry, provided, key))
            });
        let (entry, provided, key) = match found {
            Ok(found) => found,
            Err(cause) => return Err(Box::new((self.fail(cause), sink))),
        };
        let call = CallState::new(
            runtime,
            (&entry, registry.next()),
            (key.clone(), self.within),
            (self.argument, sink),
        );
        let mut asked = None;
        loop {
            let admitted = (call.id, Arc::clone(&call) as _);
            match entry.admit(|| self.services.domain(), asked, admitted) {
                Ok(()) => break,
                Err(Turned::Ask(domain)) => asked = Some(call.asks(&provided, domain)),
                Err(Turned::Refused(refusal)) => return Err(call.give_back(refusal.into())),
            }
        }
        let submission = runtime.submit(call_fom::ServiceCall::new(Arc::clone(&call) as _));
        let submission = match (key, &provided.runs) {
            (Some(key), _) => submission.key(key).queue(),
            (None, Runs::In(placement)) => submission.place(*placement),
            (None, _) => submission,
        };
        match submission.start() {
            Ok(fom) => call.has_fom(fom.fom().clone()),
            Err(refused) => {
                let cause = match refused.reason() {
                    RefusedReason::ShuttingDown | RefusedReason::Moved => CallCause::Shutdown,
                    reason => CallCause::Refused(Refusal::NoRoom {
                        service: entry.name.clone(),
                        reason,
                    }),
                };
                let not_made = call.give_back(cause);
                drop(refused);
                // Otherwise the call was answered meanwhile.
                if not_made.0.argument.is_some() {
                    entry.take_back(call.id);
                    return Err(not_made);
                }
            }
        }
        call.start_timer();
        Ok(call)
    }

    /// Makes the call. If it is not made, the sink gets the reason.
    fn make_or_answer(self, sink: Sink<A, R>) -> Option<Arc<CallState<A, R>>> {
        let runtime = self.services.runtime.clone();
        match self.make(sink) {
            Ok(call) => Some(call),
            Err(not_made) => {
                let (failure, sink) = *not_made;
                deliver(&runtime, sink, Err(failure));
                None
            }
        }
    }
}

/// Returns the key of the calls of a strand.
fn in_strand(strand: &Key) -> Key {
    Key::from(("strand", strand.clone()))
}

impl<A: Send + 'static, R: Send + 'static> IntoFuture for ServiceCall<A, R> {
    type Output = Result<R, CallFailure<A>>;
    type IntoFuture = Calling<A, R>;

    fn into_future(self) -> Calling<A, R> {
        let (tell, told) = oneshot::channel();
        Calling::new(self.make_or_answer(Sink::Caller(tell)), told)
    }
}

/// A call that was made, as a future of its answer. If this is dropped, the call continues.
///
/// # Cancel safety
///
/// As a future, this is cancel safe: the answer stays until it is taken.
#[must_use = "a drop of this value drops the answer; `ServiceCall::detach` asks for no answer"]
pub struct Calling<A, R> {
    /// The call, unless an `.await` did not make it.
    call: Option<Arc<CallState<A, R>>>,
    told: oneshot::Receiver<Outcome<A, R>>,
    /// The last fom that waited.
    awaits: Option<Awaits>,
}

impl<A, R> fmt::Debug for Calling<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let service = self.call.as_ref().map(|call| &call.entry.name);
        f.debug_tuple("Calling").field(&service).finish()
    }
}

impl<A: Send + 'static, R: Send + 'static> Calling<A, R> {
    fn new(call: Option<Arc<CallState<A, R>>>, told: oneshot::Receiver<Outcome<A, R>>) -> Self {
        Self {
            call,
            told,
            awaits: None,
        }
    }

    /// Cancels the call. If its function has not begun, it never runs, and the argument is given back. A running async
    /// function is dropped at its next wait. A running plain function learns of the cancel through
    /// [`Cx::is_cancelled`](fom_runtime::Cx::is_cancelled), and its result still counts. After the end of the call, a
    /// cancel does nothing.
    pub fn cancel(&self) {
        if let Some(call) = &self.call {
            call.cancel();
        }
    }

    /// Records that the fom that runs here, if any, waits for the answer. Returns whether the fom would wait for
    /// itself: then the call has failed.
    fn record_wait(&mut self) -> bool {
        let Some(call) = &self.call else {
            return false;
        };
        let by = current_fom();
        if self.awaits.as_ref().map(|awaits| awaits.by()) != by.as_ref() {
            let awaits = |(by, fom)| Awaits::new(by, fom, &call.entry);
            self.awaits = by.zip(call.address()).map(awaits);
        }
        match (&call.key, &self.awaits) {
            (Some(key), Some(awaits)) if awaits.closes_cycle() => {
                call.would_wait_for_itself(key);
                true
            }
            _ => false,
        }
    }
}

impl<A: Send + 'static, R: Send + 'static> Future for Calling<A, R> {
    type Output = Outcome<A, R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut polled = Pin::new(&mut this.told).poll(cx);
        if polled.is_pending() && this.record_wait() {
            polled = Pin::new(&mut this.told).poll(cx);
        }
        let answer = ready!(polled);
        this.awaits = None;
        Poll::Ready(answer.unwrap_or_else(|_| {
            let service = this.call.as_ref().map_or("", |call| &call.entry.name);
            Err(CallFailure::new(service, CallCause::Shutdown, None))
        }))
    }
}
