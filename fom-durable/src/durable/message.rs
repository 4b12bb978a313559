//! Events that were sent through an outbox, or durably from outside. They are in the journal from the transition of the
//! sender, or from the send, until a transition of the receiver that took them.

use std::{
    any::{Any, TypeId},
    panic::{AssertUnwindSafe, catch_unwind},
};

use fom_journal::EntryId;
use serde::{Deserialize, Serialize};

use crate::{
    durable::{
        Committer, Durable, DurableState, Kind, RetryError, Types,
        address::To,
        quarantine::{Stays, has_no_receiver, is_event},
        reading::{SavedEvent, SavedValue},
        record::set_number,
    },
    entry::{entry_of, fom_of},
};
use fom_protocol::{panic_message, shrink::Shrink as _};
use fom_runtime::{
    __durability::{self as seam, EventId, EventReader, Header, KeyOf, Restorer, Shared},
    FomId, Key, Operation,
    machine::Graph,
    observe::IncidentKind,
    snapshot::{QuarantineKind, Quarantined, RestoreError},
};

/// The event as it is stored in the journal, behind the number with which it was sent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Message {
    machine: String,
    operation: String,
    #[serde(with = "super::record::stored_key")]
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
    #[serde(with = "super::record::stored_key")]
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

/// The type of a fom that gets an event.
#[derive(Clone, Copy)]
pub(crate) struct Receiver {
    pub(super) type_id: TypeId,
    pub(super) graph: &'static Graph,
}

impl Receiver {
    pub(crate) fn of<O: Operation>() -> Self {
        Self {
            type_id: TypeId::of::<O>(),
            graph: O::GRAPH,
        }
    }
}

/// An event that no fom takes for now, and the reason.
pub(crate) struct Undelivered {
    pub(super) posted: Posted,
    pub(super) reason: RestoreError,
}

impl Undelivered {
    /// Whether the event is for a fom that has ended, and is not kept then.
    pub(crate) fn is_not_there(&self) -> bool {
        self.posted.if_there && has_no_receiver(&self.reason)
    }
}

impl Posted {
    pub(crate) fn id(&self) -> EventId {
        match self.written {
            Written::Not(number) => EventId::Sent(number),
            _ => EventId::Posted(fom_of(self.entry)),
        }
    }

