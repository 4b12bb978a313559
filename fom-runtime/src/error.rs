//! The errors of the crate. Each message says what to do, and each error gives back what the caller passed in.

use std::{fmt, io, time::Duration};

use fom_journal::{Damage, JournalError};

use crate::{
    FomRef,
    id::{FomId, Key},
    lock::LockError,
    operation::Operation,
};

/// The error type of a machine that declares none: anything that `?` can convert to it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The event type of a machine that takes no events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEvent {}

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
    /// The data of a locality could not be made. The data made for earlier localities was dropped again.
    #[error("cannot make the data of locality {locality}: {source}")]
    LocalityData {
        /// The locality.
        locality: usize,
        /// The error of the constructor.
        #[source]
        source: BoxError,
    },
    /// The journal could not be opened or read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// One operation type [had](crate::Graph::renamed) names that another type has or had. So it is not clear which
    /// type the records of a journal under these names belong to.
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

/// The reason why a submission was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusedReason {
    /// The runtime has as many foms in flight as it takes.
    #[error("the runtime is full; submit it again later, or shed load")]
    Full,
    /// The runtime is shutting down or has shut down.
    #[error("the runtime is shutting down")]
    ShuttingDown,
    /// A live fom has this key. [`Refused::live`] is its address.
    #[error("a live fom has this key already; `queue()` waits behind it")]
    KeyInUse,
    /// As many foms wait for this key as [`key_queue`](crate::Builder::key_queue) allows.
    #[error("the queue of this key is full; submit it again later, or shed load")]
    KeyFull,
    /// The key is [suspended](crate::Runtime::suspend_key), and this submission does not wait.
    #[error("the key is suspended; `queue()` waits until it is resumed")]
    KeySuspended,
    /// The submission is [chained](crate::Submission::chain), but no fom with a key submits it.
    #[error("`chain()` is for what a fom submits that has a key; use `key(..)` here")]
    NoTurn,
    /// The placement names a locality that does not exist.
    #[error("there is no such locality")]
    NoSuchLocality,
    /// The journal has an operation with this [id](crate::Submission::once), which cannot go on for now.
    #[error(
        "the operation with this id is set aside; see `Runtime::set_aside`, and retry it or discard it"
    )]
    SetAside,
}

/// A refused submission. It gives back the operation, and leaves nothing in the runtime.
pub struct Refused<O: Operation>(pub(crate) Box<RefusedInner<O>>);

pub(crate) struct RefusedInner<O: Operation> {
    pub(crate) reason: RefusedReason,
    pub(crate) operation: O,
    pub(crate) live: Option<FomRef<O>>,
}

