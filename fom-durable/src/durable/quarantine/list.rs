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
    record::{RecordRare, decode_fom, number_of},
    retained::Bound,
    schemas::Schemas,
};
use fom_protocol::sync::Mutex;
use fom_runtime::{
    __durability::{self as seam, Shared},
    FomId, Key,
    machine::Graph,
    snapshot::{QuarantineKind, Quarantined, RestoreError},
};

/// Returns an entry that cannot run, with as much of it as can be read.
pub(in crate::durable) fn listed(
    id: FomId,
    reason: RestoreError,
    bytes: &[u8],
    schemas: Option<&Schemas>,
) -> Quarantined {
    let mut quarantined = seam::unread(id, reason, bytes);
    read(&mut quarantined, schemas);
    quarantined
}

/// Reads as much of the entry as possible.
fn read(quarantined: &mut Quarantined, schemas: Option<&Schemas>) -> Option<()> {
    let bytes = Arc::clone(&quarantined.bytes);
    let (kind, rest) = bytes.split_first()?;
    if *kind == Kind::Message as u8 {
        let (machine, operation, key) = Message::receiver(rest)?;
        (quarantined.machine, quarantined.operation, quarantined.key) =
            (Some(machine), Some(operation), key);
        return None;
    }
    let (record, before) = match *kind == Kind::Failed as u8 {
        true => failed::read(quarantined, &bytes)?,
        false => (&*bytes, 0),
    };
    let (meta, body) = decode_fom(record).ok()?;
    quarantined.key = meta.key;
    let fingerprint = u64::from_le_bytes(*body.first_chunk()?);
    let schema = schemas?.get(fingerprint)?;
    quarantined.operation = Some(schema.operation.clone());
    quarantined.machine = Some(schema.machine.clone());
    quarantined.version = Some(schema.version);
    if !failed::is_saved(body) {
        return None;
    }
    quarantined.phase = seam::phase_of(&schema, body).map(str::to_owned);
    let from = before + record.len() - body.len();
    seam::set_saved(quarantined, schema, from, meta.attempt);
    Some(())
}

/// Keeps the fom's place in the queue for its key: the foms behind it wait. If another fom has the key by now, this
/// fom keeps no place. If this fom has not begun, it may be restored at the next start. Then other foms with its
/// key must commit that they begin.
pub(crate) fn keep_place(quarantined: &mut Quarantined, shared: &Shared) {
    let keeps = !matches!(quarantined.reason, RestoreError::KeyInUse(_));
    let Ok(entered) = Durable::of(shared).enter(&quarantined.bytes) else {
        return;
    };
    if let Some(of) = entered.meta.turn(entered.of.type_id()) {
        let number = entered.meta.number;
        let delayed = |rare: &RecordRare| rare.queues && rare.begins.is_some();
        if entered.meta.rare.as_deref().is_some_and(delayed) {
            // It has no place yet.
            return;
        }
        if keeps || number.is_some() {
            seam::keep_place(shared, of.clone(), quarantined.id, number, keeps);
            seam::set_place(quarantined, Some(of));
        }
    }
}

/// Gives the place up: the fom is back, or is no longer in the journal.
pub(in crate::durable) fn give_place_up(quarantined: &Quarantined, shared: &Shared) {
    if let Some(of) = seam::place_of(quarantined) {
        seam::give_place_up(shared, of.clone(), quarantined.id);
    }
}

/// Returns the number with which an outbox sent the entry.
fn number(quarantined: &Quarantined) -> u64 {
    number_of(&quarantined.bytes).unwrap_or_default()
}

/// Whether the entry is an event, and no fom.
pub(in crate::durable) fn is_event(quarantined: &Quarantined) -> bool {
    quarantined.bytes.first() == Some(&(Kind::Message as u8))
}

/// Whether the entry is of this machine and operation, by present or former names.
pub(in crate::durable) fn is_of(quarantined: &Quarantined, graph: &Graph) -> bool {
    let machine = quarantined.machine.as_deref();
    let operation = quarantined.operation.as_deref();
    machine.is_some_and(|name| graph.is_machine(name))
        && operation.is_some_and(|name| graph.is_operation(name))
}

/// Whether this is the reason of an event that no fom is known for.
pub(in crate::durable) fn has_no_receiver(reason: &RestoreError) -> bool {
    matches!(
        reason,
        RestoreError::NoReceiver { .. } | RestoreError::NoFom { .. }
    )
}

