//! One call: its argument until the function is entered, and its single answer.

use std::{
    mem,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Wake, Waker},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::oneshot;

use crate::service::{
    CallCause, CallCx, CallFailure, CancelledBy, DomainState,
    call_fom::ServiceCall,
    callback::{self, Callback},
    entry::{AnyCall, Entry},
    fenced,
    provider::{Function, Provided},
};
use fom_protocol::{caught, panic_message, sync::Mutex};
use fom_runtime::{
    Cx, FomId, FomRef, Key, Runtime,
    extension::{FomAddress, RuntimeState},
    observe::IncidentKind,
    time::Sleep,
};

/// The outcome of a call.
pub(super) type Outcome<A, R> = Result<R, CallFailure<A>>;

/// A call that was not made, with the sink for its answer.
pub(super) type NotMade<A, R> = Box<(CallFailure<A>, Sink<A, R>)>;

/// The receiver of the answer.
#[derive(Default)]
pub(super) enum Sink<A, R> {
    /// The caller wants no answer, or has it.
    #[default]
    None,
    Caller(oneshot::Sender<Outcome<A, R>>),
    Callback(Callback<A, R>),
}

enum Stage<A> {
    /// The function was not entered.
    Waiting(A),
    Running,
    /// The function has returned, or will never be entered.
    Over,
}

struct Inner<A, R> {
    stage: Stage<A>,
    /// The cause with which the call was told to end.
    told: Option<CallCause>,
    sink: Sink<A, R>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<A, R> Inner<A, R> {
    /// Takes the argument of a call, if its function was not entered. The call is in stage `next` after that.
    fn take_argument(&mut self, next: Stage<A>) -> Option<A> {
        match mem::replace(&mut self.stage, next) {
            Stage::Waiting(argument) => Some(argument),
            before => {
                self.stage = before;
                None
            }
        }
    }
}

/// One call, from its admission to its answer.
pub(super) struct CallState<A, R> {
    pub(super) runtime: Runtime,
    pub(super) entry: Arc<Entry>,
    pub(super) id: u64,
    /// The key behind which the call queues. The call holds it while its function runs.
    pub(super) key: Option<Key>,
    within: Option<Duration>,
    fom: OnceLock<FomRef<ServiceCall>>,
    /// The id of the call's fom, known when the function is entered. The code that started the fom may learn it later.
    fom_id: OnceLock<FomId>,
    inner: Mutex<Inner<A, R>>,
}

impl<A: Send + 'static, R: Send + 'static> CallState<A, R> {
    pub(super) fn new(
        runtime: &Runtime,
        (entry, id): (&Arc<Entry>, u64),
        (key, within): (Option<Key>, Option<Duration>),
        (argument, sink): (A, Sink<A, R>),
    ) -> Arc<Self> {
        Arc::new(Self {
            runtime: runtime.detached(),
            entry: Arc::clone(entry),
            id,
            key,
            within,
            fom: OnceLock::new(),
            fom_id: OnceLock::new(),
            inner: Mutex::new(Inner {
                stage: Stage::Waiting(argument),
                told: None,
                sink,
                timer: None,
            }),
        })
    }

    /// Asks the service whether it takes this call. The call is not admitted yet, so no other code waits for its lock.
    pub(super) fn asks(&self, provided: &Provided<A, R>, domain: DomainState) -> bool {
        match (&self.inner.lock().stage, &provided.accepts) {
            (Stage::Waiting(argument), Some(accepts)) => {
                caught(|| accepts(argument, domain)).unwrap_or(false)
            }
            _ => false,
        }
    }

    /// Gives back a call that was not made. Without an argument, the call was answered meanwhile.
    pub(super) fn give_back(&self, cause: CallCause) -> NotMade<A, R> {
        let mut inner = self.inner.lock();
        let argument = inner.take_argument(Stage::Over);
        let sink = mem::take(&mut inner.sink);
        Box::new((self.failure(cause, argument), sink))
    }

    /// Sets the fom of the call, and cancels the fom if the call was told to end or answered meanwhile.
    pub(super) fn has_fom(&self, fom: FomRef<ServiceCall>) {
        // This is the only place that sets it.
        let _ = self.fom.set(fom);
        let is_to_end = {
            let inner = self.inner.lock();
            inner.told.is_some() || matches!(inner.stage, Stage::Over)
        };
        if is_to_end {
            self.cancel_fom();
        }
    }

