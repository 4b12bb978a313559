//! Saved foms that do not run, as they are listed.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::{
    attempt::Attempt,
    id::{FomId, Key, KeyOf},
    serial,
    snapshot::{Meta, RestoreError, Schema, Snapshot},
};

/// A journal entry that does not run. It stays in the journal; its [kind](Self::kind) says what brings it back.
///
/// `Display` writes one line: what the entry is, and why it does not run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Quarantined {
    /// The id of the fom. An event has an id of its own.
    pub id: FomId,
    /// The operation type, if it can be read. For an event, this field, `machine` and `key` describe the receiver.
    pub operation: Option<String>,
    /// The machine.
    pub machine: Option<String>,
    /// The version of the machine that saved the entry.
    pub version: Option<u32>,
    /// The phase of the fom.
    pub phase: Option<String>,
    /// The key that the fom was submitted with.
    pub key: Option<Key>,
    /// The reason why the entry does not run.
    pub reason: RestoreError,
    /// How the operation failed, if it failed.
    pub failure: Option<Box<KeptFailure>>,
    /// The bytes of the entry in the journal; empty if the entry is damaged.
    pub bytes: Arc<[u8]>,
    /// How the entry of a fom is read, if it can be read.
    pub(crate) saved: Option<SavedBody>,
    /// The key for which the fom keeps its place.
    pub(crate) place: Option<KeyOf>,
}

/// How an operation in quarantine failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KeptFailure {
    /// The text of the cause, with the sources of its error.
    pub cause: String,
    /// The phases that the operation came through, oldest first, without the phase in which it failed. At most the last
    /// eight. A phase that this release no longer has is left out.
    pub path: Vec<String>,
    /// The failed attempts at the phase before the last one, oldest first. The error of the last attempt is the cause.
    pub attempts: Vec<Attempt>,
    /// How long ago the operation failed, in the time of the journal, which goes on while the program does not run.
    #[serde(serialize_with = "serial::seconds")]
    pub age: Duration,
}

/// What the entries of a quarantine have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QuarantineKind {
    /// The disk has damaged the entry.
    Damaged,
    /// This release cannot read the entry, or cannot run it now. Each start tries it again.
    Unreadable,
    /// The operation failed. It runs again when a caller tries it again.
    Failed,
    /// An event has no receiver.
    NoReceiver,
    /// The last transition waits for the journal. The fom goes on by itself.
    Uncommitted,
}

impl QuarantineKind {
    /// Returns the kind as one word, as in a serialized entry.
    pub fn name(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Unreadable => "unreadable",
            Self::Failed => "failed",
            Self::NoReceiver => "no_receiver",
            Self::Uncommitted => "uncommitted",
        }
    }
}

/// The place of operation and phase in the bytes of an entry.
#[derive(Clone, Debug)]
pub(crate) struct SavedBody {
    pub(crate) schema: Arc<Schema>,
    /// The first byte of the body.
    pub(crate) from: usize,
    /// Failed attempts at the phase.
    pub(crate) attempt: u32,
}

impl Quarantined {
    /// Returns an entry of which only the bytes are known.
    pub(crate) fn unread(id: FomId, reason: RestoreError, bytes: &[u8]) -> Self {
        Self {
            id,
            operation: None,
            machine: None,
            version: None,
            phase: None,
            key: None,
            reason,
            failure: None,
            bytes: bytes.into(),
            saved: None,
            place: None,
        }
    }

    /// Returns the kind of the entry.
    pub fn kind(&self) -> QuarantineKind {
        match self.reason {
            RestoreError::Damaged | RestoreError::InJournal { .. } => QuarantineKind::Damaged,
            RestoreError::Failed { .. } => QuarantineKind::Failed,
            RestoreError::NoReceiver { .. }
            | RestoreError::NoFom { .. }
            | RestoreError::ReceiverQuarantined(_) => QuarantineKind::NoReceiver,
            RestoreError::NotCommitted(_) => QuarantineKind::Uncommitted,
            _ => QuarantineKind::Unreadable,
        }
    }

    /// Returns the fom as a self-contained snapshot. The snapshot can be stored, inspected, or
    /// [resumed](crate::Runtime::resume) by a program that can read it. Returns `None` if the entry cannot be read.
    pub fn snapshot(&self) -> Option<Snapshot> {
        // An entry without a schema is no fom.
        let saved = self.saved.as_ref()?;
        let meta = Meta {
            id: self.id.get(),
            attempt: saved.attempt,
            // A time of the journal has no meaning elsewhere.
            left: None,
            resumed: false,
        };
        Snapshot::of(
            &saved.schema.to_bytes(),
            self.bytes.get(saved.from..)?,
            meta,
        )
        .ok()
    }

    /// Returns the operation type and the key, as far as they are known, as one text.
    pub fn named(&self) -> String {
        let operation = self.operation.as_deref().unwrap_or("?");
        match &self.key {
            Some(key) => format!("{operation} {key}"),
            None => operation.to_owned(),
        }
    }
}

/// In listings, an entry has its kind, and the number of its bytes.
impl Serialize for Quarantined {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut entry = to.serialize_struct("Quarantined", 10)?;
        entry.serialize_field("id", &self.id)?;
        entry.serialize_field("kind", &self.kind())?;
        entry.serialize_field("operation", &self.operation)?;
        entry.serialize_field("machine", &self.machine)?;
        entry.serialize_field("version", &self.version)?;
        entry.serialize_field("phase", &self.phase)?;
        entry.serialize_field("key", &self.key.as_ref().map(Key::to_string))?;
        entry.serialize_field("reason", &self.reason.to_string())?;
        entry.serialize_field("failure", &self.failure)?;
        entry.serialize_field("bytes", &self.bytes.len())?;
        entry.end()
    }
}

impl fmt::Display for Quarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.named())?;
        if let Some(phase) = &self.phase {
            write!(f, " in {phase}")?;
        }
        if let Some(version) = self.version {
            write!(f, " (version {version})")?;
        }
        write!(f, ": {}", self.reason)
    }
}
