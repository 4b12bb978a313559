//! The messages between nodes.

use std::fmt;

use fom_runtime::{FomId, Key, error::RefusedReason};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{
    numbers::Ranges,
    quarantine::InQuarantine,
    report::{NodeLoad, Report},
    slot::{Slot, wire_key},
};

/// The first byte of each message.
const PROTOCOL: u8 = 1;

/// Bytes in a message.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Blob(pub(crate) Vec<u8>);

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Blob;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Blob, E> {
                Ok(Blob(bytes.to_vec()))
            }

            fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Blob, E> {
                Ok(Blob(bytes))
            }
        }

        from.deserialize_byte_buf(Visitor)
    }
}

/// An operation type: the names of its machine and of itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Name {
    pub(crate) machine: String,
    pub(crate) operation: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.operation, self.machine)
    }
}

/// A request to the owner of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) slot: u16,
    pub(crate) of: Name,
    pub(crate) what: What,
}

/// What is asked. Each request can be repeated: it names what it does by an id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum What {
    /// Starts an operation, unless an operation with its id was started before.
    Submit(Submit),
    /// Waits for the end of the operation with this id.
    Ended {
        #[serde(with = "wire_key")]
        once: Option<Key>,
    },
    /// Looks an operation up.
    Find(At),
    /// Sends an event that the journal keeps.
    Send {
        to: At,
        event: Blob,
        #[serde(with = "wire_key")]
        once: Option<Key>,
    },
    /// Takes a letter of another slot.
    Deliver(Letter),
    /// Lists what the slot has in quarantine.
    InQuarantine,
    /// Tries an entry in quarantine again.
    Retry(FomId),
    /// Removes an entry in quarantine.
    Discard(FomId),
    /// Cancels an operation.
    Cancel(At),
    /// Calls what answers under this name.
    Call(Call),
    /// These calls of the caller are never repeated. Ends those that run.
    Done { caller: String, done: Ranges },
}

/// A message to another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Message {
    Ask(Request),
    /// Asks for a heartbeat at once, because a slot was given up.
    Wake,
    /// Asks for what an operator wants.
    Operate(Operate),
}

/// What an operator asks of a node, for the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Operate {
    /// What the asked node tells of itself.
    Load,
    Report,
    Drain(String),
    Undrain(String),
    Pin(Slot, String),
    Unpin(Slot),
    Quarantine,
    Retry(Slot, FomId),
    Discard(Slot, FomId),
}

/// An operation to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Submit {
    pub(crate) operation: Blob,
    #[serde(with = "wire_key")]
    pub(crate) key: Option<Key>,
    #[serde(with = "wire_key")]
    pub(crate) serial: Option<Key>,
    #[serde(with = "wire_key")]
    pub(crate) once: Option<Key>,
    pub(crate) queues: bool,
}

/// An operation, by its key or by its operation id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct At {
    #[serde(with = "wire_key")]
    pub(crate) key: Option<Key>,
    #[serde(with = "wire_key")]
    pub(crate) once: Option<Key>,
}

/// A call by key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) caller: String,
    /// The number among the calls of this caller to this slot.
    pub(crate) number: u64,
    /// The calls of this caller to this slot that are never repeated.
    pub(crate) done: Ranges,
    #[serde(with = "wire_key")]
    pub(crate) key: Option<Key>,
    pub(crate) body: Blob,
}

/// A letter from one slot to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Letter {
    /// The slot that sends it.
    pub(crate) source: u16,
    /// The term of that slot's owner.
    pub(crate) term: u64,
    /// The number of this attempt among all of that owner. It grows.
    pub(crate) attempt: u64,
    /// The id of the letter in its source.
    pub(crate) id: u64,
    pub(crate) content: Content,
}

/// The content of a letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Content {
    Event { to: At, event: Blob },
    Submit(Submit),
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    /// The operation has started, and is in the journal.
    Started,
    /// How the operation ended: the bytes of a `SavedEnd`.
    Ended(Blob),
    /// The operation is in flight, in this phase.
    InFlight(String),
    Quarantined,
    InQuarantine(Vec<InQuarantine>),
    /// No operation is known.
    Unknown,
    /// The event was sent before.
    Before,
    /// This node does not own the slot.
    Moved,
    /// The node has too much to do.
    Busy,
    /// The submission was refused.
    Refused(RefusedReason),
    /// The request failed for good.
    Failed(String),
    Load(NodeLoad),
    Report(Report),
    /// The answer to a call.
    Answer(Blob),
}

/// Writes a message.
pub(crate) fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = vec![PROTOCOL];
    // Messages have nothing that fails to encode.
    let _ = rmp_serde::encode::write(&mut bytes, message);
    bytes
}

/// Reads a message.
///
/// # Errors
///
/// Fails with what is wrong with it.
pub(crate) fn decode<T: de::DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match bytes.split_first() {
        Some((&PROTOCOL, message)) => {
            let mut reader = rmp_serde::Deserializer::from_read_ref(message);
            // Hostile bytes can nest deeply.
            reader.set_max_depth(64);
            T::deserialize(&mut reader).map_err(|error| format!("a message is damaged: {error}"))
        }
        Some((version, _)) => Err(format!(
            "a message has version {version} of the protocol, but this release knows {PROTOCOL}"
        )),
        None => Err("a message is empty".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            slot: 7,
            of: Name {
                machine: "Ordering".into(),
                operation: "Order".into(),
            },
            what: What::Submit(Submit {
                operation: Blob(vec![1, 2, 3]),
                key: Some(("customer 7", 3).into()),
                serial: None,
                once: Some("order 7".into()),
                queues: false,
            }),
        }
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        assert_eq!(decode::<Request>(&encode(&request())), Ok(request()));
    }

    /// No byte of a hostile message makes the node fail, and a cut one is refused.
    #[test]
    fn hostile_messages_are_refused() {
        let good = encode(&request());
        for place in 0..good.len() {
            assert!(decode::<Request>(&good[..place]).is_err(), "cut at {place}");
            let mut bad = good.clone();
            bad[place] ^= 0x80;
            // It may be another valid message.
            let _ = decode::<Request>(&bad);
        }
        let nested = [&[PROTOCOL][..], &[0x91; 100_000]].concat();
        assert!(decode::<Request>(&nested).is_err());
        assert!(
            decode::<Request>(&[2, 0])
                .unwrap_err()
                .contains("version 2")
        );
    }
}