/// Events that no fom took, by reason; see [`Quarantine::dead_letters`](crate::Quarantine::dead_letters).
///
/// The first two are in quarantine now. The others were dropped since the runtime was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetters {
    /// Events in quarantine that have no receiver.
    pub without_receiver: usize,
    /// Events in quarantine that wait for an operation in quarantine.
    pub receiver_quarantined: usize,
    /// Events that were sent only if their receiver is there, and were dropped because it was not.
    pub not_there: u64,
    /// Events without a receiver that were dropped because they were too old.
    pub too_old: u64,
    /// Events that were dropped because the quarantine was full.
    pub above_limit: u64,
    /// Events that were dropped because their sender is not kept in the journal.
    pub not_kept: u64,
}

/// All entries in quarantine, by id.
pub(crate) struct QuarantineList {
    /// The most failed operations, and the greatest age of one in nanoseconds.
    most: Bound,
    /// The same for events. Only events without a receiver have an age.
    most_events: Bound,
    listed: Mutex<Listed>,
}

#[derive(Default)]
struct Listed {
    foms: BTreeMap<FomId, Quarantined>,
    /// The foms with each key. A release that lacks a type quarantines all foms of the type, so a search of `foms` would
    /// be slow.
    keys: HashMap<Key, BTreeSet<FomId>>,
    /// The events, kept apart: there may be many, and each delivery of an event searches the foms.
    events: BTreeMap<FomId, Quarantined>,
    /// The events without a receiver, by the time since when they have none.
    events_at: BTreeSet<(u64, FomId)>,
    /// The number of events that were dropped.
    letters: DeadLetters,
    /// The operations that failed, kept apart because they are limited.
    failed: BTreeMap<FomId, FailedAt>,
    /// The operations that failed and have not left all tables. They are in no listing yet. `failure` is set as soon as
    /// the end is known.
    leaving: BTreeMap<FomId, Quarantined>,
    /// The events that belong to a failed operation, even if another fom has its key.
    owned: HashMap<FomId, FomId>,
    /// The failed operations, the oldest first, by the time of the journal.
    failed_at: BTreeSet<(u64, FomId)>,
    /// The number of failed operations that were dropped at the limits.
    dropped: u64,
    /// For each quarantined fom, the events that wait for it, in the order in which they were sent.
    waiting: HashMap<FomId, BTreeSet<(u64, FomId)>>,
    /// Foms that are being tried again. They stay listed during the attempt.
    tried: HashSet<FomId>,
}

/// An operation that failed, and when it failed in the time of the journal.
struct FailedAt {
    at: u64,
    quarantined: Quarantined,
    /// The events that belong to it.
    events: Vec<FomId>,
}

/// Whether a fom is quarantined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stays {
    /// The fom is not quarantined, or no longer.
    No,
    /// The fom stays quarantined until a caller tries it again.
    Quarantined,
    /// The fom is being tried again, or is about to come back from the journal. Events for it wait until then.
    ComesBack,
}

impl Listed {
    fn stays(&self, id: FomId) -> Stays {
        let is_stalled =
            |quarantined: &Quarantined| matches!(quarantined.reason, RestoreError::NotCommitted(_));
        match self.foms.get(&id) {
            _ if self.tried.contains(&id) || self.leaving.contains_key(&id) => Stays::ComesBack,
            Some(quarantined) if is_stalled(quarantined) => Stays::ComesBack,
            Some(_) => Stays::Quarantined,
            None if self.failed.contains_key(&id) => Stays::Quarantined,
            None => Stays::No,
        }
    }

    /// Whether the entry is an event for a receiver that is no longer quarantined.
    fn has_missed(&self, quarantined: &Quarantined) -> bool {
        match quarantined.reason {
            RestoreError::ReceiverQuarantined(receiver) => {
                self.stays(receiver) != Stays::Quarantined
            }
            _ => false,
        }
    }

    fn put(&mut self, quarantined: Quarantined) {
        let id = quarantined.id;
        if let RestoreError::ReceiverQuarantined(receiver) = &quarantined.reason {
            let number = number(&quarantined);
            self.waiting
                .entry(*receiver)
                .or_default()
                .insert((number, id));
        }
        if is_event(&quarantined) {
            self.events_at.extend(lost_at(&quarantined));
            self.events.insert(id, quarantined);
            return;
        }
        self.keep_key(&quarantined);
        self.foms.insert(id, quarantined);
    }

