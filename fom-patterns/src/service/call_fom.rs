//! The foms of services: calls, and the starts and stops of services.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use crate::service::{
    CallCause, CallCx, CancelledBy, call_chain,
    call_state::{CallState, Entered},
    fenced,
    provider::{BoxFuture, Function, Provided},
};
use fom_protocol::panic_message;
use fom_runtime::{
    BlockingCx, Cx,
    error::{BlockError, BoxError},
    extension::RuntimeState,
    fom,
};

/// The run of a call, for all types. The drop of a call that has not begun still gives an answer.
pub(super) trait Work: Send + 'static {
    fn begin(self: Box<Self>, cx: &mut Cx<'_>) -> Begun;
}

/// A function that runs between enter-block and leave-block, or gets the error of enter-block.
type Section = Box<dyn for<'a> FnOnce(Result<&BlockingCx<'a>, BlockError>) + Send>;

/// What is left to do after the beginning.
pub(super) enum Begun {
    Done,
    Future(BoxFuture<()>),
    Section(Section),
}

/// The operation of a call, as listings name it.
pub(super) struct ServiceCall(Option<Box<dyn Work>>);

impl ServiceCall {
    pub(super) fn new(work: impl Work) -> Self {
        Self(Some(Box::new(work)))
    }
}

#[fom(operation(ServiceCall), transient)]
pub(super) enum Calling {
    #[phase(start, to(Answered))]
    Serve,
    #[phase(end)]
    Answered,
}

impl CallingTransitions for ServiceCall {
    async fn serve(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let Some(work) = self.0.take() else {
            return Ok(());
        };
        match work.begin(cx) {
            Begun::Done => {}
            Begun::Future(rest) => rest.await,
            Begun::Section(section) => match cx.enter_block() {
                Ok(guard) => section(Ok(&guard)),
                Err(error) => section(Err(error)),
            },
        }
        Ok(())
    }
}

/// The start or stop of services, for a caller that must not wait.
pub(super) struct ServiceTask(Option<BoxFuture<()>>);

impl ServiceTask {
    pub(super) fn new(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Some(Box::pin(task)))
    }
}

#[fom(operation(ServiceTask), transient)]
pub(super) enum Tasking {
    #[phase(start, to(Over))]
    Go,
    #[phase(end)]
    Over,
}

impl TaskingTransitions for ServiceTask {
    async fn go(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        if let Some(task) = self.0.take() {
            task.await;
        }
        Ok(())
    }
}

/// A call of a function.
pub(super) struct CallOf<A: Send + 'static, R: Send + 'static>(pub(super) Arc<CallState<A, R>>);

impl<A: Send + 'static, R: Send + 'static> Work for CallOf<A, R> {
    fn begin(self: Box<Self>, cx: &mut Cx<'_>) -> Begun {
        let Some(Entered { argument, provided }) = self.0.begin(cx.id()) else {
            return Begun::Done;
        };
        let running = Running(Some(Arc::clone(&self.0)));
        let link = Arc::clone(&self.0.link);
        match &provided.function {
            Function::Plain(function) => {
                let result = caught(|| call_chain::inside(&link, || function(cx, argument)));
                fenced(|| drop(provided));
                running.end(result);
                Begun::Done
            }
            Function::Blocking(_) => Begun::Section(Box::new(move |cx| {
                let result = match (cx, &provided.function) {
                    (Ok(cx), Function::Blocking(function)) => {
                        caught(|| call_chain::inside(&link, || function(cx, argument)))
                    }
                    (Err(error), _) => Err(CallCause::NoThread(error)),
                    (Ok(_), _) => unreachable!("checked just before"),
                };
                fenced(|| drop(provided));
                running.end(result);
            })),
            Function::Async(function) => {
                let cx = CallCx::new(self.0.runtime.clone(), cx.locality());
                let made = caught(|| call_chain::inside(&link, || function(cx, argument)));
                match made {
                    Ok(future) => Begun::Future(Box::pin(Awaiting {
                        future: Some(future),
                        provided: Some(provided),
                        running,
                        link,
                    })),
                    Err(cause) => {
                        fenced(|| drop(provided));
                        running.end(Err(cause));
                        Begun::Done
                    }
                }
            }
        }
    }
}

impl<A: Send + 'static, R: Send + 'static> Drop for CallOf<A, R> {
    fn drop(&mut self) {
        self.0.never_entered(dropped(&self.0));
    }
}

fn caught<R>(f: impl FnOnce() -> R) -> Result<R, CallCause> {
    catch_unwind(AssertUnwindSafe(f)).map_err(panicked)
}

fn panicked(panic: Box<dyn Any + Send>) -> CallCause {
    CallCause::Panicked(panic_message(panic))
}

/// Returns why a call ends when its fom is dropped.
fn dropped<A, R>(state: &CallState<A, R>) -> CallCause {
    if state.runtime.state() == RuntimeState::Closed {
        CallCause::Shutdown
    } else {
        CallCause::Cancelled(CancelledBy::Fom)
    }
}

/// A call with an entered function. If this is dropped without a result, the answer says so.
struct Running<A: Send + 'static, R: Send + 'static>(Option<Arc<CallState<A, R>>>);

impl<A: Send + 'static, R: Send + 'static> Running<A, R> {
    fn end(mut self, result: Result<R, CallCause>) {
        if let Some(state) = self.0.take() {
            state.end(result);
        }
    }
}

impl<A: Send + 'static, R: Send + 'static> Drop for Running<A, R> {
    fn drop(&mut self) {
        if let Some(state) = self.0.take() {
            let cause = dropped(&state);
            state.end(Err(cause));
        }
    }
}

/// A call of an async function. Its fields are dropped in their order, so nothing of the user's is left when the call
/// has ended.
struct Awaiting<A: Send + 'static, R: Send + 'static> {
    future: Option<BoxFuture<R>>,
    provided: Option<Arc<Provided<A, R>>>,
    running: Running<A, R>,
    link: Arc<call_chain::Link>,
}

impl<A: Send + 'static, R: Send + 'static> Future for Awaiting<A, R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(future) = &mut this.future else {
            return Poll::Ready(());
        };
        let polled = caught(|| call_chain::inside(&this.link, || future.as_mut().poll(cx)));
        let result = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => Ok(result),
            Err(cause) => Err(cause),
        };
        fenced(|| drop((this.future.take(), this.provided.take())));
        Running(this.running.0.take()).end(result);
        Poll::Ready(())
    }
}
