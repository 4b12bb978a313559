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

/// The run of a call, for all types.
pub(super) trait Work: Send + Sync + 'static {
    fn begin(self: Arc<Self>, cx: &mut Cx<'_>) -> Begun;
    /// Answers the call, if it has no answer yet: its fom has ended.
    fn dropped(&self);
}

/// A function that runs between enter-block and leave-block, or gets the error of enter-block.
type Section = Box<dyn for<'a> FnOnce(Result<&BlockingCx<'a>, BlockError>) + Send>;

/// What is left to do after the beginning.
pub(super) enum Begun {
    Done,
    Future(BoxFuture<()>),
    Section(Section),
}

/// The operation of a call, as listings name it. The drop answers the call, if it has no answer yet. The body of the
/// phase borrows the operation, so nothing of the user's function is left then.
pub(super) struct ServiceCall(Arc<dyn Work>);

impl ServiceCall {
    pub(super) fn new(work: Arc<dyn Work>) -> Self {
        Self(work)
    }
}

impl Drop for ServiceCall {
    fn drop(&mut self) {
        self.0.dropped();
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
        match Arc::clone(&self.0).begin(cx) {
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

impl<A: Send + 'static, R: Send + 'static> Work for CallState<A, R> {
    fn begin(self: Arc<Self>, cx: &mut Cx<'_>) -> Begun {
        let Some(Entered { argument, provided }) = self.enter(cx.id()) else {
            return Begun::Done;
        };
        match &provided.function {
            Function::Plain(function) => {
                let result = caught(|| function(cx, argument));
                self.end_without(provided, result);
                Begun::Done
            }
            Function::Blocking(_) => Begun::Section(Box::new(move |cx| {
                let result = match (cx, &provided.function) {
                    (Ok(cx), Function::Blocking(function)) => caught(|| function(cx, argument)),
                    (Err(error), _) => Err(CallCause::NoThread(error)),
                    (Ok(_), _) => unreachable!("checked just before"),
                };
                self.end_without(provided, result);
            })),
            Function::Async(function) => {
                let cx = CallCx::new(self.runtime.clone(), cx.locality());
                match caught(|| function(cx, argument)) {
                    Ok(future) => Begun::Future(Box::pin(self.run(provided, future))),
                    Err(cause) => {
                        self.end_without(provided, Err(cause));
                        Begun::Done
                    }
                }
            }
        }
    }

    fn dropped(&self) {
        self.fom_dropped();
    }
}

impl<A: Send + 'static, R: Send + 'static> CallState<A, R> {
    /// Runs an async function.
    async fn run(self: Arc<Self>, provided: Arc<Provided<A, R>>, mut future: BoxFuture<R>) {
        let result = AssertUnwindSafe(&mut future).catch_unwind().await;
        fenced(|| drop(future));
        self.end_without(provided, result.map_err(panicked));
    }

    /// Ends the call with this result, after everything of the user's is dropped.
    fn end_without(&self, provided: Arc<Provided<A, R>>, result: Result<R, CallCause>) {
        fenced(|| drop(provided));
        self.end(result);
    }
}

fn caught<R>(f: impl FnOnce() -> R) -> Result<R, CallCause> {
    catch_unwind(AssertUnwindSafe(f)).map_err(panicked)
}

fn panicked(panic: Box<dyn Any + Send>) -> CallCause {
    CallCause::Panicked(panic_message(panic))
}
