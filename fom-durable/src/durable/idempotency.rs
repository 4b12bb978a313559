//! Operation ids: a submission with a known id runs nothing, and gets the answer of the first submission.
//!
//! The remembered outcomes are limited in number and in time. With a journal, an outcome is an entry. The group that
//! ends the fom replaces the fom's entry by the outcome, so there is always one of the two. An expired entry is deleted
//! with the next batch.

use std::{
    any::TypeId,
    collections::{BTreeMap, HashMap},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use fom_journal::EntryId;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::{
    durable::record::{Kind, stored_key},
    entry::entry_of,
};
use fom_protocol::{
    panic_message,
    shrink::Shrink as _,
    sync::{Mutex, MutexGuard},
};
use fom_runtime::{
    __durability::{self as seam, AnyRef, FailedAs, Outcome},
    Cause, Failure, FomId, Key, Operation,
    error::DurabilityError,
    machine::Graph,
    snapshot::{RestoreError, Snapshot},
};

/// An operation type and an id from its user, which together run once.
pub(crate) type Place = (TypeId, Key);

/// Reads an operation from a snapshot. A function value, so that only submissions with an id need to know that the
/// operation can be saved.
pub(crate) type Open<O> = fn(&Snapshot) -> Result<(O, <O as Operation>::Phase), RestoreError>;

/// The state beside a fom that was submitted with an id.
pub(crate) struct OperationId {
    pub(crate) id: Key,
    /// The answer, once it is on its way into the journal, and the time when it expires.
    answer: Mutex<Option<(Stored, u64)>>,
}

/// How an operation ended, as it is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// The operation ended in an end phase.
    Ended(Snapshot),
    /// The operation ended in the standard failed outcome.
    Failed { cause: String, phase: String },
}

/// The answer for callers that wait for the end of a fom that another caller submitted. If nothing is sent, there will
/// be no end.
pub(crate) type Told = Result<Arc<Stored>, DurabilityError>;

/// The state of an operation that was submitted before.
enum Slot {
    /// The fom is in flight.
    Live {
        fom: AnyRef,
        waiting: Vec<oneshot::Sender<Told>>,
    },
    /// The fom is in the journal and cannot go on for now.
    Quarantined(FomId),
    /// The fom came back and rests.
    Rests(FomId),
    /// The fom failed, and the quarantine keeps it.
    Failed(FomId, Arc<Stored>),
    Ended {
        id: FomId,
        answer: Arc<Stored>,
        expires: u64,
    },
}

/// The state of an operation id, as a submission finds it.
pub(crate) enum Seen {
    /// The submission is the first.
    Never,
    Live(AnyRef, oneshot::Receiver<Told>),
    Quarantined,
    Rests(FomId),
    Ended(FomId, Arc<Stored>),
}

/// All operation ids of one runtime.
pub(crate) struct IdempotencyStore {
    most: usize,
    time: u64,
    slots: Mutex<Slots>,
}

#[derive(Default)]
pub(crate) struct Slots {
    slots: HashMap<Place, Slot>,
    /// The outcomes in the order in which they are forgotten; `None` if this program does not have the type.
    order: BTreeMap<(u64, FomId), Option<Place>>,
    /// Entries that are forgotten, and still in the journal.
    forgotten: Vec<EntryId>,
}

impl OperationId {
    pub(crate) fn new(id: Key) -> Box<Self> {
        Box::new(Self {
            id,
            answer: Mutex::default(),
        })
    }

    /// Writes the entry that replaces the fom's entry.
    pub(super) fn encode(&self, graph: &Graph, answer: Stored, expires: u64, out: &mut Vec<u8>) {
        out.push(Kind::Outcome as u8);
        let entry = Entry {
            machine: graph.name().to_owned(),
            operation: graph.operation().to_owned(),
            id: Some(self.id.clone()),
            expires,
            failed: match &answer {
                Stored::Failed { cause, phase } => Some((cause.clone(), phase.clone())),
                Stored::Ended(_) => None,
            },
        };
        // Names and numbers cannot fail to encode.
        let _ = rmp_serde::encode::write(out, &entry);
        if let Stored::Ended(snapshot) = &answer {
            out.extend_from_slice(snapshot.as_bytes());
        }
        *self.answer.lock() = Some((answer, expires));
    }

    /// Takes what [`encode`](Self::encode) wrote.
    pub(crate) fn take(&self) -> Option<(Stored, u64)> {
        self.answer.lock().take()
    }
}

/// The entry as it is stored in the journal. A snapshot of the end follows it.
#[derive(Serialize, Deserialize)]
struct Entry {
    machine: String,
    operation: String,
    #[serde(with = "stored_key")]
    id: Option<Key>,
    expires: u64,
    /// The cause and the phase.
    failed: Option<(String, String)>,
}

/// An outcome from the journal.
pub(crate) struct Remembered {
    pub(crate) machine: String,
    pub(crate) operation: String,
    pub(super) id: Key,
    expires: u64,
    answer: Stored,
}

