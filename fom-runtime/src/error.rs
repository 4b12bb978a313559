//! Every error of the crate. Each says what to do, and gives back what was passed in.

use std::{fmt, io, time::Duration};

use fom_journal::{Damage, JournalError};

use crate::{
    FomRef,
    id::{FomId, Key},
    lock::LockError,
    operation::Operation,
};

/// The error type of a machine that declares none: anything that `?` can turn into it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The event type of a machine that takes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEvent {}

/// A runtime could not be built.
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
    /// A number that must not be zero was zero, or a least was above its most.
    #[error("{what} is out of range: {hint}")]
    Range {
        /// The setting.
        what: &'static str,
        /// What it must be.
        hint: &'static str,
    },
    /// A locality's data could not be made; the data made before it has been dropped again.
    #[error("cannot make the data of locality {locality}: {source}")]
    LocalityData {
        /// Which locality.
        locality: usize,
        /// What the constructor returned.
        #[source]
        source: BoxError,
    },
    /// The journal could not be opened or read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// One operation type [had](crate::Graph::renamed) the names that another one has, or had too: of what a journal has under
    /// them nobody knows whose it is.
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
        /// The other one.
        other: &'static str,
    },
}

/// Why a submission was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusedReason {
    /// As many foms are in flight as the runtime takes.
    #[error("the runtime is full; submit it again later, or shed load")]
    Full,
    /// The runtime is shutting down or has shut down.
    #[error("the runtime is shutting down")]
    ShuttingDown,
    /// A live fom has this key; [`Refused::live`] is its address.
    #[error("a live fom has this key already; `queue()` waits behind it")]
    KeyInUse,
    /// As many foms wait for this key as [may](crate::Builder::key_queue).
    #[error("the queue of this key is full; submit it again later, or shed load")]
    KeyFull,
    /// The key is [suspended](crate::Runtime::suspend_key), and this submission would not wait.
    #[error("the key is suspended; `queue()` waits until it is resumed")]
    KeySuspended,
    /// It is to be [chained](crate::Submission::chain), and no fom that has a key submits it.
    #[error("`chain()` is for what a fom submits that has a key; use `key(..)` here")]
    NoTurn,
    /// The placement names a locality that does not exist.
    #[error("there is no such locality")]
    NoSuchLocality,
    /// An operation with this [id](crate::Submission::once) is in the journal and cannot go on for now.
    #[error(
        "the operation with this id is set aside; see `Runtime::set_aside`, and retry it or discard it"
    )]
    SetAside,
}

/// A submission that was refused. Nothing of it is left in the runtime, and the operation is given back.
pub struct Refused<O: Operation>(pub(crate) Box<RefusedInner<O>>);

pub(crate) struct RefusedInner<O: Operation> {
    pub(crate) reason: RefusedReason,
    pub(crate) operation: O,
    pub(crate) live: Option<FomRef<O>>,
}

impl<O: Operation> Refused<O> {
    /// Why.
    pub fn reason(&self) -> RefusedReason {
        self.0.reason
    }

    /// The fom that has the key, or is the next to have it, for [`RefusedReason::KeyInUse`].
    pub fn live(&self) -> Option<&FomRef<O>> {
        self.0.live.as_ref()
    }

    /// The operation, as it was submitted.
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

/// Why a fom failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Cause<E> {
    /// Its phase function returned this error (for the last time, when the phase has retries).
    Error(E),
    /// Its phase function panicked, with this message.
    Panicked(String),
    /// The deadline of a phase passed, and the phase has no `late` function.
    Late {
        /// The phase whose `within` it was.
        armed_in: &'static str,
    },
    /// It was cancelled.
    Cancelled,
    /// The fom that has its key waited for it: neither would ever have gone on. It never began. What is to be done under a key that
    /// one has is [chained](crate::Submission::chain), or not waited for.
    Stuck,
    /// It made room for another one: in the queue of its key, for one that was
    /// [submitted](crate::Submission::shed_oldest) after it, or in front of the localities, by
    /// [the policy](crate::admission::WhenFull::Shed) there. It never began.
    Shed,
    /// The runtime was shut down before it ended.
    Shutdown,
    /// It was refused when it was submitted.
    Refused(RefusedReason),
    /// A blocking phase found no thread to leave the locality to.
    NoThread(BlockError),
    /// The locks of its phase could not be taken, and waiting would not have helped.
    Locks(LockError),
    /// An interposer returned a phase that is no declared exit.
    UndeclaredExit {
        /// The phase that it returned.
        to: &'static str,
    },
    /// Its transition could not be committed. It ends here, but not in the journal: what was committed before stays. It is
    /// [set aside](crate::Runtime::set_aside), and goes on by itself when the journal works again, or when the program is started
    /// again.
    ///
    /// One whose first commit it was is not there, and its operation is in [`Failure::operation`]. It can only come back when the
    /// process ends before the journal works again: who submits it again does that with an [id](crate::Submission::once).
    Journal(JournalError),
    /// Its transition could not be committed because operation or phase cannot be saved.
    NotSaved(SnapshotError),
    /// An operation that was submitted before with the same [id](crate::Submission::once) had failed. All that is remembered of
    /// its cause is the text.
    Remembered {
        /// What the cause said.
        cause: String,
    },
    /// An operation that was submitted before with the same [id](crate::Submission::once) came to one of its *ends*, and this
    /// program cannot read which: a newer release has written it, for example. It did not fail, and is not to be done again under
    /// another id; a release that can read it gives the outcome.
    Unread {
        /// Why it cannot be read.
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
    /// The same with another error, where it is one.
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

    /// Whatever the type of the error is, which is left out.
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

    /// As text, for an error of any type, which is left out.
    pub(crate) fn text(&self) -> String {
        struct Untyped<'a, E>(&'a Cause<E>);
        impl<E> fmt::Display for Untyped<'_, E> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt_untyped(f)
            }
        }
        Untyped(self).to_string()
    }

    /// The cause as one word, as it stands in listings and transitions.
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
    /// Why.
    pub cause: Cause<O::Error>,
    /// The phase in which it happened.
    pub phase: &'static str,
    /// The operation, where it still exists.
    pub operation: Option<O>,
    /// Events that were sent to it and that no phase took, oldest first.
    pub untaken: Vec<O::Event>,
    /// What earlier attempts at the phase said, oldest first, also those before a restart: sixteen at most, each cut after 200
    /// letters. The last one is the cause.
    pub attempts: Vec<String>,
}