    fn keep_key(&mut self, quarantined: &Quarantined) {
        if let Some(key) = &quarantined.key {
            let ids = self.keys.entry(key.clone()).or_default();
            ids.insert(quarantined.id);
        }
    }

    /// Returns the fom with this id. No event has it.
    fn fom(&self, id: FomId) -> Option<&Quarantined> {
        let failed = || Some(&self.failed.get(&id)?.quarantined);
        let fom = self.foms.get(&id).or_else(|| self.leaving.get(&id));
        fom.or_else(failed)
    }

    fn remove(&mut self, id: FomId) -> Option<Quarantined> {
        let fom = self.foms.remove(&id);
        let mut found = fom.or_else(|| self.leaving.remove(&id));
        if let Some(failed) = self.failed.remove(&id) {
            self.failed_at.remove(&(failed.at, id));
            for event in &failed.events {
                self.owned.remove(event);
            }
            found = Some(failed.quarantined);
        }
        if let Some(key) = found.as_ref().and_then(|fom| fom.key.as_ref()) {
            forget(&mut self.keys, key, &id);
        }
        let found = found.or_else(|| {
            let event = self.events.remove(&id)?;
            if let Some(lost) = lost_at(&event) {
                self.events_at.remove(&lost);
            }
            Some(event)
        })?;
        if let RestoreError::ReceiverQuarantined(receiver) = &found.reason {
            forget(&mut self.waiting, receiver, &(number(&found), id));
        }
        Some(found)
    }
}

