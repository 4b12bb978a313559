//! What durability refuses.

use fom_journal::{JournalError, Statement};

use fom_runtime::{FomId, snapshot::RestoreError};

/// A fom that is [quarantined](crate::DurableExt::quarantine) could not be tried again, or still cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RetryError {
    /// No fom with this id is quarantined.
    #[error("nothing with the id {0} is quarantined; see `Runtime::quarantine`")]
    NotQuarantined(FomId),
    /// The fom still cannot run.
    #[error("it still cannot run: {0}")]
    Still(#[source] RestoreError),
    /// The last transition of the fom could not be committed. The fom continues by itself when the journal works again.
    #[error("it waits for the journal, and goes on by itself when that works again")]
    Pending,
    /// The runtime takes no more foms. The next start tries the fom again.
    #[error("the runtime is shutting down; it is tried again at the next start")]
    ShuttingDown,
}

/// A fom that is [quarantined](crate::DurableExt::quarantine) could not be removed from the journal.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscardError {
    /// No fom with this id is quarantined.
    #[error("nothing with the id {0} is quarantined; see `Runtime::quarantine`")]
    NotQuarantined(FomId),
    /// The last transition of the fom could not be committed. The fom continues by itself when the journal works again;
    /// cancel it then.
    #[error(
        "it waits for the journal, and goes on by itself when that works again; cancel it then"
    )]
    Pending,
    /// The removal could not be committed.
    #[error("it could not be taken out of the journal: {0}")]
    Journal(#[source] JournalError),
}

/// A statement cannot be committed with the transition. The error gives it back.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotExecuted {
    /// The runtime has no journal, or the machine is `transient` or has `durability = "none"`.
    #[error(
        "the transition is not kept, so no statement is committed with it: give the runtime a journal, and the machine \
         `durability = \"sync\"`"
    )]
    NotKept(Statement),
    /// The journal executes no statements of this type.
    #[error("the journal executes no statements of the type `{}`; use the journal of their store", .0.kind_name())]
    OtherStore(Statement),
}

impl NotExecuted {
    /// Returns the statement.
    pub fn into_statement(self) -> Statement {
        match self {
            Self::NotKept(statement) | Self::OtherStore(statement) => statement,
        }
    }
}
