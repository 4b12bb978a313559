//! The entry of an event: what the journal has of it, from the transition of the sender, or from the send, until a transition
//! of the receiver that took it.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use fom_journal::EntryId;
use serde::{Deserialize, Serialize};

use crate::{
    durable::{
        Durable, Kind, Types,
        address::To,
        reading::{SavedEvent, SavedValue},
        record::set_number,
    },
    entry::fom_of,
};
use fom_protocol::panic_message;
use fom_runtime::{
    __durability::{self as seam, EventId, EventReader, Restorer, Shared},
    FomId, Key, Operation,
    snapshot::RestoreError,
};

/// The event as it is stored in the journal, behind the number with which it was sent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Message {
    machine: String,
    operation: String,
    #[serde(with = "crate::durable::record::stored_key")]
    key: Option<Key>,
    event: serde_bytes_of::Bytes,
    /// The id of the receiver, if the event is for a fom and not for a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    receiver: Option<u64>,
    /// Whether the event is dropped without a report if its receiver has ended.
    #[serde(default, skip_serializing_if = "is_false")]
    if_there: bool,
    /// Since when the event has no receiver, in the time of the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
}

/// The same, without a copy of the event.
#[derive(Deserialize)]
struct Shown<'a> {
    machine: String,
    operation: String,
    #[serde(with = "crate::durable::record::stored_key")]
    key: Option<Key>,
    #[serde(borrow)]
    event: serde_bytes_of::Borrowed<'a>,
    #[serde(default)]
    receiver: Option<u64>,
    #[serde(default, rename = "if_there")]
    _if_there: bool,
    #[serde(default, rename = "since")]
    _since: Option<u64>,
}

/// Says that a field is left out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

const NUMBER: usize = size_of::<u64>();

/// Stores an event as bytes, not as a list of numbers.
mod serde_bytes_of {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Visitor};

    #[derive(Debug)]
    pub(crate) struct Bytes(pub(super) Vec<u8>);

    /// As [`Bytes`], in the bytes that are read.
    pub(super) struct Borrowed<'a>(pub(super) &'a [u8]);

    impl<'de: 'a, 'a> Deserialize<'de> for Borrowed<'a> {
        fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
            <&[u8]>::deserialize(input).map(Self)
        }
    }

    impl Serialize for Bytes {
        fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
            out.serialize_bytes(&self.0)
        }
    }

    impl<'de> Deserialize<'de> for Bytes {
        fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
            struct Any;
            impl Visitor<'_> for Any {
                type Value = Vec<u8>;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("bytes")
                }

                fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                    Ok(bytes.to_vec())
                }
            }
            input.deserialize_bytes(Any).map(Self)
        }
    }
}

impl Message {
    /// Appends the entry of an event for this fom. The caller [sets](set_number) its number.
    pub(crate) fn encode<O: Operation>(
        to: &To,
        event: &impl Serialize,
        if_there: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let message = Self {
            machine: O::GRAPH.name().to_owned(),
            operation: O::GRAPH.operation().to_owned(),
            key: to.key().cloned(),
            event: serde_bytes_of::Bytes(seam::encode(event)?),
            receiver: to.id().map(FomId::get),
            if_there,
            since: None,
        };
        out.push(Kind::Message as u8);
        out.extend([0; NUMBER]);
        out.extend(seam::encode(&message)?);
        Ok(())
    }

    /// Decodes the entry without its first byte.
    fn decode(bytes: &[u8]) -> Option<Self> {
        seam::decode(bytes.get(NUMBER..)?)
    }

    /// Returns the receiver.
    pub(super) fn to(&self) -> Result<To, RestoreError> {
        match (self.receiver, &self.key) {
            (Some(id), _) => Ok(To::Id(seam::fom_id(id))),
            (None, Some(key)) => Ok(To::Key(key.clone())),
            (None, None) => Err(RestoreError::Damaged),
        }
    }

    /// Returns since when the event in this entry has no receiver.
    pub(in crate::durable) fn since(bytes: &[u8]) -> Option<u64> {
        Self::decode(bytes.get(1..)?)?.since
    }

    /// Returns the entry with the time since when its event has no receiver.
    pub(super) fn with_since(bytes: &[u8], since: u64) -> Option<Vec<u8>> {
        let mut message = Self::decode(bytes.get(1..)?)?;
        message.since = Some(since);
        let mut out = bytes.get(..=NUMBER)?.to_vec();
        out.extend(seam::encode(&message).ok()?);
        Some(out)
    }

