//! What the functions of the runtime refuse.

use std::{fmt, io};

use crate::{
    defaults::BoxError,
    exclusive::Exclusive,
    fom::{Cause, DurabilityError, RefusedReason},
    operation::Operation,
    runtime::FomRef,
    typed::Failure,
};

/// The runtime could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A handler thread could not be created.
    #[error(
        "cannot create a handler thread: {0}; raise the limit of threads, or ask for fewer localities"
    )]
    Thread(#[source] io::Error),
    /// A reactor could not be created.
    #[error("cannot create a reactor: {0}; raise the limit of open files")]
    Reactor(#[source] io::Error),
    /// A number that must not be zero was zero, or a minimum was above its maximum.
    #[error("{what} is out of range: {hint}")]
    Range {
        /// The setting.
        what: &'static str,
        /// The valid values.
        hint: &'static str,
    },
    /// Two types that foms [carry](crate::Builder::carry) have the same name.
    #[error("two carried types have the name `{name}`; give each a name of its own")]
    SameName {
        /// The name.
        name: &'static str,
    },
    /// The data of a locality could not be made. The data made for earlier localities was dropped again.
    #[error("cannot make the data of locality {locality}: {source}")]
    LocalityData {
        /// The locality.
        locality: usize,
        /// The error of the constructor.
        #[source]
        source: BoxError,
    },
    /// A part that [`Builder::after_build`](crate::Builder::after_build) adds could not be made.
    #[error("cannot add a part of the runtime: {0}")]
    Part(#[source] BoxError),
    /// The journal could not be opened or read. [`DurabilityError::downcast_ref`] returns the error of the store.
    #[error(transparent)]
    Journal(DurabilityError),
    /// One operation type [had](crate::machine::Graph::renamed) names that another type has or had. So it is not clear
    /// which type the records of a journal under these names belong to.
    #[error(
        "`{was}` was called `{operation}` (machine `{machine}`), and so is or was `{other}`; take that `was` out, give the other another name, or say with `Builder::operation` which of them is meant"
    )]
    NameTaken {
        /// The operation.
        operation: String,
        /// The machine.
        machine: String,
        /// The type that had the names.
        was: &'static str,
        /// The other type.
        other: &'static str,
    },
}

/// A refused submission. It gives back the operation, and leaves nothing in the runtime. `source()` is the
/// [reason](Refused::reason).
pub struct Refused<O: Operation>(pub(crate) Box<RefusedInner<O>>);

pub(crate) struct RefusedInner<O: Operation> {
    pub(crate) reason: RefusedReason,
    pub(crate) operation: Exclusive<O>,
    pub(crate) live: Option<FomRef<O>>,
}

impl<O: Operation> Refused<O> {
    /// Returns a refusal that gives this operation back.
    pub fn new(reason: RefusedReason, operation: O) -> Self {
        Self(Box::new(RefusedInner {
            reason,
            operation: Exclusive::new(operation),
            live: None,
        }))
    }

    /// Returns the reason.
    pub fn reason(&self) -> RefusedReason {
        self.0.reason
    }

    /// Returns the fom that has the key, or is the next to have it, for [`RefusedReason::KeyInUse`].
    pub fn live(&self) -> Option<&FomRef<O>> {
        self.0.live.as_ref()
    }

    /// Returns the operation, as it was submitted.
    pub fn into_operation(self) -> O {
        self.0.operation.into_inner()
    }
}

impl<O: Operation> fmt::Debug for Refused<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused")
            .field("reason", &self.0.reason)
            .finish_non_exhaustive()
    }
}

impl<O: Operation> fmt::Display for Refused<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was refused: {}", O::GRAPH.operation(), self.0.reason)
    }
}

impl<O: Operation> std::error::Error for Refused<O> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0.reason)
    }
}

impl<O: Operation> From<Refused<O>> for Failure<O> {
    fn from(refused: Refused<O>) -> Self {
        Self::unstarted(Cause::Refused(refused.reason()), refused.into_operation())
    }
}
