//! Why a fom cannot be saved or restored.

use std::path::PathBuf;

use crate::id::{FomId, Key};

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
    #[error("its record is damaged: {length} bytes at offset {offset} of {}: {what}", file.display())]
    InJournal {
        /// The file.
        file: PathBuf,
        /// The offset of the damage in the file, in bytes.
        offset: u64,
        /// The length of the damage, in bytes.
        length: u64,
        /// What is wrong.
        what: &'static str,
    },
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
    /// The program holds the operation back, for example because a function of it has ended the process before.
    #[error("the program holds it back; try it again, or discard it")]
    HeldBack,
    /// The operation failed. A caller can try it again.
    #[error("it failed: {cause}; try it again, or discard it")]
    Failed {
        /// The text of the cause.
        cause: String,
    },
    /// An event from an outbox to a receiver that is quarantined. The event is delivered when the receiver comes back.
    #[error("it is an event for fom {0}, which is quarantined")]
    ReceiverQuarantined(FomId),
    /// An event from an outbox to a key. No fom had the key, or the fom ended without taking the event. A retry, or the
    /// next start, delivers the event if a fom has the key then.
    #[error(
        "it is an event for `{operation}` with the key `{key}`, which has ended or was never there; start one and try again, or discard it"
    )]
    NoReceiver {
        /// The operation type that the event was sent to.
        operation: String,
        /// The key that the event was sent to.
        key: Key,
    },
    /// The fom that an event was sent to by its id has ended. The event is kept as with [`NoReceiver`](Self::NoReceiver).
    #[error("it is an event for `{operation}` with the id {id}, which has ended; discard it")]
    NoFom {
        /// The operation type that the event was sent to.
        operation: String,
        /// The id that the event was sent to.
        id: FomId,
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
    /// A value that the fom carries does not fit its type.
    #[error(
        "what it carries as `{name}` cannot be read: {reason}; start a release that reads it, or give `Builder::carry` another name for it"
    )]
    Carried {
        /// The name that was given to `Builder::carry`.
        name: String,
        /// The error of its `Deserialize`.
        reason: String,
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
