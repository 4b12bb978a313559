//! What of a fom runs: the operation with its phase, or the future that they live in, and at last the outcome.

use std::{any::Any, pin::Pin};

use crate::{
    Failure,
    fom::{Outcome, Progress, Typed},
    operation::Operation,
};

/// The part of a fom that only one thread touches at a time: the one that runs it, and at the end whoever the outcome is left
/// to.
pub(super) trait Body<O: Operation>: Send {
    /// Runs until it waits, yields or ends. After the end the outcome lies in it.
    fn run(self: Pin<&mut Self>, fom: &Typed<O>) -> Progress;

    /// `run` panicked: fails it with that.
    fn panicked(self: Pin<&mut Self>, fom: &Typed<O>, panic: Box<dyn Any + Send>) -> Progress;

    /// Fails it, in place of whatever it was about to do. May panic, as a drop of the user's may, and has failed it then.
    fn fail(self: Pin<&mut Self>, failure: Failure<O>);

    /// Ends it with an outcome that somebody else had; as [`fail`](Self::fail).
    fn settle(self: Pin<&mut Self>, outcome: Outcome<O>);

    /// The operation in its end phase, if it ended in one; only after the end.
    fn at_end(&self) -> Option<(&O, &O::Phase)>;

    /// The end phase, or how it failed; only after the end.
    fn ended(&self) -> Result<usize, &Failure<O>>;

    /// The outcome, once; only after the end.
    fn take(self: Pin<&mut Self>) -> Outcome<O>;

    /// Whether nothing is in it that is to be dropped.
    fn is_gone(&self) -> bool;

    /// Drops whatever is in it. May panic, as a drop of the user's may, and is empty then.
    fn clear(self: Pin<&mut Self>);
}
