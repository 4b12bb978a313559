//! One call: its argument until the function is entered, and its single answer.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, OnceLock, Weak},
    task::{Context, Wake, Waker},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::service::{
    CallCause, CallFailure, CancelledBy,
    call_fom::ServiceCall,
    callback::{self, Callback},
    entry::{Entry, How, Live},
    provider::Provided,
};
use fom_protocol::{panic_message, sync::Mutex};
use fom_runtime::{
    FomId, FomRef, Key, Runtime,
    extension::{FomAddress, RuntimeState},
    time::Sleep,
};

/// The outcome of a call.
pub(super) type Outcome<A, R> = Result<R, CallFailure<A>>;

/// The receiver of the answer.
pub(super) enum Sink<A, R> {
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
    /// `None` once the answer was given.
    sink: Option<Sink<A, R>>,
    timer: Option<Pin<Box<Sleep>>>,
}

/// What an answer needs: its receiver, unless the answer was given already, and the timer to drop.
struct Due<A, R> {
    sink: Option<Sink<A, R>>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<A, R> Inner<A, R> {
    fn due(&mut self) -> Due<A, R> {
        Due {
            sink: self.sink.take(),
            timer: self.timer.take(),
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
    fom: OnceLock<FomRef<ServiceCall>>,
    /// The id of the call's fom, known when the function is entered. The code that started the fom may learn it later.
    fom_id: OnceLock<FomId>,
    inner: Mutex<Inner<A, R>>,
}

/// What a call needs to run its function.
pub(super) struct Entered<A, R> {
    pub(super) argument: A,
    pub(super) provided: Arc<Provided<A, R>>,
}

impl<A: Send + 'static, R: Send + 'static> CallState<A, R> {
    pub(super) fn new(
        runtime: &Runtime,
        entry: &Arc<Entry>,
        id: u64,
        of: (Option<Key>, A, Sink<A, R>),
    ) -> Arc<Self> {
        let (key, argument, sink) = of;
        Arc::new(Self {
            runtime: runtime.detached(),
            entry: Arc::clone(entry),
            id,
            key,
            fom: OnceLock::new(),
            fom_id: OnceLock::new(),
            inner: Mutex::new(Inner {
                stage: Stage::Waiting(argument),
                told: None,
                sink: Some(sink),
                timer: None,
            }),
        })
    }

    /// Returns the call as one of the live calls of its service.
    pub(super) fn live(self: &Arc<Self>) -> (u64, Arc<dyn Live>) {
        (self.id, Arc::clone(self) as Arc<dyn Live>)
    }

    /// Takes the argument and the sink out of a call that was not admitted.
    pub(super) fn take_out(&self) -> (Option<A>, Option<Sink<A, R>>) {
        let mut inner = self.inner.lock();
        let sink = inner.sink.take();
        match std::mem::replace(&mut inner.stage, Stage::Over) {
            Stage::Waiting(argument) => (Some(argument), sink),
            Stage::Running | Stage::Over => (None, sink),
        }
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

    /// Answers the call after this time, unless it is answered before.
    pub(super) fn limit(self: &Arc<Self>, time: Duration) {
        let mut sleep = Box::pin(self.runtime.sleep(time));
        let alarm = Waker::from(Arc::new(Alarm {
            call: Arc::downgrade(self) as Weak<dyn Late>,
            time,
        }));
        if sleep
            .as_mut()
            .poll(&mut Context::from_waker(&alarm))
            .is_ready()
        {
            self.late(time);
            return;
        }
        let mut inner = self.inner.lock();
        if inner.sink.is_some() {
            inner.timer = Some(sleep);
        }
    }

    /// Begins the function: takes the argument. Returns `None` if the call was answered already or its service is gone.
    pub(super) fn enter(&self, fom: FomId) -> Option<Entered<A, R>> {
        // This is the only place that sets it.
        let _ = self.fom_id.set(fom);
        let provided = self.entry.provided.lock().clone()?;
        let provided = provided.downcast().ok()?;
        let mut inner = self.inner.lock();
        match std::mem::replace(&mut inner.stage, Stage::Running) {
            Stage::Waiting(argument) => {
                drop(inner);
                self.entry.begun();
                Some(Entered { argument, provided })
            }
            before => {
                inner.stage = before;
                None
            }
        }
    }

    /// Ends a call after its function returned `result` or was dropped. Nothing of the function runs any more.
    pub(super) fn end(&self, result: Result<R, CallCause>) {
        let (told, due) = {
            let mut inner = self.inner.lock();
            inner.stage = Stage::Over;
            (inner.told.take(), inner.due())
        };
        let (how, outcome) = match result {
            Ok(result) => (How::Done, Ok(result)),
            Err(cause) => {
                // The function was dropped because the call was told to end: that order has the cause.
                let cause = match (cause, told) {
                    (CallCause::Cancelled(CancelledBy::Fom), Some(told)) => told,
                    (cause, _) => cause,
                };
                (how(&cause), Err(cause))
            }
        };
        self.entry.ended(true, how);
        self.give(due, outcome.map_err(|cause| self.failure(cause, None)));
        self.entry.left(self.id);
    }

    /// Ends a call when its fom is dropped. Does nothing if the call has ended.
    pub(super) fn fom_dropped(&self) {
        let cause = || match self.runtime.extension().state() {
            RuntimeState::Closed => CallCause::Shutdown,
            _ => CallCause::Cancelled(CancelledBy::Fom),
        };
        let is_running = match self.inner.lock().stage {
            Stage::Waiting(_) => false,
            // Only this thread can end the function.
            Stage::Running => true,
            Stage::Over => return,
        };
        if is_running {
            self.end(Err(cause()));
        } else {
            self.cancel_waiting_with(cause, false);
        }
    }

    /// Answers the call if its function was not entered yet, and prevents a later entry. Returns whether it answered.
    fn cancel_waiting_with(&self, cause: impl FnOnce() -> CallCause, cancel_fom: bool) -> bool {
        // In one step: the thread that takes the argument gives the answer.
        let (argument, due) = {
            let mut inner = self.inner.lock();
            match std::mem::replace(&mut inner.stage, Stage::Over) {
                Stage::Waiting(argument) => (argument, inner.due()),
                before => {
                    inner.stage = before;
                    return false;
                }
            }
        };
        if cancel_fom {
            self.cancel_fom();
        }
        let cause = cause();
        self.entry.ended(false, how(&cause));
        self.give(due, Err(self.failure(cause, Some(argument))));
        self.entry.left(self.id);
        true
    }

    /// Answers the call at once, whatever its stage.
    fn answer_with(&self, cause: impl Fn() -> CallCause) {
        if !self.cancel_waiting_with(&cause, true) {
            let due = self.inner.lock().due();
            self.give(due, Err(self.failure(cause(), None)));
        }
    }

    fn failure(&self, cause: CallCause, argument: Option<A>) -> CallFailure<A> {
        CallFailure::new(&self.entry.name, cause, argument)
    }

    /// Gives the answer, unless it was given before.
    fn give(&self, due: Due<A, R>, outcome: Outcome<A, R>) {
        drop(due.timer);
        deliver(&self.runtime, due.sink, outcome);
    }

    /// Fails a call in a circle of calls that wait for each other: its function would never be entered.
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

fn how(cause: &CallCause) -> How {
    match cause {
        CallCause::Cancelled(_) | CallCause::Shutdown => How::Cancelled,
        _ => How::Failed,
    }
}

/// What a time limit needs of a call.
trait Late: Send + Sync {
    fn late(&self, time: Duration);
}

impl<A: Send + 'static, R: Send + 'static> Late for CallState<A, R> {
    fn late(&self, time: Duration) {
        self.answer_with(|| CallCause::Late(time));
        self.stop(CallCause::Late(time));
    }
}

/// The waker that the clock wakes.
struct Alarm {
    call: Weak<dyn Late>,
    time: Duration,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        if let Some(call) = self.call.upgrade() {
            call.late(self.time);
        }
    }
}

/// Gives an outcome to its receiver. Catches a panic of the user's code.
pub(super) fn deliver<A: Send + 'static, R: Send + 'static>(
    runtime: &Runtime,
    sink: Option<Sink<A, R>>,
    outcome: Outcome<A, R>,
) {
    let delivered = catch_unwind(AssertUnwindSafe(|| match sink {
        None | Some(Sink::None) => drop(outcome),
        // The caller may be gone.
        Some(Sink::Caller(caller)) => drop(caller.send(outcome)),
        Some(Sink::Callback(callback)) => callback::run(runtime, callback, outcome),
    }));
    if let Err(panic) = delivered {
        runtime.report(format!(
            "the answer of a call could not be given: it panicked: {}",
            panic_message(panic)
        ));
    }
}

impl<A: Send + 'static, R: Send + 'static> Live for CallState<A, R> {
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
            Some(Sink::Caller(caller)) => !caller.is_closed(),
            Some(Sink::Callback(_)) => true,
            Some(Sink::None) | None => false,
        }
    }

    fn fom(&self) -> Option<FomId> {
        self.fom_id.get().copied()
    }
}
