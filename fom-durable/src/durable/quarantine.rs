//! Entries that are in the journal and cannot run: lists them with reason and bytes, tries them again, or removes them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::Hash,
    sync::Arc,
};

use crate::durable::{
    DiscardError, Durable, Kind, Message, RetryError,
    record::{decode_fom, number_of},
    schemas::Schemas,
};
use fom_protocol::sync::Mutex;
use fom_runtime::{
    __durability::{self as seam, Shared},
    FomId, Key,
    machine::Graph,
    snapshot::{RestoreError, SetAside},
};

/// Returns an entry that cannot run, with as much of it as can be read.
pub(super) fn listed(
    id: FomId,
    reason: RestoreError,
    bytes: &[u8],
    schemas: Option<&Schemas>,
) -> SetAside {
    let mut aside = seam::unread(id, reason, bytes);
    read(&mut aside, schemas);
    aside
}

/// Reads as much of the entry as possible.
fn read(aside: &mut SetAside, schemas: Option<&Schemas>) -> Option<()> {
    let bytes = Arc::clone(&aside.bytes);
    let (kind, rest) = bytes.split_first()?;
    if *kind == Kind::Message as u8 {
        let (machine, operation, key) = Message::receiver(rest)?;
        (aside.machine, aside.operation, aside.key) = (Some(machine), Some(operation), key);
        return None;
    }
    let (meta, body) = decode_fom(&bytes).ok()?;
    aside.key = meta.key;
    let fingerprint = u64::from_le_bytes(*body.first_chunk()?);
    let schema = schemas?.get(fingerprint)?;
    aside.operation = Some(schema.operation.clone());
    aside.machine = Some(schema.machine.clone());
    aside.version = Some(schema.version);
    aside.phase = seam::phase_of(&schema, body).map(str::to_owned);
    seam::set_saved(aside, schema, bytes.len() - body.len(), meta.attempt);
    Some(())
}

/// Keeps the fom's place in the queue for its key: the foms behind it wait. If another fom has the key by now, this
/// fom keeps no place. If this fom has not begun, it may be restored at the next start. Then other foms with its
/// key must commit that they begin.
pub(crate) fn keep_place(aside: &mut SetAside, shared: &Shared) {
    let keeps = !matches!(aside.reason, RestoreError::KeyInUse(_));
    let Ok(entered) = Durable::of(shared).enter(&aside.bytes) else {
        return;
    };
    if let Some(key) = entered.meta.key {
        let (of, number) = ((entered.of.type_id(), key), entered.meta.number);
        if keeps || number.is_some() {
            seam::keep_place(shared, of.clone(), aside.id, number, keeps);
            seam::set_place(aside, Some(of));
        }
    }
}

/// Gives the place up: the fom is back, or is no longer in the journal.
pub(super) fn give_place_up(aside: &SetAside, shared: &Shared) {
    if let Some(of) = seam::place_of(aside) {
        seam::give_place_up(shared, of.clone(), aside.id);
    }
}

/// Returns the number with which an outbox sent the entry.
fn number(aside: &SetAside) -> u64 {
    number_of(&aside.bytes).unwrap_or_default()
}

/// Whether the entry is an event, and no fom.
pub(super) fn is_event(aside: &SetAside) -> bool {
    aside.bytes.first() == Some(&(Kind::Message as u8))
}

/// At this number of set-aside events, no more events without a receiver are added.
const MOST_EVENTS: usize = 10_000;

/// All set-aside entries, by id.
#[derive(Default)]
pub(crate) struct Quarantine(Mutex<Listed>);

#[derive(Default)]
struct Listed {
    foms: BTreeMap<FomId, SetAside>,
    /// The foms with each key. A release that lacks a type sets aside all foms of the type, so a search of `foms` would
    /// be slow.
    keys: HashMap<Key, BTreeSet<FomId>>,
    /// The events, kept apart: there may be many, and each delivery of an event searches the foms.
    events: BTreeMap<FomId, SetAside>,
    /// For each set-aside fom, the events that wait for it, in the order in which they were sent.
    waiting: HashMap<FomId, BTreeSet<(u64, FomId)>>,
    /// Foms that are being tried again. They stay listed during the attempt.
    tried: HashSet<FomId>,
}

/// Whether a fom is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stays {
    /// The fom is not set aside, or no longer.
    No,
    /// The fom stays set aside until a caller tries it again.
    Aside,
    /// The fom is being tried again, or is about to come back from the journal. Events for it wait until then.
    ComesBack,
}

impl Listed {
    fn stays(&self, id: FomId) -> Stays {
        let is_stalled = |aside: &SetAside| matches!(aside.reason, RestoreError::NotCommitted(_));
        match self.foms.get(&id) {
            _ if self.tried.contains(&id) => Stays::ComesBack,
            Some(aside) if is_stalled(aside) => Stays::ComesBack,
            Some(_) => Stays::Aside,
            None => Stays::No,
        }
    }

    /// Whether the entry is an event for a receiver that is no longer set aside.
    fn has_missed(&self, aside: &SetAside) -> bool {
        match aside.reason {
            RestoreError::ReceiverSetAside(receiver) => self.stays(receiver) != Stays::Aside,
            _ => false,
        }
    }

    fn put(&mut self, aside: SetAside) {
        let id = aside.id;
        if let RestoreError::ReceiverSetAside(receiver) = &aside.reason {
            let number = number(&aside);
            self.waiting
                .entry(*receiver)
                .or_default()
                .insert((number, id));
        }
        if is_event(&aside) {
            self.events.insert(id, aside);
            return;
        }
        if let Some(key) = &aside.key {
            self.keys.entry(key.clone()).or_default().insert(id);
        }
        self.foms.insert(id, aside);
    }