    /// Returns the fom of the call, once the call is made.
    pub(super) fn address(&self) -> Option<FomAddress> {
        self.fom.get().map(FomRef::fom_address)
    }

    fn cancel_fom(&self) {
        if let Some(fom) = self.fom.get() {
            fom.cancel();
        }
    }

    /// Starts the time limit, if the call has one: the clock wakes the call.
    pub(super) fn start_timer(self: &Arc<Self>) {
        let Some(time) = self.within else { return };
        let mut sleep = Box::pin(self.runtime.sleep(time));
        let alarm = Waker::from(Arc::clone(self));
        if sleep
            .as_mut()
            .poll(&mut Context::from_waker(&alarm))
            .is_ready()
        {
            alarm.wake();
            return;
        }
        let mut inner = self.inner.lock();
        if !matches!(inner.stage, Stage::Over) {
            inner.timer = Some(sleep);
        }
    }

    /// Begins the function: takes the argument. Returns `None` if the call was answered already or its service is gone.
    fn enter(&self, fom: FomId) -> Option<(A, Arc<Provided<A, R>>)> {
        // This is the only place that sets it.
        let _ = self.fom_id.set(fom);
        let provided = self.entry.provided()?.downcast().ok()?;
        let argument = self.inner.lock().take_argument(Stage::Running)?;
        self.entry.begun();
        Some((argument, provided))
    }

    /// Runs an async function.
    async fn run(self: Arc<Self>, provided: Arc<Provided<A, R>>, mut future: BoxFuture<'_, R>) {
        let result = AssertUnwindSafe(&mut future).catch_unwind().await;
        fenced(|| drop(future));
        self.end_without(
            provided,
            result.map_err(panic_message).map_err(CallCause::Panicked),
        );
    }

    /// Ends the call with this result, after everything of the user's is dropped.
    fn end_without(&self, provided: Arc<Provided<A, R>>, result: Result<R, CallCause>) {
        fenced(|| drop(provided));
        self.end(result);
    }

    /// Ends a call after its function returned `result` or was dropped. Nothing of the function runs any more.
    fn end(&self, result: Result<R, CallCause>) {
        let (told, sink) = {
            let mut inner = self.inner.lock();
            inner.stage = Stage::Over;
            (inner.told.take(), mem::take(&mut inner.sink))
        };
        let result = result.map_err(|cause| match (cause, told) {
            // The function was dropped because the call was told to end: that order has the cause.
            (CallCause::Cancelled(CancelledBy::Fom), Some(told)) => told,
            (cause, _) => cause,
        });
        self.entry.ended(true, result.as_ref().err());
        let outcome = result.map_err(|cause| self.failure(cause, None));
        deliver(&self.runtime, sink, outcome);
        self.leave();
    }

    /// Answers the call if its function was not entered yet, and prevents a later entry. Returns whether it answered.
    fn cancel_waiting_with(&self, cause: impl FnOnce() -> CallCause, cancel_fom: bool) -> bool {
        // In one step: the thread that takes the argument gives the answer.
        let (argument, sink) = {
            let mut inner = self.inner.lock();
            match inner.take_argument(Stage::Over) {
                Some(argument) => (argument, mem::take(&mut inner.sink)),
                None => return false,
            }
        };
        if cancel_fom {
            self.cancel_fom();
        }
        let cause = cause();
        self.entry.ended(false, Some(&cause));
        let failure = self.failure(cause, Some(argument));
        deliver(&self.runtime, sink, Err(failure));
        self.leave();
        true
    }

    /// Leaves the service after the answer. Nothing of the call is left.
    fn leave(&self) {
        let timer = self.inner.lock().timer.take();
        drop(timer);
        self.entry.left(self.id);
    }

    /// Answers the call at once, whatever its stage.
    fn answer_with(&self, cause: impl Fn() -> CallCause) {
        if !self.cancel_waiting_with(&cause, true) {
            let sink = mem::take(&mut self.inner.lock().sink);
            deliver(&self.runtime, sink, Err(self.failure(cause(), None)));
        }
    }

