//! Entries that are in the journal and cannot run: lists them with reason and bytes, tries them again, or removes them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::Hash,
    sync::Arc,
    time::Duration,
};

use crate::durable::{
    DiscardError, Durable, Kind, Message, RetryError,
    quarantine::failed,
    record::{decode_fom, number_of},
    schemas::Schemas,
};
use fom_protocol::sync::Mutex;
use fom_runtime::{
    __durability::{self as seam, Shared},
    FomId, Key,
    machine::Graph,
    snapshot::{QuarantineKind, RestoreError, SetAside},
};

/// Returns an entry that cannot run, with as much of it as can be read.
pub(in crate::durable) fn listed(
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
    let (record, before) = match *kind == Kind::Failed as u8 {
        true => failed::read(aside, &bytes)?,
        false => (&*bytes, 0),
    };
    let (meta, body) = decode_fom(record).ok()?;
    aside.key = meta.key;
    let fingerprint = u64::from_le_bytes(*body.first_chunk()?);
    let schema = schemas?.get(fingerprint)?;
    aside.operation = Some(schema.operation.clone());
    aside.machine = Some(schema.machine.clone());
    aside.version = Some(schema.version);
    aside.phase = seam::phase_of(&schema, body).map(str::to_owned);
    let from = before + record.len() - body.len();
    seam::set_saved(aside, schema, from, meta.attempt);
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
pub(in crate::durable) fn give_place_up(aside: &SetAside, shared: &Shared) {
    if let Some(of) = seam::place_of(aside) {
        seam::give_place_up(shared, of.clone(), aside.id);
    }
}

/// Returns the number with which an outbox sent the entry.
fn number(aside: &SetAside) -> u64 {
    number_of(&aside.bytes).unwrap_or_default()
}

/// Whether the entry is an event, and no fom.
pub(in crate::durable) fn is_event(aside: &SetAside) -> bool {
    aside.bytes.first() == Some(&(Kind::Message as u8))
}

/// At this number of set-aside events, no more events without a receiver are added.
const MOST_EVENTS: usize = 10_000;

/// All entries in quarantine, by id.
pub(crate) struct QuarantineList {
    /// The most failed operations, and the greatest age of one in nanoseconds.
    most: (usize, u64),
    listed: Mutex<Listed>,
}

#[derive(Default)]
struct Listed {
    foms: BTreeMap<FomId, SetAside>,
    /// The foms with each key. A release that lacks a type sets aside all foms of the type, so a search of `foms` would
    /// be slow.
    keys: HashMap<Key, BTreeSet<FomId>>,
    /// The events, kept apart: there may be many, and each delivery of an event searches the foms.
    events: BTreeMap<FomId, SetAside>,
    /// The operations that failed, kept apart because they are limited.
    failed: BTreeMap<FomId, FailedAt>,
    /// The failed operations, the oldest first, by the time of the journal.
    failed_at: BTreeSet<(u64, FomId)>,
    /// The number of entries that were dropped at the limits.
    dropped: HashMap<QuarantineKind, u64>,
    /// For each set-aside fom, the events that wait for it, in the order in which they were sent.
    waiting: HashMap<FomId, BTreeSet<(u64, FomId)>>,
    /// Foms that are being tried again. They stay listed during the attempt.
    tried: HashSet<FomId>,
}

/// An operation that failed, and when it failed in the time of the journal.
struct FailedAt {
    at: u64,
    aside: SetAside,
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
            None if self.failed.contains_key(&id) => Stays::Aside,
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
        if let Some(FailedAt { at, aside }) = self.failed.remove(&id) {
            self.failed_at.remove(&(at, id));
            if let Some(key) = &aside.key {
                forget(&mut self.keys, key, &id);
            }
            return Some(aside);
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

impl QuarantineList {
    pub(crate) fn new(most: (usize, u64)) -> Self {
        Self {
            most,
            listed: Mutex::default(),
        }
    }

    /// Lists an operation that failed at this time of the journal.
    pub(super) fn put_failed(&self, aside: SetAside, at: u64) {
        let mut listed = self.listed.lock();
        let before = listed.remove(aside.id);
        listed.failed_at.insert((at, aside.id));
        if let Some(key) = &aside.key {
            listed.keys.entry(key.clone()).or_default().insert(aside.id);
        }
        listed.failed.insert(aside.id, FailedAt { at, aside });
        drop((listed, before));
    }

    /// Removes the failed operations above the limits, and counts them.
    pub(super) fn take_old_failed(&self, now: u64) -> Vec<SetAside> {
        let (most, age) = self.most;
        let mut listed = self.listed.lock();
        let mut old = Vec::new();
        while let Some(&(at, id)) = listed.failed_at.first()
            && (listed.failed_at.len() > most || now.saturating_sub(at) > age)
            && !listed.tried.contains(&id)
        {
            old.extend(listed.remove(id));
        }
        if !old.is_empty() {
            *listed.dropped.entry(QuarantineKind::Failed).or_default() += old.len() as u64;
        }
        old
    }

    /// Returns how many entries of this kind were dropped at the limits.
    pub(super) fn dropped(&self, kind: QuarantineKind) -> u64 {
        let listed = self.listed.lock();
        listed.dropped.get(&kind).copied().unwrap_or_default()
    }

    /// Returns the number of entries of this kind.
    pub(super) fn count(&self, kind: QuarantineKind) -> usize {
        let listed = self.listed.lock();
        match kind {
            QuarantineKind::Failed => listed.failed.len(),
            kind => {
                let all = listed.foms.values().chain(listed.events.values());
                all.filter(|aside| aside.kind() == kind).count()
            }
        }
    }

    /// Counts an event without a receiver that was dropped.
    pub(crate) fn drop_event(&self) {
        let mut listed = self.listed.lock();
        *listed
            .dropped
            .entry(QuarantineKind::NoReceiver)
            .or_default() += 1;
    }
    pub(crate) fn put(&self, aside: SetAside) {
        let mut listed = self.listed.lock();
        let before = listed.remove(aside.id);
        listed.put(aside);
        drop((listed, before));
    }

    /// Lists an event. Returns the event if its receiver has come back since, or is about to.
    pub(crate) fn put_event(&self, aside: SetAside) -> Result<(), Box<SetAside>> {
        let mut listed = self.listed.lock();
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
        let mut listed = self.listed.lock();
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
        if let Some(failed) = listed.failed.get(&id) {
            let aside = failed.aside.clone();
            return match listed.tried.insert(id) {
                true => Ok(aside),
                false => Err(RetryError::NotSetAside(id)),
            };
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
        self.listed.lock().tried.remove(&id);
    }

    /// Takes an entry out of the list to discard it.
    pub(crate) fn take_out(&self, id: FomId) -> Result<SetAside, DiscardError> {
        let mut listed = self.listed.lock();
        if listed.tried.contains(&id) {
            return Err(DiscardError::NotSetAside(id));
        }
        if listed.stays(id) == Stays::ComesBack {
            return Err(DiscardError::Pending);
        }
        listed.remove(id).ok_or(DiscardError::NotSetAside(id))
    }

    pub(crate) fn take(&self, id: FomId) -> Option<SetAside> {
        self.listed.lock().remove(id)
    }

    /// Returns all entries by id. `now` is in the time of the journal.
    pub(crate) fn list(&self, now: u64) -> Vec<SetAside> {
        let listed = self.listed.lock();
        let all = listed.foms.values().chain(listed.events.values());
        let mut all: Vec<_> = all.cloned().collect();
        for FailedAt { at, aside } in listed.failed.values() {
            let mut aside = aside.clone();
            if let Some(failure) = &mut aside.failure {
                failure.age = Duration::from_nanos(now.saturating_sub(*at));
            }
            all.push(aside);
        }
        drop(listed);
        all.sort_by_key(|aside| aside.id);
        all
    }

    /// Whether one more entry may be set aside for this reason.
    pub(crate) fn has_room_for(&self, reason: &RestoreError) -> bool {
        !matches!(reason, RestoreError::NoReceiver { .. })
            || self.listed.lock().events.len() < MOST_EVENTS
    }

    /// Returns the oldest fom with this operation type and key.
    pub(crate) fn of(&self, graph: &Graph, key: &Key) -> Option<FomId> {
        let is = |aside: &&SetAside| {
            let machine = aside.machine.as_deref();
            let operation = aside.operation.as_deref();
            machine.is_some_and(|name| graph.is_machine(name))
                && operation.is_some_and(|name| graph.is_operation(name))
        };
        let listed = self.listed.lock();
        let ids = listed.keys.get(key)?.iter();
        let fom = |id| {
            let failed = || Some(&listed.failed.get(id)?.aside);
            listed.foms.get(id).or_else(failed)
        };
        let mut foms = ids.filter_map(fom);
        foms.find(is).map(|aside| aside.id)
    }

    /// Returns the events for this fom, in the order in which they were sent.
    pub(crate) fn events_for(&self, id: FomId) -> Vec<FomId> {
        let listed = self.listed.lock();
        let ids = listed.waiting.get(&id).into_iter().flatten();
        ids.map(|(_, id)| *id).collect()
    }

    pub(crate) fn stays(&self, id: FomId) -> Stays {
        self.listed.lock().stays(id)
    }

    /// Whether a caller is trying the fom again now.
    pub(crate) fn is_tried(&self, id: FomId) -> bool {
        self.listed.lock().tried.contains(&id)
    }
}
