//! The answer of a call as a function that is run with it, in the caller's locality.

use std::sync::Arc;

use crate::{
    runtime::{Placement, Submission, World},
    service::{
        job::{Begun, ServiceCall, Work},
        slot::Outcome,
    },
};

/// What is to be run with the answer of a call, and where.
pub(super) struct Callback<A, R> {
    pub(super) function: Box<dyn FnOnce(Outcome<A, R>) + Send>,
    pub(super) place: Placement,
}

/// Runs it there, as a fom. Where no fom can be had, since the runtime is shutting down, it is run here and now: each callback is
/// run once, whatever happens.
pub(super) fn run<A: Send + 'static, R: Send + 'static>(
    world: &Arc<World>,
    callback: Callback<A, R>,
    outcome: Outcome<A, R>,
) {
    let function = callback.function;
    let due = Due(Some(Box::new(move || function(outcome))));
    let submission = Submission::new(world, ServiceCall::new(due)).place(callback.place);
    // Refused, it is run by being dropped.
    drop(submission.detach());
}

/// A callback with its answer. Dropped before it was run, it is run.
struct Due(Option<Box<dyn FnOnce() + Send>>);

impl Work for Due {
    fn begin(mut self: Box<Self>, _: &mut crate::Cx<'_>) -> Begun {
        if let Some(function) = self.0.take() {
            function();
        }
        Begun::Done
    }
}

impl Drop for Due {
    fn drop(&mut self) {
        if let Some(function) = self.0.take() {
            crate::service::fenced(function);
        }
    }
}