/// Returns since when an event has no receiver, with its id.
fn lost_at(event: &Quarantined) -> Option<(u64, FomId)> {
    if !has_no_receiver(&event.reason) {
        return None;
    }
    Some((Message::since(&event.bytes)?, event.id))
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
    pub(crate) fn new(most: Bound, most_events: Bound) -> Self {
        Self {
            most,
            most_events,
            listed: Mutex::default(),
        }
    }

    /// Notes an operation that failed, before it is listed. Events for it wait until it is listed.
    pub(in crate::durable) fn put_leaving(&self, quarantined: Quarantined) {
        let mut listed = self.listed.lock();
        let before = listed.remove(quarantined.id);
        listed.keep_key(&quarantined);
        listed.leaving.insert(quarantined.id, quarantined);
        drop((listed, before));
    }

    /// Notes how an operation failed that has not left all tables. From now on, a lookup finds how it ended.
    pub(crate) fn has_failed(&self, id: FomId, entry: &[u8]) {
        let Some((failure, phase, _)) = failed::failure_and_record(entry) else {
            return;
        };
        let mut listed = self.listed.lock();
        if let Some(leaving) = listed.leaving.get_mut(&id) {
            (leaving.failure, leaving.phase) = (Some(Box::new(failure)), Some(phase));
        }
    }

    /// Returns an operation that is known to have failed, and is not listed yet.
    pub(crate) fn just_failed(&self, id: FomId) -> Option<Quarantined> {
        let listed = self.listed.lock();
        let leaving = listed.leaving.get(&id);
        leaving.filter(|fom| fom.failure.is_some()).cloned()
    }

    /// Lists an operation that failed at this time of the journal, and the events that belong to it.
    pub(super) fn put_failed(&self, quarantined: Quarantined, at: u64, events: Vec<FomId>) {
        let mut listed = self.listed.lock();
        let id = quarantined.id;
        let before = listed.remove(id);
        listed.failed_at.insert((at, id));
        listed.keep_key(&quarantined);
        listed.owned.extend(events.iter().map(|event| (*event, id)));
        let failed = FailedAt {
            at,
            quarantined,
            events,
        };
        listed.failed.insert(id, failed);
        drop((listed, before));
    }

    /// Removes the failed operations above the limits, and counts them.
    pub(super) fn take_old_failed(&self, now: u64) -> Vec<Quarantined> {
        let (most, age) = self.most;
        let mut listed = self.listed.lock();
        let mut old = Vec::new();
        while let Some(&(at, id)) = listed.failed_at.first()
            && (listed.failed_at.len() > most || now.saturating_sub(at) > age)
            && !listed.tried.contains(&id)
        {
            old.extend(listed.remove(id));
        }
        listed.dropped += old.len() as u64;
        old
    }

    /// Removes the events that have no receiver for too long, and counts them.
    pub(in crate::durable) fn take_old_events(&self, now: u64) -> Vec<FomId> {
        let (_, age) = self.most_events;
        let mut listed = self.listed.lock();
        let mut old = Vec::new();
        while let Some(&(since, id)) = listed.events_at.first()
            && now.saturating_sub(since) > age
        {
            listed.remove(id);
            old.push(id);
        }
        listed.letters.too_old += old.len() as u64;
        old
    }

    /// Returns how many entries of this kind were dropped at the limits.
    pub(super) fn dropped(&self, kind: QuarantineKind) -> u64 {
        let listed = self.listed.lock();
        let letters = &listed.letters;
        match kind {
            QuarantineKind::Failed => listed.dropped,
            QuarantineKind::NoReceiver => letters.above_limit + letters.too_old + letters.not_kept,
            _ => 0,
        }
    }

    /// Returns the events that no fom took, by reason.
    pub(super) fn dead_letters(&self) -> DeadLetters {
        let listed = self.listed.lock();
        let reasons = || listed.events.values().map(|event| &event.reason);
        let waits = |reason: &&RestoreError| matches!(reason, RestoreError::ReceiverQuarantined(_));
        DeadLetters {
            without_receiver: reasons().filter(|reason| has_no_receiver(reason)).count(),
            receiver_quarantined: reasons().filter(waits).count(),
            ..listed.letters
        }
    }

    /// Returns the number of entries of this kind.
    pub(super) fn count(&self, kind: QuarantineKind) -> usize {
        let listed = self.listed.lock();
        match kind {
            QuarantineKind::Failed => listed.failed.len(),
            kind => {
                let all = listed.foms.values().chain(listed.events.values());
                all.filter(|quarantined| quarantined.kind() == kind).count()
            }
        }
    }

    /// Counts an event that was dropped.
    pub(crate) fn count_dropped(&self, count: impl FnOnce(&mut DeadLetters)) {
        count(&mut self.listed.lock().letters);
    }

    pub(crate) fn put(&self, quarantined: Quarantined) {
        let mut listed = self.listed.lock();
        let before = listed.remove(quarantined.id);
        listed.put(quarantined);
        drop((listed, before));
    }

    /// Lists an event. Returns the event if its receiver has come back since, or is about to.
    pub(crate) fn put_event(&self, quarantined: Quarantined) -> Result<(), Box<Quarantined>> {
        let mut listed = self.listed.lock();
        if listed.has_missed(&quarantined) {
            return Err(Box::new(quarantined));
        }
        let before = listed.remove(quarantined.id);
        listed.put(quarantined);
        drop((listed, before));
        Ok(())
    }

    /// Begins to try an entry again. An event leaves the list. A fom stays listed until [`tried`](Self::tried).
    pub(crate) fn try_again(&self, id: FomId) -> Result<Quarantined, RetryError> {
        let mut listed = self.listed.lock();
        if let Some(quarantined) = listed.foms.get(&id) {
            let quarantined = match listed.stays(id) {
                // Another caller is already trying the fom.
                _ if listed.tried.contains(&id) => return Err(RetryError::NotQuarantined(id)),
                Stays::ComesBack => return Err(RetryError::Pending),
                _ if quarantined.bytes.is_empty() => {
                    return Err(RetryError::Still(quarantined.reason.clone()));
                }
                _ => quarantined.clone(),
            };
            listed.tried.insert(id);
            return Ok(quarantined);
        }
        if let Some(failed) = listed.failed.get(&id) {
            let quarantined = failed.quarantined.clone();
            return match listed.tried.insert(id) {
                true => Ok(quarantined),
                false => Err(RetryError::NotQuarantined(id)),
            };
        }
        let event = listed.events.get(&id);
        let event = event.ok_or(RetryError::NotQuarantined(id))?;
        match &event.reason {
            // The event arrives with its receiver, behind the events that were sent before.
            RestoreError::ReceiverQuarantined(_) if listed.has_missed(event) => {
                Err(RetryError::NotQuarantined(id))
            }
            RestoreError::ReceiverQuarantined(_) => Err(RetryError::Still(event.reason.clone())),
            _ => listed.remove(id).ok_or(RetryError::NotQuarantined(id)),
        }
    }

    /// Ends the attempt: the fom is back, or stays quarantined.
    pub(crate) fn tried(&self, id: FomId) {
        self.listed.lock().tried.remove(&id);
    }

    /// Takes an entry out of the list to discard it.
    pub(crate) fn take_out(&self, id: FomId) -> Result<Quarantined, DiscardError> {
        let mut listed = self.listed.lock();
        if listed.tried.contains(&id) {
            return Err(DiscardError::NotQuarantined(id));
        }
        if listed.stays(id) == Stays::ComesBack {
            return Err(DiscardError::Pending);
        }
        listed.remove(id).ok_or(DiscardError::NotQuarantined(id))
    }

    pub(crate) fn take(&self, id: FomId) -> Option<Quarantined> {
        self.listed.lock().remove(id)
    }

    /// Returns all entries by id. `now` is in the time of the journal.
    pub(crate) fn list(&self, now: u64) -> Vec<Quarantined> {
        let listed = self.listed.lock();
        let all = listed.foms.values().chain(listed.events.values());
        let mut all: Vec<_> = all.cloned().collect();
        for FailedAt {
            at, quarantined, ..
        } in listed.failed.values()
        {
            let mut quarantined = quarantined.clone();
            if let Some(failure) = &mut quarantined.failure {
                failure.age = Duration::from_nanos(now.saturating_sub(*at));
                for attempt in &mut failure.attempts {
                    attempt.age += failure.age;
                }
            }
            all.push(quarantined);
        }
        drop(listed);
        all.sort_by_key(|quarantined| quarantined.id);
        all
    }

    /// Whether one more entry may be quarantined for this reason.
    pub(crate) fn has_room_for(&self, reason: &RestoreError) -> bool {
        let listed = self.listed.lock();
        let is_limited = match reason {
            reason if has_no_receiver(reason) => true,
            // Each other fom must not miss an event when it comes back.
            RestoreError::ReceiverQuarantined(receiver) => listed.failed.contains_key(receiver),
            _ => false,
        };
        !is_limited || listed.events.len() < self.most_events.0
    }

    /// Returns the failed operation that this event belongs to.
    pub(crate) fn owner(&self, event: FomId) -> Option<FomId> {
        self.listed.lock().owned.get(&event).copied()
    }

    /// Whether an operation with this id failed. Then another fom may have its key.
    pub(crate) fn is_failed(&self, id: FomId) -> bool {
        self.listed.lock().failed.contains_key(&id)
    }

    /// Returns the oldest fom with this operation type and key. Failed operations come last, because they have no key
    /// any more.
    pub(crate) fn of(&self, graph: &Graph, key: &Key) -> Option<FomId> {
        let is = |quarantined: &&Quarantined| is_of(quarantined, graph);
        let listed = self.listed.lock();
        let ids = listed.keys.get(key)?.iter();
        let foms = ids.filter_map(|id| listed.fom(*id)).filter(is);
        foms.map(|quarantined| quarantined.id)
            .min_by_key(|id| (listed.failed.contains_key(id), *id))
    }

    /// Returns the fom with this operation type and key: one that has its key still, or the last one that failed.
    pub(crate) fn last_of(&self, graph: &Graph, key: &Key) -> Option<Quarantined> {
        let listed = self.listed.lock();
        let ids = listed.keys.get(key)?.iter();
        let foms = ids.filter_map(|id| listed.fom(*id));
        let foms = foms.filter(|fom| is_of(fom, graph));
        let failed_at = |fom: &&Quarantined| match listed.failed.get(&fom.id) {
            Some(failed) => (failed.at, fom.id),
            None => (u64::MAX, fom.id),
        };
        foms.max_by_key(failed_at).cloned()
    }

    /// Whether a fom of this machine with this id is quarantined.
    pub(crate) fn is_of(&self, id: FomId, graph: &Graph) -> bool {
        self.listed
            .lock()
            .fom(id)
            .is_some_and(|fom| is_of(fom, graph))
    }

    /// Returns the fom with this id.
    pub(crate) fn fom(&self, id: FomId) -> Option<Quarantined> {
        self.listed.lock().fom(id).cloned()
    }

    /// Returns when this operation failed, in the time of the journal.
    pub(crate) fn failed_at(&self, id: FomId) -> Option<u64> {
        Some(self.listed.lock().failed.get(&id)?.at)
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