impl<O: Operation> Refused<O> {
    /// Returns a refusal that gives this operation back.
    pub fn new(reason: RefusedReason, operation: O) -> Self {
        Self(Box::new(RefusedInner {
            reason,
            operation,
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
        self.0.operation
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

impl<O: Operation> std::error::Error for Refused<O> {}

/// The reason why a fom failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Cause<E> {
    /// The phase function returned this error (for the last time, if the phase has retries).
    Error(E),
    /// The phase function panicked, with this message.
    Panicked(String),
    /// The deadline of a phase passed, and the phase has no `late` function.
    Late {
        /// The phase with the `within` that passed.
        armed_in: &'static str,
    },
    /// The fom was cancelled.
    Cancelled,
    /// The fom that has the key waits for this fom, so neither could go on. This fom never began. A fom must
    /// [chain](crate::Submission::chain) work under its own key, or not wait for the work.
    Stuck,
    /// The fom made room for another one, and never began. In the queue of its key, a later submission that
    /// [sheds the oldest](crate::Submission::shed_oldest) took its place. In a queue in front of the localities,
    /// the policy of that queue shed it.
    Shed,
    /// The runtime was shut down before the fom ended.
    Shutdown,
    /// The submission was refused.
    Refused(RefusedReason),
    /// A blocking phase found no thread that could take over the locality.
    NoThread(BlockError),
    /// The locks of the phase could not be taken, and waiting would not have helped.
    Locks(LockError),
    /// An interposer returned a phase that is not a declared exit.
    UndeclaredExit {
        /// The phase that the interposer returned.
        to: &'static str,
    },
    /// A transition could not be committed. The fom ends here, but not in the journal: its committed transitions stay.
    /// The fom is [set aside](crate::Runtime::set_aside). It continues by itself when the journal works again, or when
    /// the program starts again.
    ///
    /// If this was the first commit of the fom, the journal does not have the fom, and the operation is in
    /// [`Failure::operation`]. The fom can come back only if the process ends before the journal works again. To
    /// submit the operation again, use an [id](crate::Submission::once).
    Journal(JournalError),
    /// A transition could not be committed, because the operation or the phase cannot be saved.
    NotSaved(SnapshotError),
    /// An earlier operation with the same [id](crate::Submission::once) failed. Only the text of its cause is
    /// remembered.
    Remembered {
        /// The text of the cause.
        cause: String,
    },
    /// An earlier operation with the same [id](crate::Submission::once) reached one of its *ends*, but this program
    /// cannot read which one. For example, a newer release wrote it. The operation did not fail: do not repeat it under
    /// another id. A release that can read the end gives the outcome.
    Unread {
        /// The reason why the end cannot be read.
        why: String,
    },
}

impl<E: fmt::Display> fmt::Display for Cause<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            other => other.fmt_untyped(f),
        }
    }
}

impl<E> Cause<E> {
    /// Maps the error of [`Cause::Error`], and keeps all other causes.
    pub fn map<F>(self, map: impl FnOnce(E) -> F) -> Cause<F> {
        match self {
            Self::Error(error) => Cause::Error(map(error)),
            Self::Panicked(message) => Cause::Panicked(message),
            Self::Late { armed_in } => Cause::Late { armed_in },
            Self::Cancelled => Cause::Cancelled,
            Self::Stuck => Cause::Stuck,
            Self::Shed => Cause::Shed,
            Self::Locks(error) => Cause::Locks(error),
            Self::Shutdown => Cause::Shutdown,
            Self::Refused(reason) => Cause::Refused(reason),
            Self::NoThread(error) => Cause::NoThread(error),
            Self::UndeclaredExit { to } => Cause::UndeclaredExit { to },
            Self::Journal(error) => Cause::Journal(error),
            Self::NotSaved(error) => Cause::NotSaved(error),
            Self::Remembered { cause } => Cause::Remembered { cause },
            Self::Unread { why } => Cause::Unread { why },
        }
    }

    /// Formats the cause for any error type. The error itself is left out.
    fn fmt_untyped(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(_) => f.write_str(self.name()),
            Self::Panicked(message) => write!(f, "panicked: {message}"),
            Self::Late { armed_in } => write!(f, "the deadline of `{armed_in}` passed"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Stuck => f.write_str(
                "the fom that has its key waited for it; chain it (`chain()`), or do not wait for it",
            ),
            Self::Shed => f.write_str(
                "it was shed: it made room for another one in its queue; submit it again later",
            ),
            Self::Shutdown => f.write_str("the runtime was shut down"),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
            Self::NoThread(error) => write!(f, "{error}"),
            Self::Locks(error) => write!(f, "{error}"),
            Self::UndeclaredExit { to } => {
                write!(f, "an interposer went to `{to}`, which is no declared exit")
            }
            Self::Journal(error) => write!(f, "{error}"),
            Self::NotSaved(error) => write!(f, "{error}"),
            Self::Remembered { cause } => f.write_str(cause),
            Self::Unread { why } => write!(
                f,
                "it ended, and what is remembered of that cannot be read: {why}"
            ),
        }
    }

