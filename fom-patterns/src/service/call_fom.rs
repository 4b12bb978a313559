//! The foms of services: calls, and the starts and stops of services.

use std::{future::Future, sync::Arc};

use futures::future::BoxFuture;

use crate::service::entry::AnyCall;
use fom_runtime::{Cx, error::BoxError, fom};

/// The operation of a call, as listings name it. The drop answers the call, if it has no answer yet. The body of the
/// phase borrows the operation, so nothing of the user's function is left then. The type is the same for all calls:
/// calls of different services wait for each other in the queue of a strand.
pub(super) struct ServiceCall(Arc<dyn AnyCall>);

impl ServiceCall {
    pub(super) fn new(call: Arc<dyn AnyCall>) -> Self {
        Self(call)
    }
}

impl Drop for ServiceCall {
    fn drop(&mut self) {
        self.0.fom_dropped();
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
        if let Some(rest) = Arc::clone(&self.0).begin(cx) {
            rest.await;
        }
        Ok(())
    }
}

/// The start or stop of services, for a caller that must not wait.
pub(super) struct ServiceTask(Option<BoxFuture<'static, ()>>);

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