    /// Returns the entry once more. `key` is that of the receiver, which an event through an outbox found by its key.
    pub(super) fn bytes(&self, key: Option<&Key>) -> Option<Vec<u8>> {
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
    fn to(&self) -> Result<To, RestoreError> {
        match (self.receiver, &self.key) {
            (Some(id), _) => Ok(To::Id(seam::fom_id(id))),
            (None, Some(key)) => Ok(To::Key(key.clone())),
            (None, None) => Err(RestoreError::Damaged),
        }
    }

    /// Returns since when the event in this entry has no receiver.
    pub(super) fn since(bytes: &[u8]) -> Option<u64> {
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
    pub(super) fn shown(bytes: &[u8]) -> Option<SavedEvent<'_>> {
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

    /// Delivers the event in this entry after a restart, to the fom that has its key.
    pub(crate) fn deliver_again(
        shared: &Shared,
        entry: EntryId,
        bytes: &[u8],
    ) -> Result<(), RestoreError> {
        let (message, of, reader) = Self::open(shared, bytes)?;
        let to = message.to()?;
        // The event is kept until its receiver is back, in front of events that arrive later.
        let durable = Durable::of(shared);
        let quarantine = &durable.quarantine;
        let waits_for = quarantine.owner(fom_of(entry)).or_else(|| match &to {
            To::Id(id) => Some(*id),
            To::Key(key) => {
                let receiver = quarantine.of(of.graph(), key)?;
                let is_alive =
                    || seam::find_any(shared, &KeyOf::key(of.type_id(), key.clone())).is_some();
                // Another fom may have the key of a failed operation.
                (!quarantine.is_failed(receiver) || !is_alive()).then_some(receiver)
            }
        });
        if let Some(receiver) = waits_for
            && quarantine.stays(receiver) == Stays::Quarantined
        {
            return Err(RestoreError::ReceiverQuarantined(receiver));
        }
        let posted = message.read(reader, entry, bytes)?;
        let of = Receiver {
            type_id: of.type_id(),
            graph: of.graph(),
        };
        match durable.deliver(shared, of, &to, posted) {
            Err(undelivered) if undelivered.is_not_there() => {
                durable.drop_not_there(undelivered);
                Ok(())
            }
            done => done.map_err(|undelivered| undelivered.reason),
        }
    }

    /// Reads the event in this entry.
    fn read_again(shared: &Shared, entry: EntryId, bytes: &[u8]) -> Result<Posted, RestoreError> {
        let read = || {
            let (message, _, reader) = Self::open(shared, bytes)?;
            message.read(reader, entry, bytes)
        };
        // The user's code reads the event.
        catch_unwind(AssertUnwindSafe(read))
            .unwrap_or_else(|panic| Err(RestoreError::Panicked(panic_message(panic))))
    }

    fn open(
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

    fn read(
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
}

impl Durable {
    /// Delivers an event to its receiver.
    pub(crate) fn deliver(
        &self,
        shared: &Shared,
        of: Receiver,
        to: &To,
        posted: Posted,
    ) -> Result<(), Undelivered> {
        match to {
            To::Key(key) => self.deliver_to_key(shared, of, key, posted),
            To::Id(id) => self.deliver_to_id(shared, of, *id, posted),
        }
    }

    /// Delivers an event to the fom with this key.
    fn deliver_to_key(
        &self,
        shared: &Shared,
        of: Receiver,
        key: &Key,
        mut posted: Posted,
    ) -> Result<(), Undelivered> {
        let place = KeyOf::key(of.type_id, key.clone());
        let mut looked = false;
        loop {
            if let Some(fom) = seam::find_any(shared, &place) {
                match self.post(fom.id(), DurableState::of(&fom), posted) {
                    Ok(()) => {
                        fom.wake();
                        return Ok(());
                    }
                    Err(left) => posted = left,
                }
            }
            // The fom with this key may have ended only together with the runtime. Then it comes back after a restart,
            // and the journal keeps the event until then.
            if seam::is_closed(shared) {
                return Ok(());
            }
            let reason = match self.quarantine.of(of.graph, key) {
                Some(receiver) => match self.keep_for(receiver, posted) {
                    Ok(()) => {
                        // The fom may have come back before the event was kept.
                        if let Some(fom) = seam::find_awake(shared, &place) {
                            self.give_kept(fom.id(), DurableState::of(&fom));
                            fom.wake();
                        }
                        return Ok(());
                    }
                    Err((left, stays)) => {
                        posted = left;
                        if stays == Stays::No {
                            continue;
                        }
                        RestoreError::ReceiverQuarantined(receiver)
                    }
                },
                // A fom that comes back is in the key index before it leaves the list.
                None if !std::mem::replace(&mut looked, true) => continue,
                None => RestoreError::NoReceiver {
                    operation: of.graph.operation().to_owned(),
                    key: key.clone(),
                },
            };
            return Err(Undelivered { posted, reason });
        }
    }

    /// Keeps an event for a fom that is about to come back. Returns the event if the fom does not come back, or is
    /// already back.
    pub(super) fn keep_for(&self, receiver: FomId, posted: Posted) -> Result<(), (Posted, Stays)> {
        let Some(committer) = self.committer() else {
            return Err((posted, Stays::Quarantined));
        };
        // The lock stays held: while the fom comes back, no other thread may take the events that wait for it.
        let mut orphans = committer.orphans.lock();
        match self.quarantine.stays(receiver) {
            Stays::ComesBack => {
                orphans.entry(receiver).or_default().push(posted);
                Ok(())
            }
            stays => Err((posted, stays)),
        }
    }

    /// Begins to try a quarantined entry again. For a fom, events wait from now on until it [is back](Self::is_back) or
    /// [stays](Self::stays_quarantined).
    pub(crate) fn try_again(&self, id: FomId) -> Result<Quarantined, RetryError> {
        let committer = self.committer().ok_or(RetryError::NotQuarantined(id))?;
        let mut orphans = committer.orphans.lock();
        let quarantined = self.quarantine.try_again(id)?;
        if !is_event(&quarantined) {
            orphans.entry(id).or_default();
        }
        Ok(quarantined)
    }

    /// Notes that the fom can be read now. The fom gets the events that were quarantined for it, and then the events that
    /// were sent since.
    pub(crate) fn is_back(&self, shared: &Shared, id: FomId, kept: Option<&DurableState>) {
        let mut before = Vec::new();
        for event in self.quarantine.events_for(id) {
            let Some(quarantined) = self.quarantine.take(event) else {
                continue;
            };
            match Message::read_again(shared, entry_of(event), &quarantined.bytes) {
                Ok(posted) => before.push(posted),
                Err(reason) => {
                    self.quarantine
                        .put(self.quarantined(event, reason, &quarantined.bytes))
                }
            }
        }
        self.give(id, kept, before, true);
    }

    /// Delivers the events that waited for a fom that never comes back. Without another receiver they stay in
    /// quarantine.
    pub(crate) fn never_comes(&self, shared: &Shared, id: FomId) {
        for event in self.quarantine.events_for(id) {
            let Some(quarantined) = self.quarantine.take(event) else {
                continue;
            };
            if let Err(still) = Types::take_in(shared, entry_of(event), &quarantined.bytes) {
                self.quarantine.put(*still);
            }
        }
    }

    /// Notes that the fom still cannot run, and why.
    pub(crate) fn stays_quarantined(&self, shared: &Shared, still: Quarantined) {
        let (id, key) = (still.id, still.key.clone());
        let Some(committer) = self.committer() else {
            return;
        };
        let waiting = {
            let mut orphans = committer.orphans.lock();
            // A failed operation has not left the list.
            if still.kind() != QuarantineKind::Failed {
                self.quarantine.put(still);
            }
            self.quarantine.tried(id);
            orphans.remove(&id)
        };
        for posted in waiting.into_iter().flatten() {
            let reason = RestoreError::ReceiverQuarantined(id);
            self.quarantine_event(shared, key.as_ref(), Undelivered { posted, reason });
        }
    }

    /// Quarantines an event that no fom takes. The event stays in the journal until it is taken or discarded. `key` is
    /// that of the receiver.
    #[cold]
    pub(crate) fn quarantine_event(
        &self,
        shared: &Shared,
        key: Option<&Key>,
        undelivered: Undelivered,
    ) {
        if undelivered.is_not_there() {
            self.drop_not_there(undelivered);
            return;
        }
        let has_room = self.quarantine.has_room_for(&undelivered.reason);
        self.quarantine_if(shared, key, undelivered, has_room);
    }

    pub(super) fn quarantine_if(
        &self,
        shared: &Shared,
        key: Option<&Key>,
        undelivered: Undelivered,
        has_room: bool,
    ) {
        let Undelivered { posted, reason } = undelivered;
        match posted.bytes(key) {
            Some(bytes) if has_room => {
                let id = fom_of(posted.entry);
                // The event is not lost in either case.
                let _ = self.put_event_in_quarantine(shared, self.quarantined(id, reason, &bytes));
            }
            bytes => self.drop_event(shared, posted.entry, bytes.is_some(), &reason),
        }
    }

    /// Drops an event that cannot wait. `kept`: the event is in the journal.
    fn drop_event(&self, shared: &Shared, entry: EntryId, kept: bool, reason: &RestoreError) {
        let why = match kept {
            true => ", since as many are quarantined as may be",
            false => ", since its sender is not kept in a journal",
        };
        self.quarantine.count_dropped(|letters| match kept {
            true => letters.above_limit += 1,
            false => letters.not_kept += 1,
        });
        seam::report(
            shared,
            IncidentKind::Lost,
            "an event",
            format!("an event was dropped{why}: {reason}"),
        );
        self.drop_messages([entry]);
    }

    /// Keeps an event for a fom that failed and is not listed yet, until the fom is tried again or discarded. `bytes` is
    /// its entry, if it has one.
    pub(crate) fn wait_for_failed(
        &self,
        shared: &Shared,
        receiver: FomId,
        entry: EntryId,
        bytes: Option<Vec<u8>>,
    ) {
        let reason = RestoreError::ReceiverQuarantined(receiver);
        match bytes {
            Some(bytes) => {
                let event = self.quarantined(fom_of(entry), reason, &bytes);
                self.quarantine.put(event);
            }
            None => self.drop_event(shared, entry, false, &reason),
        }
    }

    /// Lists an event, or delivers it if its receiver has come back since.
    pub(crate) fn put_event_in_quarantine(
        &self,
        shared: &Shared,
        mut quarantined: Quarantined,
    ) -> Result<(), RestoreError> {
        self.drop_old_events();
        loop {
            let reason = quarantined.reason.clone();
            let Err(missed) = self.quarantine.put_event(quarantined) else {
                return Err(reason);
            };
            match Types::take_in(shared, entry_of(missed.id), &missed.bytes) {
                Ok(_) => return Ok(()),
                Err(again) => quarantined = *again,
            }
        }
    }

    /// Handles the events that an ended fom has not taken. `back`: the end is not in the journal, so the events may be
    /// for the fom that comes back.
    #[cold]
    pub(crate) fn messages_left(&self, fom: &Header, left: Vec<Posted>, back: bool) {
        let id = fom.id();
        if back {
            if let Some(committer) = self.committer() {
                // In front of the events that came since the fom was closed.
                let mut orphans = committer.orphans.lock();
                orphans.entry(id).or_default().splice(0..0, left);
            }
        } else {
            for posted in left {
                let operation = fom.type_name().to_owned();
                let reason = match fom.key().cloned() {
                    Some(key) => RestoreError::NoReceiver { operation, key },
                    None => RestoreError::NoFom { operation, id },
                };
                let undelivered = Undelivered { posted, reason };
                self.quarantine_event(seam::shared_of(fom), fom.key(), undelivered);
            }
        }
    }

    /// Queues an event for a live fom, behind the events that waited until it was back. Returns the event if the fom
    /// has ended.
    pub(super) fn post(
        &self,
        id: FomId,
        kept: Option<&DurableState>,
        message: Posted,
    ) -> Result<(), Posted> {
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

    /// Gives a fom that came back the events that waited for it.
    pub(crate) fn give_kept(&self, id: FomId, kept: Option<&DurableState>) {
        self.give(id, kept, Vec::new(), false);
    }

    /// Gives a fom the events that were sent before, and then the events that waited for it. `tried`: the fom is back
    /// because it was tried again.
    fn give(&self, id: FomId, kept: Option<&DurableState>, before: Vec<Posted>, tried: bool) {
        let Some(committer) = self.committer() else {
            return;
        };
        let left: Vec<_> = {
            // Held meanwhile, so that events that are sent now come behind them.
            let mut orphans = committer.orphans.lock();
            if tried {
                self.quarantine.tried(id);
            } else if kept.is_none() || self.quarantine.is_tried(id) {
                return;
            }
            let waiting = orphans.remove(&id).unwrap_or_default();
            orphans.shrink();
            let all = before.into_iter().chain(waiting);
            let posted = all.map(|message| match kept {
                Some(kept) => kept.post(message),
                None => Err(message),
            });
            posted.filter_map(Result::err).collect()
        };
        self.drop_messages(left.iter().map(|message| message.entry));
    }

    pub(super) fn drop_messages(&self, entries: impl IntoIterator<Item = EntryId>) {
        if let Some(committer) = self.committer() {
            committer.drop_later(entries);
        }
    }
}

impl Committer {
    /// Queues entries that are no longer needed. They are deleted with the next batch.
    pub(crate) fn drop_later(&self, entries: impl IntoIterator<Item = EntryId>) {
        self.dropped.lock().extend(entries);
    }
}
