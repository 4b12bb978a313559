//! The foms of services: calls, and the starts and stops of services.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use futures::FutureExt;

use crate::service::{
    CallCause, CallCx,
    call_state::{CallState, Entered},
    fenced,
    provider::{BoxFuture, Function, Provided},
};
use fom_protocol::panic_message;
use fom_runtime::{
    BlockingCx, Cx,
    error::{BlockError, BoxError},
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

/// A call of a function. The drop answers the call, if it has no answer yet.
pub(super) struct CallOf<A: Send + 'static, R: Send + 'static>(pub(super) Arc<CallState<A, R>>);

impl<A: Send + 'static, R: Send + 'static> Work for CallOf<A, R> {
    fn begin(self: Box<Self>, cx: &mut Cx<'_>) -> Begun {
        let Some(Entered { argument, provided }) = self.0.begin(cx.id()) else {
            return Begun::Done;
        };
        match &provided.function {
            Function::Plain(function) => {
                let result = caught(|| function(cx, argument));
                self.end(provided, result);
                Begun::Done
            }
            Function::Blocking(_) => Begun::Section(Box::new(move |cx| {
                let result = match (cx, &provided.function) {
                    (Ok(cx), Function::Blocking(function)) => caught(|| function(cx, argument)),
                    (Err(error), _) => Err(CallCause::NoThread(error)),
                    (Ok(_), _) => unreachable!("checked just before"),
                };
                self.end(provided, result);
            })),
            Function::Async(function) => {
                let cx = CallCx::new(self.0.runtime.clone(), cx.locality());
                match caught(|| function(cx, argument)) {
                    Ok(future) => Begun::Future(Box::pin(self.run(provided, future))),
                    Err(cause) => {
                        self.end(provided, Err(cause));
                        Begun::Done
                    }
                }
            }
        }
    }
}

impl<A: Send + 'static, R: Send + 'static> CallOf<A, R> {
    /// Runs an async function. A drop drops the parameters from the last to the first, so nothing of the user's is left
    /// when the call has ended.
    async fn run(self: Box<Self>, provided: Arc<Provided<A, R>>, mut future: BoxFuture<R>) {
        let result = AssertUnwindSafe(&mut future).catch_unwind().await;
        fenced(|| drop(future));
        self.end(provided, result.map_err(panicked));
    }

    /// Ends the call with this result, after everything of the user's is dropped.
    fn end(&self, provided: Arc<Provided<A, R>>, result: Result<R, CallCause>) {
        fenced(|| drop(provided));
        self.0.end(result);
    }
}

impl<A: Send + 'static, R: Send + 'static> Drop for CallOf<A, R> {
    fn drop(&mut self) {
        self.0.dropped();
    }
}

fn caught<R>(f: impl FnOnce() -> R) -> Result<R, CallCause> {
    catch_unwind(AssertUnwindSafe(f)).map_err(panicked)
}

fn panicked(panic: Box<dyn Any + Send>) -> CallCause {
    CallCause::Panicked(panic_message(panic))
}