/// Reads what [`OperationId::encode`] wrote, without the first byte.
pub(crate) fn decode_outcome(bytes: &[u8]) -> Result<Remembered, RestoreError> {
    let (entry, rest): (Entry, _) = seam::leading(bytes).map_err(|_| RestoreError::Damaged)?;
    let answer = match (entry.failed, rest) {
        (Some((cause, phase)), []) => Stored::Failed { cause, phase },
        (Some(_), _) => return Err(RestoreError::Damaged),
        (None, snapshot) => Stored::Ended(Snapshot::from_bytes(snapshot)?),
    };
    Ok(Remembered {
        machine: entry.machine,
        operation: entry.operation,
        id: entry.id.ok_or(RestoreError::Damaged)?,
        expires: entry.expires,
        answer,
    })
}

impl Stored {
    pub(super) fn failed(failed: &FailedAs<'_>) -> Self {
        Self::Failed {
            cause: (failed.describe)(),
            phase: failed.phase.to_owned(),
        }
    }

    /// Returns the outcome once more, with values of its own.
    pub(crate) fn outcome<O: Operation>(&self, open: Open<O>) -> Outcome<O> {
        let failed = |cause, phase: &str| {
            let phase = seam::find_ever(O::GRAPH, phase);
            let phase = phase
                .or(O::GRAPH.phases().first())
                .map_or("", |phase| phase.name());
            Err(Failure::new(cause, phase, None))
        };
        let snapshot = match self {
            Self::Failed { cause, phase } => {
                let cause = cause.clone();
                return failed(Cause::Remembered { cause }, phase);
            }
            Self::Ended(snapshot) => snapshot,
        };
        let why = match catch_unwind(AssertUnwindSafe(|| open(snapshot))) {
            Ok(Ok((operation, phase))) => {
                return Ok(seam::ended(operation, phase));
            }
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("it panicked: {}", panic_message(panic)),
        };
        failed(Cause::Unread { why }, "")
    }
}

impl IdempotencyStore {
    pub(crate) fn new(most: usize, time: u64) -> Self {
        Self {
            most,
            time,
            slots: Mutex::default(),
        }
    }

    /// Returns until when an outcome of now is remembered.
    pub(crate) fn expiry(&self, now: u64) -> u64 {
        now.saturating_add(self.time)
    }

    /// Locks the slots. No other caller submits with an id while the guard is held.
    pub(crate) fn lock(&self, now: u64) -> MutexGuard<'_, Slots> {
        let mut slots = self.slots.lock();
        slots.forget(usize::MAX, now);
        slots
    }

    /// Ends the fom with this id. Returns the callers that wait for its answer. With a [`NoAnswer`], there is no answer
    /// in this run.
    pub(crate) fn ended(
        &self,
        place: &Place,
        id: FomId,
        answer: Result<(Arc<Stored>, u64), NoAnswer>,
        now: u64,
    ) -> Vec<oneshot::Sender<Told>> {
        let mut slots = self.slots.lock();
        let before = match slots.slots.get(place) {
            Some(Slot::Live { fom, .. }) if fom.id() == id => slots.slots.remove(place),
            _ => return Vec::new(),
        };
        slots.slots.shrink();
        match answer {
            Ok((answer, expires)) => {
                slots.remember(place.clone(), id, answer, expires);
                slots.forget(self.most, now);
            }
            Err(NoAnswer::Stays) => {
                slots.slots.insert(place.clone(), Slot::Quarantined(id));
            }
            Err(NoAnswer::Gone) => {}
        }
        drop(slots);
        match before {
            Some(Slot::Live { waiting, .. }) => waiting,
            _ => Vec::new(),
        }
    }

    /// Notes that a fom with an id came back. Returns `false` if another fom with the id is in flight.
    pub(crate) fn back(&self, place: Place, fom: AnyRef) -> bool {
        let mut slots = self.slots.lock();
        if let Some(Slot::Live { .. }) = slots.slots.get(&place) {
            return false;
        }
        slots.forget_ended(&place);
        slots.began(place, fom);
        true
    }

    /// Notes that a fom with an id came back, and rests.
    pub(crate) fn rests(&self, place: Place, id: FomId) {
        let mut slots = self.slots.lock();
        slots.forget_ended(&place);
        let slot = slots.slots.entry(place).or_insert(Slot::Rests(id));
        if matches!(slot, Slot::Failed(failed, _) if *failed < id) {
            *slot = Slot::Rests(id);
        }
    }

    /// Notes that a fom with an id is in the journal and cannot go on for now.
    pub(crate) fn quarantined(&self, place: Place, id: FomId) {
        let mut slots = self.slots.lock();
        let slot = slots.slots.entry(place).or_insert(Slot::Quarantined(id));
        if let Slot::Rests(_) = slot {
            *slot = Slot::Quarantined(id);
        }
    }

    /// Notes that a fom failed, and that the quarantine keeps it. Returns the callers that wait for its answer.
    pub(crate) fn failed(
        &self,
        place: Place,
        id: FomId,
        answer: Arc<Stored>,
    ) -> Vec<oneshot::Sender<Told>> {
        let mut slots = self.slots.lock();
        // The journal may still have a failed fom whose id was free again.
        let is_taken = match slots.slots.get(&place) {
            Some(Slot::Live { fom, .. }) => fom.id() != id,
            Some(Slot::Rests(other) | Slot::Ended { id: other, .. }) => *other > id,
            _ => false,
        };
        if is_taken {
            return Vec::new();
        }
        slots.forget_ended(&place);
        match slots.slots.insert(place, Slot::Failed(id, answer)) {
            Some(Slot::Live { waiting, .. }) => waiting,
            _ => Vec::new(),
        }
    }

    /// Notes that a failed fom was dropped from the quarantine. Its answer is remembered as that of another fom.
    pub(crate) fn dropped(&self, place: Place, id: FomId, expires: u64) {
        let mut slots = self.slots.lock();
        if let Some(Slot::Failed(failed, answer)) = slots.slots.get(&place)
            && *failed == id
        {
            let answer = Arc::clone(answer);
            slots.remember(place, id, answer, expires);
        }
    }

    /// Notes that a quarantined fom is no longer in the journal.
    pub(crate) fn discarded(&self, id: FomId) {
        let is_it = |slot: &Slot| match slot {
            Slot::Quarantined(quarantined) | Slot::Failed(quarantined, _) => *quarantined == id,
            _ => false,
        };
        self.slots.lock().slots.retain(|_, slot| !is_it(slot));
    }

    /// Adds an outcome from the journal. `of` is its type, if this program has it.
    pub(crate) fn recovered(&self, id: FomId, of: Option<TypeId>, was: Remembered) {
        let mut slots = self.slots.lock();
        let Some(of) = of else {
            slots.order.insert((was.expires, id), None);
            return;
        };
        let place = (of, was.id);
        let older = match slots.slots.get(&place) {
            Some(Slot::Ended {
                id: other, expires, ..
            }) if *expires <= was.expires => Some((*expires, *other)),
            Some(Slot::Quarantined(quarantined)) if *quarantined == id => None,
            Some(Slot::Failed(failed, _)) if *failed < id => None,
            Some(_) => {
                slots.forgotten.push(entry_of(id));
                return;
            }
            None => None,
        };
        if let Some(older) = older {
            slots.order.remove(&older);
            slots.forgotten.push(entry_of(older.1));
        }
        slots.remember(place, id, Arc::new(was.answer), was.expires);
    }

    /// Takes the forgotten entries that are still in the journal. The caller deletes them there.
    pub(crate) fn take_forgotten(&self, now: u64) -> Vec<EntryId> {
        let mut slots = self.slots.lock();
        slots.forget(self.most, now);
        std::mem::take(&mut slots.forgotten)
    }
}

