//! The part of a fom that runs: the operation with its phase, or the future that holds both. After the end it is the
//! outcome.

use std::{any::Any, pin::Pin};

use crate::{
    fom::Progress,
    operation::Operation,
    typed::{Failure, Outcome, Typed},
};

/// The part of a fom that only one thread touches at a time. Before the end this is the thread that runs the fom, and
/// after the end it is the owner of the outcome.
pub(super) trait Body<O: Operation>: Send {
    /// Runs until the fom waits, yields or ends. After the end the body holds the outcome.
    fn run(self: Pin<&mut Self>, fom: &Typed<O>) -> Progress;

    /// Fails the fom because `run` panicked.
    fn panicked(self: Pin<&mut Self>, fom: &Typed<O>, panic: Box<dyn Any + Send>) -> Progress;

    /// Fails the fom, in place of its next step. This may panic in a `drop` of user code; the fom has failed even then.
    fn fail(self: Pin<&mut Self>, failure: Failure<O>);

    /// Ends the fom with the outcome of another fom. This may panic like [`fail`](Self::fail).
    fn settle(self: Pin<&mut Self>, outcome: Outcome<O>);

    /// Returns the operation in its end phase, if it ended in one. Only after the end.
    fn at_end(&self) -> Option<(&O, &O::Phase)>;

    /// Returns the end phase, or the failure. Only after the end.
    fn ended(&self) -> Result<usize, &Failure<O>>;

    /// Takes the outcome, once. Only after the end.
    fn take(self: Pin<&mut Self>) -> Outcome<O>;

    /// Returns whether the body holds nothing to drop.
    fn is_gone(&self) -> bool;

    /// Drops the contents. This may panic in a `drop` of user code; the body is empty even then.
    fn clear(self: Pin<&mut Self>);
}