impl<O: Operation> Failure<O> {
    pub(crate) fn new(cause: Cause<O::Error>, phase: &'static str, operation: Option<O>) -> Self {
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

/// What was [set aside](crate::Runtime::set_aside) could not be tried again, or cannot run now either.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RetryError {
    /// Nothing that is set aside has this id.
    #[error("nothing with the id {0} is set aside; see `Runtime::set_aside`")]
    NotSetAside(FomId),
    /// It cannot run now either.
    #[error("it still cannot run: {0}")]
    Still(#[source] RestoreError),
    /// Its last transition could not be committed. It goes on by itself when the journal works again.
    #[error("it waits for the journal, and goes on by itself when that works again")]
    Pending,
    /// The runtime takes nothing more in. It is tried again at the next start.
    #[error("the runtime is shutting down; it is tried again at the next start")]
    ShuttingDown,
}

/// What was [set aside](crate::Runtime::set_aside) could not be taken out of the journal.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscardError {
    /// Nothing that is set aside has this id.
    #[error("nothing with the id {0} is set aside; see `Runtime::set_aside`")]
    NotSetAside(FomId),
    /// Its last transition could not be committed. It goes on by itself when the journal works again; cancel it then.
    #[error(
        "it waits for the journal, and goes on by itself when that works again; cancel it then"
    )]
    Pending,
    /// That could not be committed.
    #[error("it could not be taken out of the journal: {0}")]
    Journal(#[source] JournalError),
}

/// An event could not be delivered; it is given back.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError<E> {
    /// The fom has ended.
    #[error("the fom has ended; the event was not delivered")]
    Ended(E),
    /// Its mailbox is full of events that it has not taken yet.
    #[error("the fom's mailbox is full; send it again later, or drop it")]
    Full(E),
}

impl<E> SendError<E> {
    /// The event.
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

/// Enter-block failed; the fom still has its locality.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// No thread could be created that would take over the locality.
    #[error(
        "no thread can take over the locality: {0}; raise the limit of threads, or lower `Followers::most`"
    )]
    NoThread(#[source] io::Error),
    /// The calling thread does not hold a locality at this moment.
    #[error("not inside a phase, or inside a blocking section already")]
    NotInPhase,
}

/// A wait ran into its limit.
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
        /// What its `Serialize` said.
        reason: String,
    },
    /// A `Serialize` panicked.
    #[error("the operation cannot be saved: it panicked: {0}")]
    Panicked(String),
    /// The machine is declared `#[fom(transient)]`.
    #[error("the machine is transient: it declares that it cannot be saved")]
    Transient,
    /// It is longer than the journal takes.
    #[error(
        "a record of {length} bytes is too long for the journal, which takes {most}; keep large data elsewhere and save a reference"
    )]
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// The most that is taken.
        most: usize,
    },
    /// It is an event for a generic operation, which could not be read again after a restart.
    #[error(
        "an event for the generic `{0}` cannot be kept in an outbox; send it directly, or make an operation of its own that is not generic"
    )]
    Generic(&'static str),
}

