//! The ids of durable sends: an event with a known id is not sent again.
//!
//! Each send puts two entries in one group: the event, and its id. The event leaves the journal with the step that takes
//! it. The id stays as long as outcomes are remembered; see [`retained`](super::retained).

use std::{any::TypeId, collections::HashMap};

use fom_journal::JournalError;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::durable::{
    Durable, IdempotencyStore,
    address::To,
    record::{Kind, stored_key},
    retained::What,
};
use fom_protocol::shrink::Shrink as _;
use fom_runtime::{
    __durability::{self as seam},
    FomId, Key,
    machine::Graph,
    snapshot::RestoreError,
};

/// An operation type, the receiver of the event, and the id of the send.
pub(crate) type SentPlace = (TypeId, To, Key);

/// The ids of the entries of one send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentIds {
    pub(crate) event: FomId,
    /// The entry with the id of the send.
    pub(crate) mark: FomId,
}

/// Tells other callers with the same id whether the event is in the journal.
pub(crate) type TellSent = oneshot::Sender<Result<(), JournalError>>;

enum SentSlot {
    /// The event is on its way into the journal.
    Sending(Vec<TellSent>),
    /// The commit failed, so the journal may have the entries or not. The next send with the id writes the same entries.
    Unsure(SentIds),
    /// The event is in the journal, or a fom took it.
    Sent,
}

/// The ids of durable sends that are remembered.
#[derive(Default)]
pub(crate) struct SentSlots(HashMap<SentPlace, SentSlot>);

/// What a send finds under its id.
pub(crate) enum SentBefore {
    /// Nothing, or a send that failed with these entries. The send is noted now, and must be [ended](IdempotencyStore::sent).
    No(Option<SentIds>),
    /// Another caller sends it now.
    Now(oneshot::Receiver<Result<(), JournalError>>),
    Yes,
}

impl SentSlots {
    pub(crate) fn forget(&mut self, place: &SentPlace) -> Option<FomId> {
        let slot = self.0.remove(place)?;
        self.0.shrink();
        match slot {
            SentSlot::Unsure(ids) => Some(ids.event),
            SentSlot::Sending(_) | SentSlot::Sent => None,
        }
    }
}

impl IdempotencyStore {
    /// Whether the event was sent before.
    pub(crate) fn was_sent(&self, place: &SentPlace, now: u64) -> bool {
        let slots = self.lock(now);
        matches!(slots.sent.0.get(place), Some(SentSlot::Sent))
    }

    /// Begins a send, unless the event was sent before.
    pub(crate) fn begin_send(&self, place: &SentPlace, now: u64) -> SentBefore {
        let mut slots = self.lock(now);
        match slots.sent.0.get_mut(place) {
            None => {
                let sending = SentSlot::Sending(Vec::new());
                slots.sent.0.insert(place.clone(), sending);
                SentBefore::No(None)
            }
            Some(SentSlot::Sent) => SentBefore::Yes,
            Some(SentSlot::Sending(waiting)) => {
                let (tell, told) = oneshot::channel();
                waiting.push(tell);
                SentBefore::Now(told)
            }
            Some(SentSlot::Unsure(ids)) => {
                let ids = *ids;
                let sending = SentSlot::Sending(Vec::new());
                slots.sent.0.insert(place.clone(), sending);
                // It is not forgotten while it is on its way.
                slots.retained.keep(ids.mark);
                SentBefore::No(Some(ids))
            }
        }
    }

    /// Ends a send. Returns the callers that wait for it.
    pub(crate) fn sent(
        &self,
        place: SentPlace,
        ids: SentIds,
        expires: u64,
        is_sent: bool,
    ) -> Vec<TellSent> {
        let mut slots = self.lock(0);
        let slot = match is_sent {
            true => SentSlot::Sent,
            false => SentSlot::Unsure(ids),
        };
        let before = slots.sent.0.insert(place.clone(), slot);
        let bounds = self.bounds();
        slots
            .retained
            .add(ids.mark, What::Sent(Some(place)), expires, bounds);
        match before {
            Some(SentSlot::Sending(waiting)) => waiting,
            _ => Vec::new(),
        }
    }

    /// Adds the id of a send from the journal. `of` is the receiver's type, if this program has it.
    fn recovered_send(
        &self,
        id: FomId,
        of: Option<TypeId>,
        mark: Mark,
    ) -> Result<(), RestoreError> {
        let to = match (mark.receiver, mark.key) {
            (Some(id), _) => To::Id(seam::fom_id(id)),
            (None, Some(key)) => To::Key(key),
            (None, None) => return Err(RestoreError::Damaged),
        };
        let once = mark.once.ok_or(RestoreError::Damaged)?;
        let place = of.map(|of| (of, to, once));
        let mut slots = self.lock(0);
        if let Some(place) = &place {
            slots.sent.0.insert(place.clone(), SentSlot::Sent);
        }
        let bounds = self.bounds();
        slots
            .retained
            .add(id, What::Sent(place), mark.expires, bounds);
        Ok(())
    }
}

/// The entry with the id of a send.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Mark {
    machine: String,
    operation: String,
    #[serde(with = "stored_key")]
    key: Option<Key>,
    receiver: Option<u64>,
    #[serde(with = "stored_key")]
    once: Option<Key>,
    expires: u64,
}

impl Mark {
    /// Appends the entry.
    pub(crate) fn encode(
        graph: &Graph,
        (_, to, once): &SentPlace,
        expires: u64,
        out: &mut Vec<u8>,
    ) {
        let mark = Self {
            machine: graph.name().to_owned(),
            operation: graph.operation().to_owned(),
            key: to.key().cloned(),
            receiver: to.id().map(FomId::get),
            once: Some(once.clone()),
            expires,
        };
        out.push(Kind::Sent as u8);
        // Names and numbers cannot fail to encode.
        let _ = rmp_serde::encode::write(out, &mark);
    }

    /// Returns the receiver: machine, operation, key and id.
    pub(super) fn receiver(self) -> (String, String, Option<Key>, Option<FomId>) {
        let id = self.receiver.map(seam::fom_id);
        (self.machine, self.operation, self.key, id)
    }

    /// Reads the entry.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RestoreError> {
        let (_, body) = bytes.split_first().ok_or(RestoreError::Damaged)?;
        match seam::leading(body) {
            Ok((mark, [])) => Ok(mark),
            _ => Err(RestoreError::Damaged),
        }
    }
}

impl Durable {
    /// Remembers the id of a send in this entry.
    pub(crate) fn remember_send(&self, id: FomId, bytes: &[u8]) -> Result<(), RestoreError> {
        let mark = Mark::decode(bytes)?;
        let of = self.types.of(&mark.machine, &mark.operation);
        let of = of.ok().map(|of| of.type_id());
        self.memory.recovered_send(id, of, mark)
    }
}
