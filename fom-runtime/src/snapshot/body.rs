//! Writes and reads a body: one fom's operation and phase.
//!
//! A body begins with the fingerprint of its schema (8 bytes) and the number of the phase in the schema (1 byte). The
//! phase's fields and the operation follow. The fields are in the order of the schema, each with its length as a varint
//! and then MessagePack. The operation is MessagePack up to the end.

use std::{
    any::type_name,
    borrow::Cow,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    graph::Graph,
    savable::Savable,
    snapshot::{
        RestoreError, SnapshotError,
        encoding::{Misfit, append, decode},
        saved::Saved,
        schema::Schema,
        unread::Unread,
    },
};
use fom_protocol::panic_message;

/// Writes the fields of one phase to a body. Generated code calls it in the order of the declaration.
#[doc(hidden)]
#[derive(Debug)]
pub struct Values<'a> {
    out: &'a mut Vec<u8>,
    failed: Option<SnapshotError>,
}

/// What has the fields of a phase: the value to write, or the fields that were read.
#[doc(hidden)]
pub trait Access<T> {
    type Out;

    fn at(&mut self, name: &'static str) -> Self::Out
    where
        T: Savable;
}

/// Writes or reads a field. This is one function for both, so that rustc reports a type that cannot be saved once.
#[doc(hidden)]
#[inline]
pub fn at<T: Savable, A: Access<T>>(access: &mut A, name: &'static str) -> A::Out {
    access.at(name)
}

/// A value that is the next field.
#[doc(hidden)]
#[derive(Debug)]
pub struct Put<'v, 'a, T> {
    values: &'v mut Values<'a>,
    value: &'v T,
}

impl<T> Access<T> for Put<'_, '_, T> {
    type Out = ();

    #[inline]
    fn at(&mut self, name: &'static str)
    where
        T: Savable,
    {
        self.values.write(name, self.value);
    }
}

impl<T> Access<T> for Fields<'_> {
    type Out = Result<T, RestoreError>;

    #[inline]
    fn at(&mut self, name: &'static str) -> Self::Out
    where
        T: Savable,
    {
        self.find(name)
            .unwrap_or(Err(RestoreError::MissingField { field: name }))
    }
}

impl<'a> Values<'a> {
    /// Returns the next field, to be written by [`at`].
    #[inline]
    pub fn put<'v, T>(&'v mut self, value: &'v T) -> Put<'v, 'a, T> {
        Put {
            values: self,
            value,
        }
    }

    /// Writes the next field.
    fn write<T: Savable>(&mut self, name: &'static str, value: &T) {
        let begin = self.out.len();
        self.out.push(0);
        if let Err(reason) = append(value, self.out) {
            let field = name.to_owned();
            self.failed
                .get_or_insert(SnapshotError::Field { field, reason });
        }
        // Most fields are short, so one byte is reserved for the length. A longer length makes more room.
        let length = self.out.len() - begin - 1;
        if length < 0x80 {
            self.out[begin] = length as u8;
        } else {
            let (bytes, used) = varint(length as u64);
            self.out
                .splice(begin..=begin, bytes[..used].iter().copied());
        }
    }
}

/// Encodes a number in as many bytes as it needs: seven bits in each, the lowest first, at most ten bytes.
fn varint(mut number: u64) -> ([u8; 10], usize) {
    let (mut bytes, mut used) = ([0; 10], 0);
    loop {
        bytes[used] = (number & 0x7f) as u8;
        number >>= 7;
        used += 1;
        if number == 0 {
            return (bytes, used);
        }
        bytes[used - 1] |= 0x80;
    }
}

/// Appends a length.
pub(super) fn put_length(length: usize, out: &mut Vec<u8>) {
    let (bytes, used) = varint(length as u64);
    out.extend_from_slice(&bytes[..used]);
}

/// Reads a length that [`varint`] wrote. Returns the length and the bytes behind it.
pub(super) fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut number = 0u64;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f).checked_shl(7 * at as u32)?;
        if byte & 0x80 == 0 {
            return Some((usize::try_from(number).ok()?, &bytes[at + 1..]));
        }
    }
    None
}

