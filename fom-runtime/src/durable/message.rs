//! Events that were sent through an outbox: in the journal from the transition of the sender until a transition of the receiver
//! that took them.

use std::{any::Any, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    durable::{Committer, Kept, Kind, Types, record::fom_of},
    error::RestoreError,
    id::{FomId, Key},
    journal::EntryId,
    operation::Operation,
    runtime::World,
    snapshot,
};

/// As it stands in the journal.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Message {
    machine: String,
    operation: String,
    #[serde(with = "super::record::stored_key")]
    key: Option<Key>,
    event: serde_bytes_of::Bytes,
}

/// An event as bytes, not as a list of numbers.
mod serde_bytes_of {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Visitor};

    #[derive(Debug)]
    pub(super) struct Bytes(pub(super) Vec<u8>);

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

/// An event that came through an outbox, and its entry.
pub(crate) type Posted = (EntryId, Box<dyn Any + Send>);

impl Message {
    /// Appends the entry of an event for whoever has this key.
    pub(crate) fn encode<O: Operation>(
        key: &Key,
        event: &impl Serialize,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let message = Self {
            machine: O::GRAPH.name().to_owned(),
            operation: O::GRAPH.operation().to_owned(),
            key: Some(key.clone()),
            event: serde_bytes_of::Bytes(snapshot::encode(event)?),
        };
        out.push(Kind::Message as u8);
        out.extend(snapshot::encode(&message)?);
        Ok(())
    }

    /// Whether the event in this entry can be read.
    pub(super) fn check(types: &Types, bytes: &[u8]) -> Result<(), RestoreError> {
        let message: Self = snapshot::decode(bytes).map_err(|_| RestoreError::Damaged)?;
        let (_, reader) = types.taking(&message.machine, &message.operation)?;
        let read = reader(&message.event.0).map(drop);
        read.map_err(|reason| RestoreError::Event {
            operation: message.operation,
            reason,
        })
    }

    /// Gives the event in this entry to whoever has its key, after a restart.
    pub(super) fn deliver_again(
        world: &Arc<World>,
        entry: EntryId,
        bytes: &[u8],
    ) -> Result<(), RestoreError> {
        let message: Self = snapshot::decode(bytes).map_err(|_| RestoreError::Damaged)?;
        let (of, reader) = world.types.taking(&message.machine, &message.operation)?;
        let key = message.key.ok_or(RestoreError::Damaged)?;
        // One that could not commit comes back by itself: until then the event is kept for it, before those that come later.
        if let Some(receiver) = world.set_aside.of(&message.operation, &key)
            && !world.set_aside.is_waiting(receiver)
        {
            return Err(RestoreError::ReceiverSetAside(receiver));
        }
        let event = reader(&message.event.0).map_err(|reason| RestoreError::Event {
            operation: message.operation,
            reason,
        })?;
        of.deliver(Event {
            world,
            key,
            posted: (entry, event),
        });
        Ok(())
    }
}

/// An event on its way to its receiver.
#[doc(hidden)]
pub struct Event<'a> {
    world: &'a Arc<World>,
    key: Key,
    posted: Posted,
}

impl std::fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Event({} for {})", self.posted.0, self.key)
    }
}

impl Event<'_> {
    pub(crate) fn deliver<O: Operation>(self) {
        self.world.deliver::<O>(&self.key, self.posted);
    }
}

impl World {
    /// Gives an event that came through an outbox to whoever has this key. If nobody has, that is reported, and it goes.
    pub(crate) fn deliver<O: Operation>(self: &Arc<Self>, key: &Key, (entry, event): Posted) {
        let fom = self.find::<O>(key);
        let left = match &fom {
            Some(fom) => self.post(fom.id(), fom.kept(), (entry, event)).err(),
            None => Some((entry, event)),
        };
        match (left, fom) {
            (None, Some(fom)) => fom.wake(),
            // Whoever has the key may have ended with the runtime alone, and comes back: the event is in the journal until then.
            _ if self.is_closed() => {}
            (Some(left), _)
                if let Some(receiver) = self.set_aside.of(O::GRAPH.operation(), key)
                    && self.set_aside.is_waiting(receiver) =>
            {
                let kept = self.committer().map(|committer| &committer.orphans);
                if let Some(kept) = kept {
                    kept.lock().entry(receiver).or_default().push(left);
                }
                // It may have come back before that.
                if let Some(fom) = self.directory.find::<O>(key) {
                    self.give_kept(fom.id(), fom.kept());
                    fom.wake();
                }
            }
            _ if let Some(receiver) = self.set_aside.of(O::GRAPH.operation(), key) => {
                // It stays in the journal, and is delivered at the next start that its receiver comes back in.
                let reason = RestoreError::ReceiverSetAside(receiver);
                let id = FomId(fom_of(entry));
                self.set_aside.put(self.aside(id, reason, &[]));
            }
            _ => {
                self.incident(format!(
                    "{} {key} has ended, or was never there: an event that was sent to it through an outbox is dropped",
                    O::GRAPH.operation()
                ));
                self.drop_messages([entry]);
            }
        }
    }

    /// What was not taken by a fom that has ended; `back`: not in the journal, so it may be for the one that comes back.
    pub(crate) fn messages_left(&self, id: FomId, left: Vec<Posted>, back: bool) {
        if left.is_empty() {
            return;
        }
        if back {
            if let Some(committer) = self.committer() {
                // Before those that came since it takes no more.
                let mut orphans = committer.orphans.lock();
                orphans.entry(id).or_default().splice(0..0, left);
            }
        } else {
            self.incident(format!(
                "fom {id} has ended without taking {} events that were sent to it through an outbox",
                left.len()
            ));
            self.drop_messages(left.iter().map(|message| message.0));
        }
    }

    /// An event for a live fom: behind those that wait for it since it was none. Given back when it has ended.
    fn post(&self, id: FomId, kept: Option<&Kept>, message: Posted) -> Result<(), Posted> {
        let (Some(kept), Some(committer)) = (kept, self.committer()) else {
            return Err(message);
        };
        let mut orphans = committer.orphans.lock();
        match orphans.get_mut(&id) {
            Some(waiting) => {
                waiting.push(message);
                Ok(())
            }
            None => kept.post(message),
        }
    }

    /// A fom that came back has the events that waited for it.
    pub(super) fn give_kept(&self, id: FomId, kept: Option<&Kept>) {
        let (Some(kept), Some(committer)) = (kept, self.committer()) else {
            return;
        };
        let left: Vec<_> = {
            // Held meanwhile: what is sent now comes behind them.
            let mut orphans = committer.orphans.lock();
            let waiting = orphans.remove(&id).unwrap_or_default();
            let posted = waiting.into_iter().map(|message| kept.post(message));
            posted.filter_map(Result::err).collect()
        };
        self.drop_messages(left.iter().map(|message| message.0));
    }

    fn drop_messages(&self, entries: impl IntoIterator<Item = EntryId>) {
        if let Some(committer) = self.committer() {
            committer.drop_later(entries);
        }
    }
}

impl Committer {
    /// Entries that nobody needs any more: deleted with the next batch.
    pub(super) fn drop_later(&self, entries: impl IntoIterator<Item = EntryId>) {
        self.dropped.lock().extend(entries);
    }
}