/// Why a fom with an id ended without an answer to remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// It is as if the fom had never been submitted, or the runtime ends.
    Gone,
    /// The fom is still in the journal.
    Stays,
}

impl Slots {
    /// Returns the state of this operation id for a submission.
    pub(crate) fn look(&mut self, place: &Place) -> Seen {
        match self.slots.get_mut(place) {
            None => Seen::Never,
            Some(Slot::Quarantined(_)) => Seen::Quarantined,
            Some(Slot::Rests(id)) => Seen::Rests(*id),
            Some(Slot::Failed(id, answer) | Slot::Ended { id, answer, .. }) => {
                Seen::Ended(*id, Arc::clone(answer))
            }
            Some(Slot::Live { fom, waiting }) => {
                let (tell, told) = oneshot::channel();
                waiting.retain(|waiting| !waiting.is_closed());
                waiting.push(tell);
                Seen::Live(fom.clone(), told)
            }
        }
    }

    /// Notes the first fom with this id.
    pub(crate) fn began(&mut self, place: Place, fom: AnyRef) {
        let waiting = Vec::new();
        self.slots.insert(place, Slot::Live { fom, waiting });
    }

    /// Forgets a remembered outcome for a live fom. The fom was submitted after the outcome was forgotten, but the
    /// journal still had the outcome.
    fn forget_ended(&mut self, place: &Place) {
        if let Some(Slot::Ended { id, expires, .. }) = self.slots.get(place) {
            let (id, expires) = (*id, *expires);
            self.order.remove(&(expires, id));
            self.slots.remove(place);
            self.forgotten.push(entry_of(id));
        }
    }

    fn remember(&mut self, place: Place, id: FomId, answer: Arc<Stored>, expires: u64) {
        self.order.insert((expires, id), Some(place.clone()));
        let slot = Slot::Ended {
            id,
            answer,
            expires,
        };
        self.slots.insert(place, slot);
    }

    /// Forgets expired outcomes, and the oldest outcomes above the limit.
    fn forget(&mut self, most: usize, now: u64) {
        while let Some(first) = self.order.first_entry() {
            if first.key().0 > now && self.order.len() <= most {
                return;
            }
            let Some(((_, id), place)) = self.order.pop_first() else {
                return;
            };
            if let Some(place) = place {
                self.slots.remove(&place);
                self.slots.shrink();
            }
            self.forgotten.push(entry_of(id));
        }
    }
}