    fn failure(&self, cause: CallCause, argument: Option<A>) -> CallFailure<A> {
        CallFailure::new(&self.entry.name, cause, argument)
    }

    /// Fails a call in a cycle of calls that wait for each other: its function would never be entered.
    pub(super) fn would_wait_for_itself(&self, key: &Key) {
        let cause = || CallCause::InsideItself { key: key.clone() };
        self.cancel_waiting_with(cause, true);
    }

    /// Cancels the call for its caller. A call with an entered function is told to end.
    pub(super) fn cancel(&self) {
        let by = || CallCause::Cancelled(CancelledBy::Caller);
        if !self.cancel_waiting_with(by, true) {
            self.stop(by());
        }
    }
}

impl<A: Send + 'static, R: Send + 'static> Wake for CallState<A, R> {
    /// The time limit has passed.
    fn wake(self: Arc<Self>) {
        if let Some(time) = self.within {
            self.answer_with(|| CallCause::Late(time));
            self.stop(CallCause::Late(time));
        }
    }
}

/// Gives an outcome to its receiver. Catches a panic of the user's code.
pub(super) fn deliver<A: Send + 'static, R: Send + 'static>(
    runtime: &Runtime,
    sink: Sink<A, R>,
    outcome: Outcome<A, R>,
) {
    let delivered = caught(|| match sink {
        Sink::None => drop(outcome),
        // The caller may be gone.
        Sink::Caller(caller) => drop(caller.send(outcome)),
        Sink::Callback(callback) => callback::run(runtime, callback, outcome),
    });
    if let Err(panic) = delivered {
        runtime.report(
            IncidentKind::Panicked,
            "a call",
            format!("the answer of a call could not be given: it panicked: {panic}"),
        );
    }
}

impl<A: Send + 'static, R: Send + 'static> AnyCall for CallState<A, R> {
    fn begin(self: Arc<Self>, cx: &mut Cx<'_>) -> Option<BoxFuture<'static, ()>> {
        let (argument, provided) = self.enter(cx.id())?;
        let result = match &provided.function {
            Function::Plain(function) => {
                caught(|| function(cx, argument)).map_err(CallCause::Panicked)
            }
            Function::Blocking(function) => match cx.enter_block() {
                Ok(section) => {
                    let result = caught(|| function(&section, argument));
                    // In the section, so that the caller does not wait for leave-block.
                    self.end_without(provided, result.map_err(CallCause::Panicked));
                    return None;
                }
                Err(error) => Err(CallCause::NoThread(error)),
            },
            Function::Async(function) => {
                let cx = CallCx::new(self.runtime.clone(), cx.locality());
                match caught(|| function(cx, argument)) {
                    Ok(future) => return Some(Box::pin(self.run(provided, future))),
                    Err(panic) => Err(CallCause::Panicked(panic)),
                }
            }
        };
        self.end_without(provided, result);
        None
    }

    fn fom_dropped(&self) {
        let cause = || match self.runtime.extension().state() {
            RuntimeState::Closed => CallCause::Shutdown,
            _ => CallCause::Cancelled(CancelledBy::Fom),
        };
        // Only this thread can end a function that runs.
        if !self.cancel_waiting_with(cause, false)
            && matches!(self.inner.lock().stage, Stage::Running)
        {
            self.end(Err(cause()));
        }
    }

    fn cancel_waiting(&self, cause: CallCause) -> bool {
        self.cancel_waiting_with(move || cause, true)
    }

    fn stop(&self, cause: CallCause) {
        {
            let mut inner = self.inner.lock();
            if !matches!(inner.stage, Stage::Running) || inner.told.is_some() {
                return;
            }
            inner.told = Some(cause);
        }
        self.cancel_fom();
    }

    fn shut_down(&self) {
        self.answer_with(|| CallCause::Shutdown);
    }

    fn is_awaited(&self) -> bool {
        match &self.inner.lock().sink {
            Sink::Caller(caller) => !caller.is_closed(),
            Sink::Callback(_) => true,
            Sink::None => false,
        }
    }

    fn fom(&self) -> Option<FomId> {
        self.fom_id.get().copied()
    }
}
