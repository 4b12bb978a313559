//! One fom as self-contained bytes: its operation, its phase by name, and the phase's data by field name.
//!
//! A snapshot is a magic number, the schema and the body in one record of MessagePack, and a checksum. A transition
//! writes only the body, without the schema.

pub(crate) mod body;
mod bytes;
pub(crate) mod encoding;
mod error;
pub(crate) mod quarantined;
mod saved;
pub(crate) mod schema;
mod strict;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod types;
mod unread;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::snapshot::{body::Parts, encoding::append};
pub use body::{Encoded, Fields, Values, at};
pub(crate) use body::{Reader, SavedValues, write};
pub(crate) use encoding::{decode, field};
pub use error::{RestoreError, SnapshotError};
pub use quarantined::{KeptFailure, QuarantineKind, Quarantined};
pub use saved::{Migration, Saved, SavedError};
pub(crate) use schema::{Schema, fingerprint};
pub(crate) use unread::Unread;

const MAGIC: &[u8; 4] = b"FOM2";
const CHECKSUM: usize = 4;

/// The data saved beside the operation and its phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meta {
    /// The id of the fom; 0 if it is saved outside of a runtime.
    pub id: u64,
    /// The number of earlier attempts at the phase.
    pub attempt: u32,
    /// The rest of the phase's deadline, in nanoseconds.
    pub left: Option<u64>,
    /// Whether the fom comes from a snapshot; never saved.
    #[serde(skip)]
    pub resumed: bool,
}

#[derive(Serialize, Deserialize)]
struct Record<'a> {
    meta: Meta,
    #[serde(borrow)]
    schema: bytes::Bytes<'a>,
    #[serde(borrow)]
    body: bytes::Bytes<'a>,
}

/// A saved fom.
///
/// ```
/// # use fom_runtime::prelude::*;
/// # use serde::{Serialize, Deserialize};
/// #[derive(Serialize, Deserialize)]
/// struct Greet { name: String }
///
/// #[fom(operation(Greet))]
/// enum Greeting {
///     #[phase(start, to(Said))]
///     Say,
///     #[phase(end)]
///     Said,
/// }
/// # impl GreetingTransitions for Greet {
/// #     async fn say(&mut self, _: &mut Cx<'_>) -> Result<(), fom_runtime::error::BoxError> { Ok(()) }
/// # }
///
/// let saved = Greet { name: "Ada".into() }.snapshot(&Greeting::Say)?;
/// let bytes = saved.as_bytes().to_vec();
/// let (greet, phase) = Greet::restore(&Snapshot::from_bytes(bytes)?)?;
/// assert!(matches!(phase, Greeting::Say) && greet.name == "Ada");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    bytes: Vec<u8>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

impl Snapshot {
    /// Makes a snapshot from bytes, after a check that they are one and whole. Snapshots of every earlier release are
    /// accepted too.
    ///
    /// # Errors
    ///
    /// Fails with [`RestoreError::NotASnapshot`] or [`RestoreError::Damaged`].
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self, RestoreError> {
        let bytes = bytes.into();
        if bytes.len() < MAGIC.len() + CHECKSUM || !bytes.starts_with(MAGIC) {
            return Err(RestoreError::NotASnapshot);
        }
        let (body, sum) = bytes.split_at(bytes.len() - CHECKSUM);
        if crc32fast::hash(body).to_le_bytes() != *sum {
            return Err(RestoreError::Damaged);
        }
        Ok(Self { bytes })
    }

    /// Returns the bytes, to store or to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the name of the phase, without opening the rest.
    ///
    /// # Errors
    ///
    /// Fails with [`RestoreError::Damaged`] if the record cannot be read.
    pub fn phase(&self) -> Result<String, RestoreError> {
        self.parts(|_, parts| Ok(parts.phase.to_owned()))
    }

    /// Returns the name of the machine (the enum of phases).
    ///
    /// # Errors
    ///
    /// Fails with [`RestoreError::Damaged`] if the record cannot be read.
    pub fn machine(&self) -> Result<String, RestoreError> {
        self.parts(|_, parts| Ok(parts.machine.to_owned()))
    }

    /// Returns the version of the machine that saved it: `#[fom(version = ..)]`. Default: 1.
    ///
    /// # Errors
    ///
    /// Fails with [`RestoreError::Damaged`] if the record cannot be read.
    pub fn version(&self) -> Result<u32, RestoreError> {
        self.parts(|_, parts| Ok(parts.version))
    }

    /// Returns what is in it, by names, as a migration gets it. This needs no machine.
    ///
    /// # Errors
    ///
    /// Fails with [`RestoreError::Damaged`] if the record cannot be read.
    pub fn saved(&self) -> Result<Saved, RestoreError> {
        self.parts(|_, parts| Ok(Saved::of(parts)))
    }

    /// Returns the values, without a copy of them, and the names of the secrets.
    pub(crate) fn values(&self) -> Option<(SavedValues<'_>, Vec<String>)> {
        let inner = self.bytes.get(MAGIC.len()..self.bytes.len() - CHECKSUM)?;
        let record: Record<'_> = decode(inner).ok()?;
        let schema = Schema::from_bytes(record.schema.0).ok()?;
        Some((body::values_of(&schema, record.body.0)?, schema.secrets))
    }

    /// Makes a self-contained snapshot from a body and its schema.
    pub(crate) fn of(schema: &[u8], body: &[u8], meta: Meta) -> Result<Self, SnapshotError> {
        /// The bytes of a record beside its schema and its body, in most snapshots.
        const FRAME: usize = 64;
        let record = Record {
            meta,
            schema: bytes::Bytes(schema),
            body: bytes::Bytes(body),
        };
        let mut bytes = Vec::with_capacity(schema.len() + body.len() + FRAME);
        bytes.extend_from_slice(MAGIC);
        append(&record, &mut bytes).map_err(SnapshotError::Operation)?;
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        Ok(Self { bytes })
    }

    /// Reads the operation and its phase.
    pub(crate) fn open<O: DeserializeOwned, P>(
        &self,
        reader: &Reader<P>,
    ) -> Result<(O, P), RestoreError> {
        self.parts(|_, parts| reader.open(parts, None))
    }

    pub(crate) fn meta(&self) -> Result<Meta, RestoreError> {
        self.parts(|meta, _| Ok(meta))
    }

    /// Reads the parts of the snapshot.
    fn parts<T>(
        &self,
        then: impl FnOnce(Meta, Parts<'_>) -> Result<T, RestoreError>,
    ) -> Result<T, RestoreError> {
        let inner = &self.bytes[MAGIC.len()..self.bytes.len() - CHECKSUM];
        let record: Record<'_> = decode(inner).map_err(|_| RestoreError::Damaged)?;
        let schema = Schema::from_bytes(record.schema.0)?;
        let parts = Parts::of(&schema, record.body.0)?;
        then(record.meta, parts)
    }
}