/// Appends a body. `fields` writes the fields of the phase with this number. After an error, `out` is as before.
pub(crate) fn write<O: Serialize>(
    fingerprint: u64,
    phase: u8,
    fields: impl FnOnce(&mut Values<'_>),
    operation: &O,
    out: &mut Vec<u8>,
) -> Result<(), SnapshotError> {
    let begin = out.len();
    out.extend(fingerprint.to_le_bytes());
    out.push(phase);
    let mut values = Values { out, failed: None };
    fields(&mut values);
    let failed = values
        .failed
        .or_else(|| append(operation, out).err().map(SnapshotError::Operation));
    match failed {
        None => Ok(()),
        Some(error) => {
            out.truncate(begin);
            Err(error)
        }
    }
}

/// The operation and phase of a fom as bytes, and how they are read. For `fom-durable`.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Encoded<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) bytes: &'a [u8],
}

impl std::fmt::Debug for Encoded<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Encoded({} bytes)", self.bytes.len())
    }
}

impl Encoded<'_> {
    /// Reads the operation and its phase.
    ///
    /// # Errors
    ///
    /// Fails if the body does not fit this release. Nothing is guessed.
    pub(crate) fn load<O: DeserializeOwned, P>(
        self,
        reader: &Reader<P>,
        unread: Option<&mut Unread>,
    ) -> Result<(O, P), RestoreError> {
        reader.open(Parts::of(self.schema, self.bytes)?, unread)
    }
}

/// The values of a saved fom in MessagePack: those of its phase by field, and the operation.
pub type SavedValues<'a> = (Vec<(String, &'a [u8])>, &'a [u8]);

/// Returns the values in a body of this schema, without a copy of them.
pub fn values_of<'a>(schema: &Schema, body: &'a [u8]) -> Option<SavedValues<'a>> {
    let rest = body.get(size_of::<u64>()..)?;
    let (number, mut rest) = rest.split_first()?;
    let (_, names) = schema.phase(*number)?;
    let mut fields = Vec::with_capacity(names.len());
    for name in names {
        let (length, after) = length(rest)?;
        let (value, after) = after.split_at_checked(length)?;
        fields.push((name.clone(), value));
        rest = after;
    }
    Some((fields, rest))
}

/// The parts of a saved fom.
pub(super) struct Parts<'a> {
    pub(super) machine: &'a str,
    pub(super) operation_type: &'a str,
    pub(super) version: u32,
    pub(super) phase: &'a str,
    /// The fingerprint of the schema, and the number of the phase in it.
    pub(super) fingerprint: u64,
    pub(super) number: u8,
    pub(super) fields: Vec<(&'a str, &'a [u8])>,
    pub(super) operation: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Splits a body into its parts.
    pub(super) fn of(schema: &'a Schema, body: &'a [u8]) -> Result<Self, RestoreError> {
        Self::split(schema, body).ok_or(RestoreError::Damaged)
    }

    fn split(schema: &'a Schema, body: &'a [u8]) -> Option<Self> {
        let (fingerprint, rest) = body.split_first_chunk()?;
        if u64::from_le_bytes(*fingerprint) != schema.fingerprint() {
            return None;
        }
        let (number, mut rest) = rest.split_first()?;
        let (phase, names) = schema.phase(*number)?;
        let mut fields = Vec::with_capacity(names.len());
        for name in names {
            let (length, after) = length(rest)?;
            let (value, after) = after.split_at_checked(length)?;
            fields.push((name.as_str(), value));
            rest = after;
        }
        Some(Self {
            machine: &schema.machine,
            operation_type: &schema.operation,
            version: schema.version,
            phase,
            fingerprint: schema.fingerprint(),
            number: *number,
            fields,
            operation: rest,
        })
    }
}

