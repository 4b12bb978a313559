//! How an operation fails.

use std::fmt;

use crate::{attempt::Attempt, exclusive::Exclusive, fom::Cause, operation::Operation};

/// A fom that ended in the standard failed outcome.
///
/// `Display` writes the operation, the phase and the cause. `source()` returns the error behind the cause: that of the
/// phase function, the journal, the gate or a refused submission. The error of [`Cause::Error`] has no source if its
/// type does not implement [`Error`](std::error::Error). A cause without an error, such as a panic, has none either.
#[non_exhaustive]
pub struct Failure<O: Operation> {
    /// The cause.
    pub cause: Cause<O::Error>,
    /// The phase in which the fom failed. A journal may return a failure in a phase that this release does not have. Then
    /// this field is the start phase, and the cause names the missing phase.
    pub phase: O::Kind,
    /// The operation, if it still exists. [`Exclusive`] makes the failure `Sync`, although the operation need not be.
    pub operation: Option<Exclusive<O>>,
    /// Events sent to the fom that no phase took, oldest first.
    pub untaken: Vec<O::Event>,
    /// The failed attempts at the phase, oldest first, without the last attempt: its error is the cause. Attempts before
    /// a restart are included. The list has at most sixteen attempts, the first one and the latest ones. Their ages count
    /// back from the end of the fom.
    pub attempts: Vec<Attempt>,
}

impl<O: Operation> Failure<O> {
    /// Returns a failure in this phase. The caller of the operation gets `operation` back.
    pub fn new(cause: Cause<O::Error>, phase: O::Kind, operation: Option<O>) -> Self {
        Self {
            cause,
            phase,
            operation: operation.map(Exclusive::new),
            untaken: Vec::new(),
            attempts: Vec::new(),
        }
    }

    /// Returns the name of the phase, as drawings and listings show it.
    pub fn phase_name(&self) -> &'static str {
        O::GRAPH.phases()[O::index(self.phase)].name()
    }

    /// Returns the failure of an operation that has not started. Its phase is the start phase.
    pub fn unstarted(cause: Cause<O::Error>, operation: O) -> Self {
        Self::new(cause, O::kind(&O::start()), Some(operation))
    }
}

impl<O: Operation> fmt::Debug for Failure<O>
where
    O::Error: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("cause", &self.cause)
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

impl<O: Operation> fmt::Display for Failure<O>
where
    O::Error: fmt::Display,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} failed in phase `{}`: {}",
            O::GRAPH.operation(),
            self.phase_name(),
            self.cause
        )
    }
}

impl<O: Operation> std::error::Error for Failure<O>
where
    O::Error: fmt::Debug + fmt::Display,
{
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::Error(error) => (O::DESCRIBE)(error).error(),
            cause => cause.untyped_source(),
        }
    }
}