    /// Returns the cause as text, for any error type. The error itself is left out.
    pub(crate) fn text(&self) -> String {
        struct Untyped<'a, E>(&'a Cause<E>);
        impl<E> fmt::Display for Untyped<'_, E> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt_untyped(f)
            }
        }
        Untyped(self).to_string()
    }

    /// Returns the cause as one word, as in listings and transitions.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Error(_) => "error",
            Self::Panicked(_) => "panicked",
            Self::Late { .. } => "late",
            Self::Cancelled => "cancelled",
            Self::Stuck => "stuck",
            Self::Shed => "shed",
            Self::Shutdown => "shutdown",
            Self::Refused(_) => "refused",
            Self::NoThread(_) => "no thread",
            Self::Locks(_) => "locks",
            Self::UndeclaredExit { .. } => "undeclared exit",
            Self::Journal(_) => "journal",
            Self::NotSaved(_) => "not saved",
            Self::Remembered { .. } => "remembered",
            Self::Unread { .. } => "unread",
        }
    }
}

/// A fom that ended in the standard failed outcome.
#[non_exhaustive]
pub struct Failure<O: Operation> {
    /// The cause.
    pub cause: Cause<O::Error>,
    /// The phase in which the fom failed.
    pub phase: &'static str,
    /// The operation, if it still exists.
    pub operation: Option<O>,
    /// Events sent to the fom that no phase took, oldest first.
    pub untaken: Vec<O::Event>,
    /// The errors of earlier attempts at the phase, oldest first, including attempts before a restart. There are at
    /// most sixteen, each cut after 200 letters. The last one is the cause.
    pub attempts: Vec<String>,
}

impl<O: Operation> Failure<O> {
    /// Returns a failure in this phase. The operation is what the caller gets back.
    pub fn new(cause: Cause<O::Error>, phase: &'static str, operation: Option<O>) -> Self {
        Self {
            cause,
            phase,
            operation,
            untaken: Vec::new(),
            attempts: Vec::new(),
        }
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
            self.phase,
            self.cause
        )
    }
}

impl<O: Operation> std::error::Error for Failure<O> where O::Error: fmt::Debug + fmt::Display {}

/// A fom that is [set aside](crate::Runtime::set_aside) could not be tried again, or still cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RetryError {
    /// No fom with this id is set aside.
    #[error("nothing with the id {0} is set aside; see `Runtime::set_aside`")]
    NotSetAside(FomId),
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

/// A fom that is [set aside](crate::Runtime::set_aside) could not be removed from the journal.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscardError {
    /// No fom with this id is set aside.
    #[error("nothing with the id {0} is set aside; see `Runtime::set_aside`")]
    NotSetAside(FomId),
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

/// An event that could not be delivered. The error gives it back.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError<E> {
    /// The fom has ended.
    #[error("the fom has ended; the event was not delivered")]
    Ended(E),
    /// The mailbox of the fom is full of events that the fom has not taken yet.
    #[error("the fom's mailbox is full; send it again later, or drop it")]
    Full(E),
}

impl<E> SendError<E> {
    /// Returns the event.
    pub fn into_event(self) -> E {
        match self {
            Self::Ended(event) | Self::Full(event) => event,
        }
    }
}

impl<E> fmt::Debug for SendError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended(_) => "Ended(..)",
            Self::Full(_) => "Full(..)",
        })
    }
}

/// A request was dropped without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request was dropped without an answer")]
pub struct Unanswered;

/// Enter-block failed. The fom still has its locality.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// No thread could be created to take over the locality.
    #[error(
        "no thread can take over the locality: {0}; raise the limit of threads, or lower `Followers::most`"
    )]
    NoThread(#[source] io::Error),
    /// The calling thread does not hold a locality now.
    #[error("not inside a phase, or inside a blocking section already")]
    NotInPhase,
}

/// A wait reached its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not reached within {0:?}")]
pub struct TimedOut(pub Duration);

