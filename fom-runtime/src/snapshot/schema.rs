//! The meaning of the bytes of a body: the phases of one release and their fields, by name.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use serde::{Deserialize, Serialize};

use crate::{
    graph::Graph,
    snapshot::{
        RestoreError,
        encoding::{decode, encode},
    },
};

/// The names of one release: of the machine, the operation, the phases and their fields.
///
/// A body refers to the names by number. So a body is read only through the schema that it was written with; after
/// that, names decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// The name of the machine.
    pub machine: String,
    /// The name of the operation.
    pub operation: String,
    /// The version of the machine.
    pub version: u32,
    phases: Vec<SchemaPhase>,
    /// The names of the fields that no tool shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// A hash of all names, which tells schemas apart.
    #[serde(skip)]
    fingerprint: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SchemaPhase {
    name: String,
    fields: Vec<String>,
}

impl Schema {
    /// Returns the schema of this release.
    pub fn of(graph: &Graph) -> Self {
        let phases = graph.phases().iter().map(|phase| SchemaPhase {
            name: phase.name().to_owned(),
            fields: phase.fields().iter().map(|&name| name.to_owned()).collect(),
        });
        Self {
            machine: graph.name().to_owned(),
            operation: graph.operation().to_owned(),
            version: graph.version(),
            phases: phases.collect(),
            secrets: graph.secrets().map(str::to_owned).collect(),
            fingerprint: fingerprint(graph),
        }
    }

    /// Returns the schema of a graph of this program as bytes. Each snapshot has them, so a thread makes them once.
    pub(crate) fn bytes_of(graph: &'static Graph) -> Rc<[u8]> {
        thread_local! {
            static MADE: RefCell<HashMap<*const Graph, Rc<[u8]>>> = RefCell::default();
        }
        let make = || Rc::from(Self::of(graph).to_bytes());
        let made = MADE.try_with(|made| {
            let mut made = made.borrow_mut();
            Rc::clone(made.entry(graph).or_insert_with(make))
        });
        // The thread ends.
        made.unwrap_or_else(|_| make())
    }

    /// Returns the schema as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Only names and numbers, so this cannot fail.
        encode(self).unwrap_or_default()
    }

    /// Reads a schema.
    ///
    /// # Errors
    ///
    /// Fails with [`RestoreError::Damaged`] if the bytes are not a schema.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RestoreError> {
        let mut schema: Self = decode(bytes).map_err(|_| RestoreError::Damaged)?;
        schema.fingerprint = schema.hash();
        Ok(schema)
    }

    /// Returns the fingerprint, with which every body of this schema begins.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the same hash as [`fingerprint`] for the graph of this schema.
    fn hash(&self) -> u64 {
        let mut hash = Hash::new()
            .text(&self.machine)
            .text(&self.operation)
            .number(self.version);
        for phase in &self.phases {
            hash = hash.text(&phase.name);
            for field in &phase.fields {
                hash = hash.text(field);
            }
            hash = hash.end();
        }
        for name in &self.secrets {
            hash = hash.text(name);
        }
        hash.0
    }

    /// Returns the name of a phase, and the names of its fields.
    pub(super) fn phase(&self, number: u8) -> Option<(&str, &[String])> {
        let phase = self.phases.get(usize::from(number))?;
        Some((&phase.name, &phase.fields))
    }
}

/// Returns the name of the phase of a body of this schema.
pub fn phase_of<'a>(schema: &'a Schema, body: &[u8]) -> Option<&'a str> {
    let number = body.get(size_of::<u64>())?;
    schema.phase(*number).map(|(name, _)| name)
}

/// Returns the phases of a schema, each with the names of its fields.
pub fn phases_of(schema: &Schema) -> impl Iterator<Item = (&str, &[String])> {
    let phases = schema.phases.iter();
    phases.map(|phase| (&*phase.name, &*phase.fields))
}

/// Returns the fingerprint of a graph's schema.
pub const fn fingerprint(graph: &Graph) -> u64 {
    let mut hash = Hash::new()
        .text(graph.name())
        .text(graph.operation())
        .number(graph.version());
    let mut phase = 0;
    while phase < graph.phases().len() {
        let info = &graph.phases()[phase];
        hash = hash.text(info.name());
        let mut field = 0;
        while field < info.fields().len() {
            hash = hash.text(info.fields()[field]);
            field += 1;
        }
        hash = hash.end();
        phase += 1;
    }
    let mut index = 0;
    while let Some(name) = graph.secrets.get(index) {
        hash = hash.text(name);
        index += 1;
    }
    hash.0
}

/// FNV-1a: a few lines, the same everywhere, and possible at compile time. It guards against mistakes, not against
/// malice: a writer of a body can also write a schema.
#[derive(Clone, Copy)]
struct Hash(u64);

impl Hash {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    const fn byte(self, byte: u8) -> Self {
        Self((self.0 ^ byte as u64).wrapping_mul(0x0100_0000_01b3))
    }

    /// Adds a name and its end. A `str` never contains the byte that marks the end.
    const fn text(mut self, text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            self = self.byte(bytes[at]);
            at += 1;
        }
        self.byte(0xff)
    }

    const fn number(mut self, number: u32) -> Self {
        let bytes = number.to_le_bytes();
        let mut at = 0;
        while at < bytes.len() {
            self = self.byte(bytes[at]);
            at += 1;
        }
        self
    }

    /// Adds the end of a list of names.
    const fn end(self) -> Self {
        self.byte(0xfe)
    }
}
