//! What the function of an async phase returns.

/// The future of an async phase function. Every future is one.
///
/// The trait exists for the message of the compiler: a phase function that is no `async fn` is told to be one.
#[diagnostic::on_unimplemented(
    message = "the function of this phase is not `async`",
    label = "this is no future",
    note = "write `async fn`, or declare the phase with `#[phase(sync)]`"
)]
pub trait PhaseFuture: Future {}

impl<F: Future> PhaseFuture for F {}