    fn remove(&mut self, id: FomId) -> Option<SetAside> {
        let found = self.foms.remove(&id);
        if let Some(key) = found.as_ref().and_then(|fom| fom.key.as_ref()) {
            forget(&mut self.keys, key, &id);
        }
        let found = found.or_else(|| self.events.remove(&id))?;
        if let RestoreError::ReceiverSetAside(receiver) = &found.reason {
            forget(&mut self.waiting, receiver, &(number(&found), id));
        }
        Some(found)
    }
}

fn forget<K: Eq + Hash, T: Ord>(from: &mut HashMap<K, BTreeSet<T>>, key: &K, id: &T) {
    if let Some(ids) = from.get_mut(key) {
        ids.remove(id);
        if ids.is_empty() {
            from.remove(key);
        }
    }
}

impl Quarantine {
    pub(crate) fn put(&self, aside: SetAside) {
        let mut listed = self.0.lock();
        let before = listed.remove(aside.id);
        listed.put(aside);
        drop((listed, before));
    }

    /// Lists an event. Returns the event if its receiver has come back since, or is about to.
    pub(crate) fn put_event(&self, aside: SetAside) -> Result<(), Box<SetAside>> {
        let mut listed = self.0.lock();
        if listed.has_missed(&aside) {
            return Err(Box::new(aside));
        }
        let before = listed.remove(aside.id);
        listed.put(aside);
        drop((listed, before));
        Ok(())
    }

    /// Begins to try an entry again. An event leaves the list. A fom stays listed until [`tried`](Self::tried).
    pub(crate) fn try_again(&self, id: FomId) -> Result<SetAside, RetryError> {
        let mut listed = self.0.lock();
        if let Some(aside) = listed.foms.get(&id) {
            let aside = match listed.stays(id) {
                // Another caller is already trying the fom.
                _ if listed.tried.contains(&id) => return Err(RetryError::NotSetAside(id)),
                Stays::ComesBack => return Err(RetryError::Pending),
                _ if aside.bytes.is_empty() => {
                    return Err(RetryError::Still(aside.reason.clone()));
                }
                _ => aside.clone(),
            };
            listed.tried.insert(id);
            return Ok(aside);
        }
        let event = listed.events.get(&id);
        let event = event.ok_or(RetryError::NotSetAside(id))?;
        match &event.reason {
            // The event arrives with its receiver, behind the events that were sent before.
            RestoreError::ReceiverSetAside(_) if listed.has_missed(event) => {
                Err(RetryError::NotSetAside(id))
            }
            RestoreError::ReceiverSetAside(_) => Err(RetryError::Still(event.reason.clone())),
            _ => listed.remove(id).ok_or(RetryError::NotSetAside(id)),
        }
    }

    /// Ends the attempt: the fom is back, or stays set aside.
    pub(crate) fn tried(&self, id: FomId) {
        self.0.lock().tried.remove(&id);
    }

    /// Takes an entry out of the list to discard it.
    pub(crate) fn take_out(&self, id: FomId) -> Result<SetAside, DiscardError> {
        let mut listed = self.0.lock();
        if listed.tried.contains(&id) {
            return Err(DiscardError::NotSetAside(id));
        }
        if listed.stays(id) == Stays::ComesBack {
            return Err(DiscardError::Pending);
        }
        listed.remove(id).ok_or(DiscardError::NotSetAside(id))
    }

    pub(crate) fn take(&self, id: FomId) -> Option<SetAside> {
        self.0.lock().remove(id)
    }

    pub(crate) fn list(&self) -> Vec<SetAside> {
        let listed = self.0.lock();
        let all = listed.foms.values().chain(listed.events.values());
        let mut all: Vec<_> = all.cloned().collect();
        drop(listed);
        all.sort_by_key(|aside| aside.id);
        all
    }

    /// Whether one more entry may be set aside for this reason.
    pub(crate) fn has_room_for(&self, reason: &RestoreError) -> bool {
        !matches!(reason, RestoreError::NoReceiver { .. })
            || self.0.lock().events.len() < MOST_EVENTS
    }

    /// Returns the oldest fom with this operation type and key.
    pub(crate) fn of(&self, graph: &Graph, key: &Key) -> Option<FomId> {
        let is = |aside: &&SetAside| {
            let machine = aside.machine.as_deref();
            let operation = aside.operation.as_deref();
            machine.is_some_and(|name| graph.is_machine(name))
                && operation.is_some_and(|name| graph.is_operation(name))
        };
        let listed = self.0.lock();
        let ids = listed.keys.get(key)?.iter();
        let mut foms = ids.filter_map(|id| listed.foms.get(id));
        foms.find(is).map(|aside| aside.id)
    }

    /// Returns the events for this fom, in the order in which they were sent.
    pub(crate) fn events_for(&self, id: FomId) -> Vec<FomId> {
        let listed = self.0.lock();
        let ids = listed.waiting.get(&id).into_iter().flatten();
        ids.map(|(_, id)| *id).collect()
    }

    pub(crate) fn stays(&self, id: FomId) -> Stays {
        self.0.lock().stays(id)
    }

    /// Whether a caller is trying the fom again now.
    pub(crate) fn is_tried(&self, id: FomId) -> bool {
        self.0.lock().tried.contains(&id)
    }
}