    /// Returns what a reader of the journal sees of the entry, without its first byte.
    pub(in crate::durable) fn shown(bytes: &[u8]) -> Option<SavedEvent<'_>> {
        let message: Shown<'_> = seam::decode(bytes.get(NUMBER..)?)?;
        Some(SavedEvent {
            operation: message.operation,
            machine: message.machine,
            key: message.key,
            receiver: message.receiver.map(seam::fom_id),
            event: SavedValue::hidden(message.event.0),
        })
    }

    /// Returns the receiver: machine, operation and key.
    pub(crate) fn receiver(bytes: &[u8]) -> Option<(String, String, Option<Key>)> {
        let message = Self::decode(bytes)?;
        Some((message.machine, message.operation, message.key))
    }

    /// Checks that the event in this entry can be read.
    pub(crate) fn check(types: &Types, bytes: &[u8]) -> Result<(), RestoreError> {
        let message = Self::decode(bytes).ok_or(RestoreError::Damaged)?;
        let (_, reader) = types.taking(&message.machine, &message.operation)?;
        let read = reader(&message.event.0).map(drop);
        read.map_err(|reason| RestoreError::Event {
            operation: message.operation,
            reason,
        })
    }

    pub(super) fn open(
        shared: &Shared,
        bytes: &[u8],
    ) -> Result<(Self, &'static dyn Restorer, EventReader), RestoreError> {
        let (_, body) = bytes.split_first().ok_or(RestoreError::Damaged)?;
        let message = Self::decode(body).ok_or(RestoreError::Damaged)?;
        let (of, reader) = Durable::of(shared)
            .types
            .taking(&message.machine, &message.operation)?;
        Ok((message, of, reader))
    }

    pub(super) fn read(
        self,
        reader: EventReader,
        entry: EntryId,
        bytes: &[u8],
    ) -> Result<Posted, RestoreError> {
        let event = reader(&self.event.0).map_err(|reason| RestoreError::Event {
            operation: self.operation,
            reason,
        })?;
        let written = Written::Bytes(bytes.into());
        Ok(Posted {
            entry,
            if_there: self.if_there,
            event,
            written,
        })
    }

    /// Reads the event in this entry.
    pub(super) fn read_again(
        shared: &Shared,
        entry: EntryId,
        bytes: &[u8],
    ) -> Result<Posted, RestoreError> {
        let read = || {
            let (message, _, reader) = Self::open(shared, bytes)?;
            message.read(reader, entry, bytes)
        };
        // The user's code reads the event.
        catch_unwind(AssertUnwindSafe(read))
            .unwrap_or_else(|panic| Err(RestoreError::Panicked(panic_message(panic))))
    }
}

/// An event that came through an outbox, or was sent durably.
pub(crate) struct Posted {
    pub(crate) entry: EntryId,
    /// Whether the event is dropped without a report if its receiver has ended.
    pub(crate) if_there: bool,
    pub(crate) event: Box<dyn Any + Send>,
    pub(crate) written: Written,
}

/// What the journal has of an event.
pub(crate) enum Written {
    /// These bytes, or the bytes that the function writes with the number.
    Bytes(Box<[u8]>),
    By(u64, Rewrite),
    /// No entry is written, because the sender is not kept. The event has this number.
    Not(u64),
}

type Rewrite = fn(&Key, &(dyn Any + Send), bool) -> Option<Vec<u8>>;

impl Posted {
    pub(crate) fn id(&self) -> EventId {
        match self.written {
            Written::Not(number) => EventId::Sent(number),
            _ => EventId::Posted(fom_of(self.entry)),
        }
    }

    /// Returns the entry once more. `key` is that of the receiver, which an event through an outbox found by its key.
    pub(in crate::durable) fn bytes(&self, key: Option<&Key>) -> Option<Vec<u8>> {
        match &self.written {
            Written::Bytes(bytes) => Some(bytes.to_vec()),
            Written::By(number, write) => {
                let key = key?;
                let write = || write(key, &*self.event, self.if_there);
                // Does not fail: the event was written before.
                let again = catch_unwind(AssertUnwindSafe(write));
                let mut bytes = again.unwrap_or(None)?;
                set_number(&mut bytes, *number);
                Some(bytes)
            }
            Written::Not(_) => None,
        }
    }
}

/// Writes the entry of an event of this type.
pub(crate) fn rewrite<O: Operation>(
    key: &Key,
    event: &(dyn Any + Send),
    if_there: bool,
) -> Option<Vec<u8>>
where
    O::Event: Serialize,
{
    let mut bytes = Vec::new();
    let (to, event) = (To::Key(key.clone()), event.downcast_ref::<O::Event>()?);
    Message::encode::<O>(&to, event, if_there, &mut bytes).ok()?;
    Some(bytes)
}
