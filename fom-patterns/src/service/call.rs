//! A call, and the wait for its answer.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use pin_project::pin_project;
use tokio::sync::oneshot;

use crate::service::{
    CallCause, CallFailure, DomainState, Refusal, Service, Services,
    awaited::Awaits,
    call_fom,
    call_state::{CallState, Outcome, Sink, deliver},
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
        let call_state = self.make(Sink::Caller(tell)).map_err(|made| made.0)?;
        Ok(Calling {
            call_state,
            told,
            awaits: None,
        })
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
        let runtime = self.services.runtime.clone();
        let locality = match &self.strand {
            Some(strand) => runtime.home_of(&in_strand(strand)),
            None => callback::here(&runtime).unwrap_or_else(|| runtime.next_locality()),
        };
        let sink = Sink::Callback(Callback {
            function: Box::new(callback),
            locality,
        });
        if let Err(made) = self.make(sink) {
            let (failure, sink) = *made;
            deliver(&runtime, sink, Err(failure));
        }
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
        let Services { runtime, registry } = self.services.clone();
        let (entry, provided) = match self.services.find(&self.service) {
            Ok(found) => found,
            Err(refusal) => return Err(Box::new((self.fail(refusal.into()), Some(sink)))),
        };
        let key = match self.key(&entry, &provided) {
            Ok(key) => key,
            Err(cause) => return Err(Box::new((self.fail(cause), Some(sink)))),
        };
        let fail = |cause, argument| CallFailure::new(&entry.name, cause, argument);
        let (mut argument, mut sink) = (self.argument, sink);
        let mut asked = None;
        let call_state = loop {
            let of = (key.clone(), argument, sink);
            let call_state = CallState::new(&runtime, &entry, registry.next(), of);
            let turned = match entry.admit(|| registry.domain(&runtime), asked, call_state.live()) {
                Ok(()) => break call_state,
                Err(turned) => turned,
            };
            // No other code has this state.
            let (Some(back), Some(to)) = call_state.take_out() else {
                unreachable!("it was not admitted");
            };
            match turned {
                Turned::Refused(refusal) => {
                    return Err(Box::new((fail(refusal.into(), Some(back)), Some(to))));
                }
                Turned::Ask(domain) => asked = Some(asks(&provided, &back, domain)),
            }
            (argument, sink) = (back, to);
        };
        let call = call_fom::ServiceCall::new(Arc::clone(&call_state) as _);
        let submission = runtime.submit(call);
        let submission = match (key, &provided.runs) {
            (Some(key), _) => submission.key(key).queue(),
            (None, Runs::In(placement)) => submission.place(*placement),
            (None, _) => submission,
        };
        match submission.start() {
            Ok(fom) => call_state.has_fom(fom.fom().clone()),
            Err(refused) => {
                let reason = refused.reason();
                let (argument, sink) = call_state.take_out();
                drop(refused);
                // Otherwise the call was answered meanwhile.
                if argument.is_some() {
                    entry.take_back(call_state.id);
                    let cause = match reason {
                        RefusedReason::ShuttingDown => CallCause::Shutdown,
                        reason => CallCause::Refused(Refusal::NoRoom {
                            service: entry.name.clone(),
                            reason,
                        }),
                    };
                    return Err(Box::new((fail(cause, argument), sink)));
                }
            }
        }
        if let Some(time) = self.within {
            call_state.limit(time);
        }
        Ok(call_state)
    }
}

/// A call that was not made, with the sink for its answer.
type NotMade<A, R> = Box<(CallFailure<A>, Option<Sink<A, R>>)>;

/// Asks the service whether it takes this call. No lock is held meanwhile.
fn asks<A, R>(provided: &Provided<A, R>, argument: &A, domain: DomainState) -> bool {
    let accepts = provided.accepts.as_ref();
    accepts.is_some_and(|accepts| super::caught(|| accepts(argument, domain)).unwrap_or(false))
}

/// Returns the key of the calls of a strand.
fn in_strand(strand: &Key) -> Key {
    Key::from(("strand", strand.clone()))
}

impl<A: Send + 'static, R: Send + 'static> IntoFuture for ServiceCall<A, R> {
    type Output = Result<R, CallFailure<A>>;
    type IntoFuture = Called<A, R>;

    fn into_future(self) -> Called<A, R> {
        let (calling, failure) = match self.start() {
            Ok(calling) => (Some(calling), None),
            Err(failure) => (None, Some(failure)),
        };
        Called { calling, failure }
    }
}

/// A call that was made by awaiting it.
///
/// # Cancel safety
///
/// If this is dropped, the call continues and its answer is lost.
#[pin_project]
pub struct Called<A, R> {
    /// The call, unless it was not made.
    #[pin]
    calling: Option<Calling<A, R>>,
    failure: Option<CallFailure<A>>,
}

impl<A, R> fmt::Debug for Called<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Called")
    }
}

impl<A: Send + 'static, R: Send + 'static> Future for Called<A, R> {
    type Output = Outcome<A, R>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.calling.as_pin_mut() {
            Some(calling) => calling.poll(cx),
            None => Poll::Ready(Err(this.failure.take().expect("polled after it was ready"))),
        }
    }
}

/// A call that was made, as a future of its answer. If this is dropped, the call continues.
///
/// # Cancel safety
///
/// As a future, this is cancel safe: the answer stays until it is taken.
#[must_use = "a drop of this value drops the answer; `ServiceCall::detach` asks for no answer"]
pub struct Calling<A, R> {
    call_state: Arc<CallState<A, R>>,
    told: oneshot::Receiver<Outcome<A, R>>,
    /// The last fom that waited.
    awaits: Option<Awaits>,
}

impl<A, R> fmt::Debug for Calling<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calling({:?})", self.call_state.entry.name)
    }
}

impl<A: Send + 'static, R: Send + 'static> Calling<A, R> {
    /// Cancels the call. A function that was not entered never is, and the argument is given back. A running async
    /// function is dropped at its next wait. A running plain function is told
    /// ([`Cx::is_cancelled`](fom_runtime::Cx::is_cancelled)), and its result still counts. After the end of the call,
    /// this does nothing.
    pub fn cancel(&self) {
        self.call_state.cancel();
    }

    /// Records that the fom that runs here, if any, waits for the answer. Returns the key of the call if the fom would
    /// wait for itself.
    fn record_wait(&mut self) -> Option<&Key> {
        let call_state = &self.call_state;
        let by = current_fom();
        if self.awaits.as_ref().map(|awaits| awaits.by()) != by.as_ref() {
            let awaits = |(by, call)| Awaits::new(by, call, &call_state.entry);
            self.awaits = by.zip(call_state.address()).map(awaits);
        }
        let key = call_state.key.as_ref()?;
        self.awaits.as_ref()?.closes_circle().then_some(key)
    }
}

impl<A: Send + 'static, R: Send + 'static> Future for Calling<A, R> {
    type Output = Outcome<A, R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut polled = Pin::new(&mut this.told).poll(cx);
        if polled.is_pending()
            && let Some(key) = this.record_wait().cloned()
        {
            this.call_state.would_wait_for_itself(&key);
            polled = Pin::new(&mut this.told).poll(cx);
        }
        if polled.is_ready() {
            this.awaits = None;
        }
        polled.map(|told| {
            told.unwrap_or_else(|_| {
                let name = &this.call_state.entry.name;
                Err(CallFailure::new(name, CallCause::Shutdown, None))
            })
        })
    }
}
