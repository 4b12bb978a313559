//! What is kept of a fom: one entry of the journal.
//!
//! A byte that says what it is, then [`Meta`], then the body: operation and phase, to be read with a schema, which is an entry of
//! its own.

use serde::{Deserialize, Serialize};

use crate::{
    error::{RestoreError, SnapshotError},
    id::Key,
    journal::EntryId,
    operation::{Codec, Durability, Operation},
    snapshot,
};

/// What an entry is: its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// [`Head`](super::Head).
    Head = 1,
    /// How the bodies of a type are to be read.
    Schema = 2,
    /// A fom that has not ended.
    Fom = 3,
    /// How a fom ended that was submitted with an operation id.
    Outcome = 5,
    /// An event for a fom.
    Message = 4,
}

/// What is kept of a fom beside its operation and phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meta {
    /// The number of the step that its phase was entered with.
    pub(crate) step: u64,
    /// Failed attempts at this phase.
    pub(crate) attempt: u32,
    /// What they said.
    pub(crate) causes: Vec<String>,
    /// When its deadline passes, in the time of the journal.
    pub(crate) due: Option<u64>,
    /// A deadline that an earlier phase keeps over this one: when, and which phase.
    pub(crate) kept: Option<Box<(u64, String)>>,
    /// Its home.
    pub(crate) home: u16,
    /// Whether it was placed there by hand.
    pub(crate) settled: bool,
    /// Its priority.
    pub(crate) priority: u8,
    /// Its key.
    #[serde(with = "stored_key")]
    pub(crate) key: Option<Key>,
    /// Its operation id.
    #[serde(with = "stored_key")]
    pub(crate) once: Option<Key>,
    /// What few have. Last, since it is in few records, and in none of older ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rare: Option<Box<Rare>>,
}

/// What is kept of few foms. Each further field comes at the end: older records are without.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rare {
    /// It has its key together with others that share it.
    pub(crate) shared: bool,
    /// It has not begun, and waits for its key with this number.
    pub(crate) waits: Option<u64>,
    /// When its next attempt is due, in the time of the journal.
    #[serde(default)]
    pub(crate) retry: Option<u64>,
    /// It holds long locks, and has more to do with them.
    #[serde(default)]
    pub(crate) locked: bool,
}

impl Meta {
    /// When its next attempt is due, if one has failed.
    pub(crate) fn retry(&self) -> Option<u64> {
        self.rare.as_ref().and_then(|rare| rare.retry)
    }

    pub(crate) fn set_retry(&mut self, at: Option<u64>) {
        if self.retry() != at {
            self.change_rare(|rare| rare.retry = at);
        }
    }

    /// Whether it holds long locks, and has more to do with them.
    pub(crate) fn locked(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.locked)
    }

    pub(crate) fn set_locked(&mut self, locked: bool) {
        if self.locked() != locked {
            self.change_rare(|rare| rare.locked = locked);
        }
    }

    fn change_rare(&mut self, change: impl FnOnce(&mut Rare)) {
        change(self.rare.get_or_insert_default());
        // Nothing in it: as if it had never been.
        if self.rare.as_deref() == Some(&Rare::default()) {
            self.rare = None;
        }
    }
}

/// How the foms of a type are kept, if they are.
pub(crate) const fn codec<O: Operation>() -> Option<Codec<O>> {
    match (O::DURABILITY, O::CODEC) {
        (Durability::None, _) => None,
        (_, codec) => codec,
    }
}

/// Where a fom stands in the journal.
pub(crate) fn entry_of(fom: u64) -> EntryId {
    EntryId(EntryId::HEAD.0 + fom)
}

/// The fom whose entry this is.
pub(crate) fn fom_of(entry: EntryId) -> u64 {
    entry.0 - EntryId::HEAD.0
}

/// Appends the entry of a fom.
pub(crate) fn encode_fom<O: Operation>(
    codec: &Codec<O>,
    meta: &Meta,
    operation: &O,
    phase: &O::Phase,
    out: &mut Vec<u8>,
) -> Result<(), SnapshotError> {
    out.push(Kind::Fom as u8);
    rmp_serde::encode::write(out, meta)
        .map_err(|error| SnapshotError::Operation(error.to_string()))?;
    (codec.save_body)(operation, phase, out)
}

/// Reads what [`encode_fom`] wrote, up to the body.
pub(crate) fn decode_meta(bytes: &[u8]) -> Result<(Meta, &[u8]), RestoreError> {
    snapshot::leading(bytes).map_err(|_| RestoreError::Damaged)
}

/// A [`Key`] as it is stored. Not as serde would write its variants: those may be reordered.
pub(super) mod stored_key {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use crate::id::Key;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Stored {
        Int(u64),
        Text(String),
        Bytes(Vec<u8>),
        Pair(Box<(Stored, Stored)>),
    }

    impl From<&Key> for Stored {
        fn from(key: &Key) -> Self {
            match key {
                Key::Int(key) => Self::Int(*key),
                Key::Text(key) => Self::Text(key.to_string()),
                Key::Bytes(key) => Self::Bytes(key.to_vec()),
                Key::Pair(pair) => Self::Pair(Box::new(((&pair.0).into(), (&pair.1).into()))),
            }
        }
    }

    impl From<Stored> for Key {
        fn from(key: Stored) -> Self {
            match key {
                Stored::Int(key) => Self::Int(key),
                Stored::Text(key) => key.into(),
                Stored::Bytes(key) => Self::Bytes(key.into()),
                Stored::Pair(pair) => (Key::from(pair.0), Key::from(pair.1)).into(),
            }
        }
    }

    pub(in crate::durable) fn serialize<S: Serializer>(
        key: &Option<Key>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        key.as_ref().map(Stored::from).serialize(out)
    }

    pub(in crate::durable) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Option<Key>, D::Error> {
        let key = Option::<Stored>::deserialize(input).map_err(D::Error::custom)?;
        Ok(key.map(Key::from))
    }
}