/// Reads the bodies of one operation type, with phases of type `P`.
pub(crate) struct Reader<P> {
    /// The machine of this release.
    pub(crate) graph: &'static Graph,
    /// Runs the migrations from the version of the bytes to this release.
    pub(crate) migrate: fn(&mut Saved) -> Result<(), RestoreError>,
    /// Makes the phase with this name. May panic in the user's code.
    pub(crate) load: fn(&str, &mut Fields<'_>) -> Result<P, RestoreError>,
}

impl<P> Reader<P> {
    /// Reads the operation and its phase, after the migrations to this release.
    pub(super) fn open<O: DeserializeOwned>(
        &self,
        mut parts: Parts<'_>,
        unread: Option<&mut Unread>,
    ) -> Result<(O, P), RestoreError> {
        let graph = self.graph;
        if !graph.is_machine(parts.machine) {
            return Err(RestoreError::OtherMachine {
                found: parts.machine.to_owned(),
                wanted: graph.name(),
            });
        }
        if !graph.is_operation(parts.operation_type) {
            return Err(RestoreError::OtherOperation {
                found: parts.operation_type.to_owned(),
                wanted: graph.operation(),
            });
        }
        // A user's `Deserialize` may panic.
        let fenced = |phase, fields, operation, unread| {
            let read = AssertUnwindSafe(|| self.read(phase, fields, operation, unread));
            catch_unwind(read)
                .unwrap_or_else(|panic| Err(RestoreError::Panicked(panic_message(panic))))
        };
        if parts.version == graph.version() {
            let fields = match unread {
                None => mem::take(&mut parts.fields),
                Some(_) => parts.fields.clone(),
            };
            let unread = unread.map(|unread| (unread, &parts));
            return fenced(parts.phase, fields, parts.operation, unread);
        }
        let mut saved = Saved::of(parts);
        (self.migrate)(&mut saved)?;
        // A migration decides about each field, so none is unknown.
        fenced(saved.phase(), saved.values(), saved.operation_bytes(), None)
    }

    /// Reads what this version saved. Unknown data go to `unread`, or are an error.
    fn read<O: DeserializeOwned>(
        &self,
        phase: &str,
        fields: Vec<(&str, &[u8])>,
        operation: &[u8],
        mut unread: Option<(&mut Unread, &Parts<'_>)>,
    ) -> Result<(O, P), RestoreError> {
        let graph = self.graph;
        let Some(index) = graph.place_ever(phase) else {
            let (phase, machine) = (phase.to_owned(), graph.name());
            return Err(if graph.retired().contains(&phase.as_str()) {
                RestoreError::RetiredPhase { phase, machine }
            } else {
                RestoreError::UnknownPhase { phase, machine }
            });
        };
        let info = &graph.phases()[index];
        let mut fields = Fields {
            values: fields,
            machine: graph.name(),
        };
        let loaded = (self.load)(info.name(), &mut fields)?;
        if let Some((field, _)) = fields.values.first() {
            match &mut unread {
                Some((unread, parts)) => unread.keep_phase(parts, index, info.fields()),
                None => {
                    return Err(RestoreError::UnknownField {
                        phase: info.name().to_owned(),
                        field: (*field).to_owned(),
                    });
                }
            }
        }
        let mut bytes = Cow::Borrowed(operation);
        loop {
            match decode(&bytes) {
                Ok(operation) => return Ok((operation, loaded)),
                Err(Misfit::Unknown(field)) => {
                    let rest = unread.as_mut();
                    let rest = rest.and_then(|(unread, _)| unread.take_from(&bytes, &field));
                    let operation = graph.operation();
                    bytes = Cow::Owned(
                        rest.ok_or(RestoreError::UnknownOperationField { operation, field })?,
                    );
                }
                Err(Misfit::Other(reason)) => {
                    return Err(RestoreError::Operation {
                        operation: graph.operation(),
                        reason,
                    });
                }
            }
        }
    }
}

/// Reads the fields of one phase from a body, by name. Generated code calls it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Fields<'a> {
    values: Vec<(&'a str, &'a [u8])>,
    machine: &'static str,
}

impl Fields<'_> {
    /// Reads a field that an earlier release may not have had.
    pub fn take_or_default<T: Savable + Default>(
        &mut self,
        name: &'static str,
    ) -> Result<T, RestoreError> {
        self.find(name).unwrap_or_else(|| Ok(T::default()))
    }

    fn find<T: Savable>(&mut self, name: &'static str) -> Option<Result<T, RestoreError>> {
        let place = self.values.iter().position(|(field, _)| *field == name)?;
        let (_, bytes) = self.values.swap_remove(place);
        Some(decode(bytes).map_err(|misfit| RestoreError::Field {
            field: name,
            of: type_name::<T>(),
            reason: misfit.into(),
        }))
    }

    /// Returns the error for a phase that this release does not have.
    pub fn unknown_phase<P>(&self, phase: &str) -> Result<P, RestoreError> {
        Err(RestoreError::UnknownPhase {
            phase: phase.to_owned(),
            machine: self.machine,
        })
    }
}
