//! Saved foms that cannot run, as they are listed.

use std::{fmt, sync::Arc};

use crate::{
    id::{FomId, Key, KeyOf},
    snapshot::{Meta, RestoreError, Schema, Snapshot},
};

/// A journal entry that cannot run. It stays in the journal unchanged, and each start tries it again.
///
/// `Display` writes one line: what the entry is, and why it cannot run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SetAside {
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
    /// The reason why the entry cannot run.
    pub reason: RestoreError,
    /// The bytes of the entry in the journal; empty if the entry is damaged.
    pub bytes: Arc<[u8]>,
    /// How the entry of a fom is read, if it can be read.
    pub(crate) saved: Option<SavedBody>,
    /// The key for which the fom keeps its place.
    pub(crate) place: Option<KeyOf>,
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

impl SetAside {
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
            bytes: bytes.into(),
            saved: None,
            place: None,
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
        Snapshot::of(&saved.schema, self.bytes.get(saved.from..)?, meta).ok()
    }

    /// Returns operation and key, as far as they are known.
    pub(crate) fn named(&self) -> String {
        let operation = self.operation.as_deref().unwrap_or("?");
        match &self.key {
            Some(key) => format!("{operation} {key}"),
            None => operation.to_owned(),
        }
    }
}

impl fmt::Display for SetAside {
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