/// Bytes were refused as a snapshot, or what is kept of a fom as a fom.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The bytes do not begin as a snapshot does.
    #[error("not a snapshot of a fom")]
    NotASnapshot,
    /// The checksum or the structure is wrong.
    #[error("the snapshot is damaged: its checksum or structure is wrong")]
    Damaged,
    /// It is of another machine.
    #[error(
        "the snapshot is of machine `{found}`, not of `{wanted}`; if that was its name, write `was = \"{found}\"` in the `#[fom(..)]`"
    )]
    OtherMachine {
        /// The machine in the snapshot.
        found: String,
        /// The machine asked for.
        wanted: &'static str,
    },
    /// This program has no such operation.
    #[error(
        "operation `{operation}` (machine `{machine}`) is not in this program; start one that has it, say with `was` which one had these names, or register a generic one with `Builder::operation`"
    )]
    UnknownOperation {
        /// The operation.
        operation: String,
        /// The machine.
        machine: String,
    },
    /// What is kept of it in the journal is damaged.
    #[error("its record is damaged: {0}")]
    InJournal(Damage),
    /// An event for it does not fit its type.
    #[error("an event for `{operation}` cannot be read: {reason}")]
    Event {
        /// The operation.
        operation: String,
        /// What its `Deserialize` said.
        reason: String,
    },
    /// It is not known how events for it are read.
    #[error(
        "its events cannot be read: they need `Serialize` and `Deserialize`, and a generic operation takes none through an outbox"
    )]
    NoEventReader,
    /// The journal does not have the schema that it was written with.
    #[error(
        "the journal has lost the schema that it was written with; restore the journal from a copy"
    )]
    NoSchema,
    /// Two operations of this program have the same names.
    #[error(
        "`{one}` and `{other}` have the same names; say which one it is with `Builder::operation`, or rename one"
    )]
    Ambiguous {
        /// One of them.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// Code that reads it panicked.
    #[error("it panicked while it was read: {0}")]
    Panicked(String),
    /// Its last transition could not be committed. It goes on when the journal works again.
    #[error("its last transition could not be committed: {0}")]
    NotCommitted(String),
    /// It is an event that was sent through an outbox, and whoever it was sent to is set aside. It is delivered when that one comes
    /// back.
    #[error("it is an event for fom {0}, which is set aside")]
    ReceiverSetAside(FomId),
    /// It is an event that was sent through an outbox, and nobody had the key that it was sent to, or whoever had it ended without
    /// taking it. It is delivered when it is [tried again](crate::Runtime::retry_set_aside) and there is somebody, at the next start, too.
    #[error(
        "it is an event for `{operation}` with the key `{key}`, which has ended or was never there; start one and try again, or discard it"
    )]
    NoReceiver {
        /// The operation type that it was sent to.
        operation: String,
        /// The key that it was sent to.
        key: Key,
    },
    /// A live fom has its key already.
    #[error("a live fom has its key `{0}` already")]
    KeyInUse(Key),
    /// It is of another operation, whose machine has the same name.
    #[error(
        "the snapshot is of operation `{found}`, not of `{wanted}`; if that was its name, write `operation({wanted}, was = \"{found}\")`"
    )]
    OtherOperation {
        /// The operation in the snapshot.
        found: String,
        /// The operation asked for.
        wanted: &'static str,
    },
    /// It is in a phase that this release does not have.
    #[error(
        "the snapshot is in phase `{phase}`, which `{machine}` does not have; write `was = \"{phase}\"` in the `#[phase(..)]` of the one that goes on with it, or start a release that has it"
    )]
    UnknownPhase {
        /// The phase in the snapshot.
        phase: String,
        /// The machine.
        machine: &'static str,
    },
    /// It holds a field that the phase does not have.
    #[error(
        "the snapshot has a field `{field}` that phase `{phase}` does not have; take it out in a migration, or start a release that has it"
    )]
    UnknownField {
        /// The phase.
        phase: String,
        /// The field in the snapshot.
        field: String,
    },
    /// It lacks a field of the phase.
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
        /// Its type in this release.
        of: &'static str,
        /// What its `Deserialize` said.
        reason: String,
    },
    /// The operation does not fit its type.
    #[error(
        "the snapshot's operation is no `{operation}`; convert it in a migration, or write `#[serde(default)]` above what is new: {reason}"
    )]
    Operation {
        /// The operation.
        operation: &'static str,
        /// What its `Deserialize` said.
        reason: String,
    },
    /// The operation has a field that its type in this release does not have, so that it would be lost.
    #[error(
        "the snapshot's operation has a field `{field}` that `{operation}` does not have; take it out in a migration, or start a release that has it"
    )]
    UnknownOperationField {
        /// The operation.
        operation: &'static str,
        /// The field in the snapshot, with those that it is in: `address.street`.
        field: String,
    },
    /// It is in a phase that was taken out of the machine: `#[fom(retired(..))]`.
    #[error(
        "the snapshot is in phase `{phase}`, which `{machine}` retired; lead it to another phase in a migration, or start a release that has it"
    )]
    RetiredPhase {
        /// The phase in the snapshot.
        phase: String,
        /// The machine.
        machine: &'static str,
    },
    /// A later release saved it.
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
        /// The version that it migrates from.
        from: u32,
        /// What it said.
        reason: String,
    },
    /// A migration panicked.
    #[error("the migration of `{machine}` from version {from} panicked: {message}")]
    MigrationPanicked {
        /// The machine.
        machine: &'static str,
        /// The version that it migrates from.
        from: u32,
        /// What the panic said.
        message: String,
    },
}
