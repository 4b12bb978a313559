//! One fom as bytes: its operation, its phase by name, the phase's data by field name.
//!
//! The record is MessagePack with names, between a magic number and a checksum. Positional formats were tried and
//! refused: with a phase or a field inserted they decode wrong data without an error.

use std::{any::type_name, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use crate::{
    error::{RestoreError, SnapshotError},
    operation::{Persistent, Savable, phase_name},
};

const MAGIC: &[u8; 4] = b"FOM1";
const CHECKSUM: usize = 4;

/// What is saved beside the operation and its phase.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meta {
    /// The fom's id, 0 when it is saved outside of a runtime.
    pub id: u64,
    /// How often the phase was tried before.
    pub attempt: u32,
    /// What was left of the phase's deadline, in nanoseconds.
    pub left: Option<u64>,
    /// It comes out of a snapshot: never saved itself.
    #[serde(skip)]
    pub resumed: bool,
}

#[derive(Serialize, Deserialize)]
struct Record {
    machine: String,
    operation_type: String,
    meta: Meta,
    phase: String,
    #[serde(with = "serde_bytes_map")]
    fields: BTreeMap<String, Vec<u8>>,
    #[serde(with = "serde_bytes_vec")]
    operation: Vec<u8>,
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
/// #     async fn say(&mut self, _: &mut Cx<'_>) -> Result<(), fom_runtime::BoxError> { Ok(()) }
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
    /// Takes bytes for a snapshot after checking that they are one and whole.
    ///
    /// # Errors
    ///
    /// [`RestoreError::NotASnapshot`] and [`RestoreError::Damaged`].
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

    /// The bytes, to be stored or sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The name of the phase, without opening the rest.
    ///
    /// # Errors
    ///
    /// [`RestoreError::Damaged`] when the record cannot be read.
    pub fn phase(&self) -> Result<String, RestoreError> {
        Ok(self.record()?.phase)
    }

    /// The name of the machine (the enum of phases).
    ///
    /// # Errors
    ///
    /// [`RestoreError::Damaged`] when the record cannot be read.
    pub fn machine(&self) -> Result<String, RestoreError> {
        Ok(self.record()?.machine)
    }

    pub(crate) fn operation(&self) -> Result<String, RestoreError> {
        Ok(self.record()?.operation_type)
    }

    pub(crate) fn take<O: Persistent>(
        operation: &O,
        phase: &O::Phase,
        meta: Meta,
    ) -> Result<Self, SnapshotError> {
        let mut fields = Fields::default();
        O::save(phase, &mut fields);
        if let Some((field, reason)) = fields.failed {
            return Err(SnapshotError::Field { field, reason });
        }
        let record = Record {
            machine: O::GRAPH.name().to_owned(),
            operation_type: O::GRAPH.operation().to_owned(),
            meta,
            phase: phase_name::<O>(phase).to_owned(),
            fields: fields.values,
            operation: encode(operation).map_err(SnapshotError::Operation)?,
        };
        let mut bytes = MAGIC.to_vec();
        bytes.extend(encode(&record).map_err(SnapshotError::Operation)?);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        Ok(Self { bytes })
    }

    pub(crate) fn open<O: Persistent>(&self) -> Result<(O, O::Phase), RestoreError> {
        let record = self.record()?;
        if record.machine != O::GRAPH.name() {
            return Err(RestoreError::OtherMachine {
                found: record.machine,
                wanted: O::GRAPH.name(),
            });
        }
        if record.operation_type != O::GRAPH.operation() {
            return Err(RestoreError::OtherOperation {
                found: record.operation_type,
                wanted: O::GRAPH.operation(),
            });
        }
        let mut fields = Fields {
            values: record.fields,
            machine: O::GRAPH.name(),
            failed: None,
        };
        let phase = O::load(&record.phase, &mut fields)?;
        if let Some((field, _)) = fields.values.pop_first() {
            return Err(RestoreError::UnknownField {
                phase: record.phase,
                field,
            });
        }
        let operation = decode(&record.operation).map_err(|reason| RestoreError::Operation {
            operation: O::GRAPH.operation(),
            reason,
        })?;
        Ok((operation, phase))
    }

    pub(crate) fn meta(&self) -> Result<Meta, RestoreError> {
        Ok(self.record()?.meta)
    }

    fn record(&self) -> Result<Record, RestoreError> {
        let body = &self.bytes[MAGIC.len()..self.bytes.len() - CHECKSUM];
        decode(body).map_err(|_| RestoreError::Damaged)
    }
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
    rmp_serde::to_vec_named(value).map_err(|error| error.to_string())
}

fn decode<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, String> {
    let mut reader = rmp_serde::Deserializer::new(bytes);
    // Hostile bytes can nest deeply; a thread's stack is finite.
    reader.set_max_depth(128);
    let value = T::deserialize(&mut reader).map_err(|error| error.to_string())?;
    match reader.get_ref().len() {
        0 => Ok(value),
        left => Err(format!("{left} bytes too many")),
    }
}

/// The data of one phase, by field name; generated code writes and reads through this.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Fields {
    values: BTreeMap<String, Vec<u8>>,
    machine: &'static str,
    failed: Option<(String, String)>,
}

impl Fields {
    /// Writes a field.
    pub fn put<T: Savable>(&mut self, name: &'static str, value: &T) {
        match encode(value) {
            Ok(bytes) => {
                self.values.insert(name.to_owned(), bytes);
            }
            Err(reason) => self.failed = Some((name.to_owned(), reason)),
        }
    }

    /// Reads a field.
    pub fn take<T: Savable>(&mut self, name: &'static str) -> Result<T, RestoreError> {
        let bytes = self
            .values
            .remove(name)
            .ok_or(RestoreError::MissingField { field: name })?;
        decode(&bytes).map_err(|reason| RestoreError::Field {
            field: name,
            of: type_name::<T>(),
            reason,
        })
    }

    /// Always the error, for a phase that this release does not have.
    pub fn unknown_phase<P>(&self, phase: &str) -> Result<P, RestoreError> {
        Err(RestoreError::UnknownPhase {
            phase: phase.to_owned(),
            machine: self.machine,
        })
    }
}

/// Bytes as MessagePack's `bin`, not as an array of numbers.
mod serde_bytes_vec {
    use serde::{Deserializer, Serializer, de::Visitor};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], out: S) -> Result<S::Ok, S::Error> {
        out.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<u8>, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }

            fn visit_byte_buf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
                Ok(bytes)
            }
        }
        input.deserialize_byte_buf(Bytes)
    }
}

mod serde_bytes_map {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Bytes(#[serde(with = "super::serde_bytes_vec")] Vec<u8>);

    pub(super) fn serialize<S: Serializer>(
        map: &BTreeMap<String, Vec<u8>>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        out.collect_map(map.iter().map(|(name, bytes)| (name, Bytes(bytes.clone()))))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<BTreeMap<String, Vec<u8>>, D::Error> {
        let map = BTreeMap::<String, Bytes>::deserialize(input)?;
        Ok(map
            .into_iter()
            .map(|(name, Bytes(bytes))| (name, bytes))
            .collect())
    }
}
