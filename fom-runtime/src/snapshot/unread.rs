//! Data that this release does not know, and carries along for the release that knows them.
//!
//! After a rollback, a release can find a field that only the later release has. With `#[fom(unknown = "keep")]` the
//! field stays beside the fom as bytes, and each body of the fom has it again.

use crate::snapshot::{
    body::{Parts, length, put_length},
    encoding::{cut, extend_map},
};

/// The unknown data of one fom.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unread {
    /// Entries of the operation's map, each a name and a value.
    operation: Vec<Vec<u8>>,
    phase: Option<UnreadPhase>,
}

/// A phase with a field that this release does not know. A body in this phase is written as the later release writes it.
#[derive(Clone, Debug)]
struct UnreadPhase {
    /// The index of the phase in this release.
    index: u8,
    /// The schema of the later release, and the number of the phase in it.
    fingerprint: u64,
    number: u8,
    fields: Vec<Field>,
}

/// A field, in the order of the later release.
#[derive(Clone, Debug)]
enum Field {
    /// The field of this release at this place.
    Known(usize),
    Unknown(Vec<u8>),
}

impl Unread {
    pub(crate) fn is_empty(&self) -> bool {
        self.operation.is_empty() && self.phase.is_none()
    }

    /// Whether a body in the present phase is written as another release writes it.
    pub(crate) fn has_phase(&self) -> bool {
        self.phase.is_some()
    }

    /// Forgets the fields of the phase, because the fom leaves the phase.
    pub(crate) fn leave_phase(&mut self) {
        self.phase = None;
    }

    /// Takes a field out of the bytes of an operation. Returns the other fields, or `None` if the field is not at the
    /// top of the operation.
    pub(super) fn take_from(&mut self, operation: &[u8], field: &str) -> Option<Vec<u8>> {
        let (rest, entry) = cut(operation, field)?;
        self.operation.push(entry);
        Some(rest)
    }

    /// Keeps the fields of a phase that this release has not read. `index` and `known`: the phase in this release, and
    /// its fields.
    pub(super) fn keep_phase(&mut self, parts: &Parts<'_>, index: usize, known: &[&str]) {
        let fields = parts.fields.iter().map(|(name, value)| {
            let place = known.iter().position(|known| known == name);
            place.map_or_else(|| Field::Unknown(value.to_vec()), Field::Known)
        });
        self.phase = Some(UnreadPhase {
            index: index as u8,
            fingerprint: parts.fingerprint,
            number: parts.number,
            fields: fields.collect(),
        });
    }

    /// Puts the unknown data back into the body that begins at `begin`. `fields`: the number of fields of each phase.
    /// Leaves a body as it is that was not written by this release.
    pub(crate) fn put_back(&self, out: &mut Vec<u8>, begin: usize, fields: impl Fn(u8) -> usize) {
        if let Some(body) = self.joined(&out[begin..], fields) {
            out.truncate(begin);
            out.extend(body);
        }
    }

    fn joined(&self, body: &[u8], fields: impl Fn(u8) -> usize) -> Option<Vec<u8>> {
        let (_, rest) = body.split_at_checked(size_of::<u64>())?;
        let (&index, mut rest) = rest.split_first()?;
        let mut known = Vec::new();
        for _ in 0..fields(index) {
            let (length, after) = length(rest)?;
            let (value, after) = after.split_at_checked(length)?;
            known.push(value);
            rest = after;
        }
        let operation = if self.operation.is_empty() {
            rest.to_vec()
        } else {
            extend_map(rest, &self.operation)?
        };
        let mut out = Vec::with_capacity(body.len());
        match self.phase.as_ref().filter(|phase| phase.index == index) {
            None => out.extend_from_slice(&body[..body.len() - rest.len()]),
            Some(phase) => {
                out.extend(phase.fingerprint.to_le_bytes());
                out.push(phase.number);
                for field in &phase.fields {
                    let value = match field {
                        Field::Known(place) => known.get(*place)?,
                        Field::Unknown(value) => value.as_slice(),
                    };
                    put_length(value.len(), &mut out);
                    out.extend_from_slice(value);
                }
            }
        }
        out.extend(operation);
        Some(out)
    }
}
