//! Snapshots written and read by hand, in both formats, so that a test can change their content.

use std::collections::BTreeMap;

use fom_runtime::snapshot::Snapshot;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};

/// Bytes in a snapshot as the runtime writes them, made by hand.
#[derive(Clone, Debug)]
pub(crate) struct Bin(pub(crate) Vec<u8>);

impl Serialize for Bin {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bin {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Bin;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bin, E> {
                Ok(Bin(bytes.to_vec()))
            }
            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Bin, E> {
                Ok(Bin(bytes))
            }
        }
        input.deserialize_byte_buf(Visitor)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Meta {
    pub(crate) id: u64,
    pub(crate) attempt: u32,
    pub(crate) left: Option<u64>,
}

/// The content of a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) machine: String,
    pub(crate) operation_type: String,
    pub(crate) meta: Meta,
    pub(crate) phase: String,
    pub(crate) fields: BTreeMap<String, Bin>,
    pub(crate) operation: Bin,
}

#[derive(Serialize, Deserialize)]
struct Second {
    meta: Meta,
    schema: Bin,
    body: Bin,
}

#[derive(Serialize, Deserialize)]
struct Schema {
    machine: String,
    operation: String,
    version: u32,
    phases: Vec<Phase>,
}

#[derive(Serialize, Deserialize)]
struct Phase {
    name: String,
    fields: Vec<String>,
}

impl Record {
    /// Reads the current format.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let second: Second = decode(inner(snapshot));
        let schema: Schema = decode(&second.schema.0);
        let (&number, mut rest) = second.body.0[8..].split_first().unwrap();
        let phase = &schema.phases[usize::from(number)];
        let mut fields = BTreeMap::new();
        for name in &phase.fields {
            let mut length = 0;
            for shift in (0..).step_by(7) {
                let (&byte, after) = rest.split_first().unwrap();
                rest = after;
                length |= usize::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    break;
                }
            }
            let (value, after) = rest.split_at(length);
            fields.insert(name.clone(), Bin(value.to_vec()));
            rest = after;
        }
        Self {
            machine: schema.machine,
            operation_type: schema.operation,
            meta: second.meta,
            phase: phase.name.clone(),
            fields,
            operation: Bin(rest.to_vec()),
        }
    }

    /// Writes the format, with a schema of only this phase.
    pub(crate) fn second(&self, version: u32) -> Vec<u8> {
        let schema = Schema {
            machine: self.machine.clone(),
            operation: self.operation_type.clone(),
            version,
            phases: vec![Phase {
                name: self.phase.clone(),
                fields: self.fields.keys().cloned().collect(),
            }],
        };
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut eat = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for name in [&self.machine, &self.operation_type] {
            eat(name.as_bytes());
            eat(&[0xff]);
        }
        eat(&version.to_le_bytes());
        for name in std::iter::once(&self.phase).chain(self.fields.keys()) {
            eat(name.as_bytes());
            eat(&[0xff]);
        }
        eat(&[0xfe]);
        let mut body = hash.to_le_bytes().to_vec();
        body.push(0);
        for value in self.fields.values() {
            let mut length = value.0.len();
            while length >= 0x80 {
                body.push(length as u8 | 0x80);
                length >>= 7;
            }
            body.push(length as u8);
            body.extend(&value.0);
        }
        body.extend(&self.operation.0);
        let second = Second {
            meta: self.meta.clone(),
            schema: Bin(encode(&schema)),
            body: Bin(body),
        };
        frame(b"FOM2", &encode(&second))
    }
}

/// Puts a magic number and a right checksum around the bytes.
pub(crate) fn frame(magic: &[u8; 4], inner: &[u8]) -> Vec<u8> {
    let mut bytes = [magic, inner].concat();
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

/// Returns the bytes between the magic number and the checksum.
pub(crate) fn inner(snapshot: &Snapshot) -> &[u8] {
    let bytes = snapshot.as_bytes();
    &bytes[4..bytes.len() - 4]
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).unwrap()
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> T {
    rmp_serde::from_slice(bytes).unwrap()
}