/// A fom could not be saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The operation's own `Serialize` failed.
    #[error("the operation cannot be saved: {0}")]
    Operation(String),
    /// A field of the phase failed.
    #[error("field `{field}` of the phase cannot be saved: {reason}")]
    Field {
        /// The field.
        field: String,
        /// The error of its `Serialize`.
        reason: String,
    },
    /// A `Serialize` panicked.
    #[error("the operation cannot be saved: it panicked: {0}")]
    Panicked(String),
    /// The machine is declared `#[fom(transient)]`.
    #[error("the machine is transient: it declares that it cannot be saved")]
    Transient,
    /// The record is longer than the journal takes.
    #[error(
        "a record of {length} bytes is too long for the journal, which takes {most}; keep large data elsewhere and save a reference"
    )]
    TooLong {
        /// The length of the record, in bytes.
        length: usize,
        /// The greatest length that the journal takes, in bytes.
        most: usize,
    },
    /// The event is for a generic operation, so it could not be read again after a restart.
    #[error(
        "an event for the generic `{0}` cannot be kept in an outbox; send it directly, or make an operation of its own that is not generic"
    )]
    Generic(&'static str),
}

/// Bytes are not a snapshot, or a record cannot be restored as a fom.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The bytes do not begin as a snapshot does.
    #[error("not a snapshot of a fom")]
    NotASnapshot,
    /// The checksum or the structure is wrong.
    #[error("the snapshot is damaged: its checksum or structure is wrong")]
    Damaged,
    /// The snapshot is of another machine.
    #[error(
        "the snapshot is of machine `{found}`, not of `{wanted}`; if that was its name, write `was = \"{found}\"` in the `#[fom(..)]`"
    )]
    OtherMachine {
        /// The machine in the snapshot.
        found: String,
        /// The requested machine.
        wanted: &'static str,
    },
    /// This program does not have the operation.
    #[error(
        "operation `{operation}` (machine `{machine}`) is not in this program; start one that has it, say with `was` which one had these names, or register a generic one with `Builder::operation`"
    )]
    UnknownOperation {
        /// The operation.
        operation: String,
        /// The machine.
        machine: String,
    },
    /// The record of the fom in the journal is damaged.
    #[error("its record is damaged: {0}")]
    InJournal(Damage),
    /// An event for the fom does not fit its type.
    #[error("an event for `{operation}` cannot be read: {reason}")]
    Event {
        /// The operation.
        operation: String,
        /// The error of its `Deserialize`.
        reason: String,
    },
    /// The program has no reader for events of this operation.
    #[error(
        "its events cannot be read: they need `Serialize` and `Deserialize`, and a generic operation takes none through an outbox"
    )]
    NoEventReader,
    /// The journal does not have the schema that the record was written with.
    #[error(
        "the journal has lost the schema that it was written with; restore the journal from a copy"
    )]
    NoSchema,
    /// Two operations of this program have the same names.
    #[error(
        "`{one}` and `{other}` have the same names; say which one it is with `Builder::operation`, or rename one"
    )]
    Ambiguous {
        /// One of the two.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// Code that reads the record panicked.
    #[error("it panicked while it was read: {0}")]
    Panicked(String),
    /// The last transition of the fom could not be committed. The fom continues when the journal works again.
    #[error("its last transition could not be committed: {0}")]
    NotCommitted(String),
    /// An event from an outbox to a receiver that is set aside. The event is delivered when the receiver comes back.
    #[error("it is an event for fom {0}, which is set aside")]
    ReceiverSetAside(FomId),
    /// An event from an outbox to a key. No fom had the key, or the fom ended without taking the event. A
    /// [retry](crate::Runtime::retry_set_aside), or the next start, delivers the event if a fom has the key then.
    #[error(
        "it is an event for `{operation}` with the key `{key}`, which has ended or was never there; start one and try again, or discard it"
    )]
    NoReceiver {
        /// The operation type that the event was sent to.
        operation: String,
        /// The key that the event was sent to.
        key: Key,
    },
    /// A live fom has the key already.
    #[error("a live fom has its key `{0}` already")]
    KeyInUse(Key),
    /// The snapshot is of another operation. The machines of both have the same name.
    #[error(
        "the snapshot is of operation `{found}`, not of `{wanted}`; if that was its name, write `operation({wanted}, was = \"{found}\")`"
    )]
    OtherOperation {
        /// The operation in the snapshot.
        found: String,
        /// The requested operation.
        wanted: &'static str,
    },
    /// The snapshot is in a phase that this release does not have.
    #[error(
        "the snapshot is in phase `{phase}`, which `{machine}` does not have; write `was = \"{phase}\"` in the `#[phase(..)]` of the one that goes on with it, or start a release that has it"
    )]
    UnknownPhase {
        /// The phase in the snapshot.
        phase: String,
        /// The machine.
        machine: &'static str,
    },
    /// The snapshot has a field that the phase does not have.
    #[error(
        "the snapshot has a field `{field}` that phase `{phase}` does not have; take it out in a migration, or start a release that has it"
    )]
    UnknownField {
        /// The phase.
        phase: String,
        /// The field in the snapshot.
        field: String,
    },
    /// The snapshot lacks a field of the phase.
    #[error(
        "the snapshot lacks field `{field}`; write `#[phase(default)]` above it, or put it in by a migration"
    )]
    MissingField {
        /// The field.
        field: &'static str,
    },
    /// A field does not fit its type.
    #[error("field `{field}` of the snapshot is no `{of}`; convert it in a migration: {reason}")]
    Field {
        /// The field.
        field: &'static str,
        /// The type of the field in this release.
        of: &'static str,
        /// The error of its `Deserialize`.
        reason: String,
    },
    /// The operation does not fit its type.
    #[error(
        "the snapshot's operation is no `{operation}`; convert it in a migration, or write `#[serde(default)]` above what is new: {reason}"
    )]
    Operation {
        /// The operation.
        operation: &'static str,
        /// The error of its `Deserialize`.
        reason: String,
    },
    /// The operation has a field that its type in this release does not have. The field would be lost.
    #[error(
        "the snapshot's operation has a field `{field}` that `{operation}` does not have; take it out in a migration, or start a release that has it"
    )]
    UnknownOperationField {
        /// The operation.
        operation: &'static str,
        /// The field in the snapshot, with the fields around it: `address.street`.
        field: String,
    },
    /// The snapshot is in a phase that the machine retired: `#[fom(retired(..))]`.
    #[error(
        "the snapshot is in phase `{phase}`, which `{machine}` retired; lead it to another phase in a migration, or start a release that has it"
    )]
    RetiredPhase {
        /// The phase in the snapshot.
        phase: String,
        /// The machine.
        machine: &'static str,
    },
    /// A later release saved the snapshot.
    #[error(
        "the snapshot is of version {found} of `{machine}`, and this release knows up to version {known}; start one that has version {found}"
    )]
    NewerVersion {
        /// The machine.
        machine: &'static str,
        /// The version in the snapshot.
        found: u32,
        /// The version of this release.
        known: u32,
    },
    /// This release cannot read what that version saved.
    #[error(
        "the snapshot is of version {found} of `{machine}`, and nothing leads from it to version {wanted}; write `v{found}(path)` in `migrate(..)`, or start a release that has it"
    )]
    NoMigration {
        /// The machine.
        machine: &'static str,
        /// The version in the snapshot.
        found: u32,
        /// The version of this release.
        wanted: u32,
    },
    /// A migration returned an error.
    #[error("the migration of `{machine}` from version {from} failed: {reason}")]
    MigrationFailed {
        /// The machine.
        machine: &'static str,
        /// The version that the migration starts from.
        from: u32,
        /// The error of the migration.
        reason: String,
    },
    /// A migration panicked.
    #[error("the migration of `{machine}` from version {from} panicked: {message}")]
    MigrationPanicked {
        /// The machine.
        machine: &'static str,
        /// The version that the migration starts from.
        from: u32,
        /// The message of the panic.
        message: String,
    },
}
