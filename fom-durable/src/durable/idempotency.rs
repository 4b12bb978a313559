//! Operation ids, and how operations ended. A submission with a known id runs nothing, and gets the answer of the first
//! submission with this id.
//!
//! The remembered outcomes are limited in number and in time; see [`retained`](super::retained). With a journal, an
//! outcome is an entry. The group that ends the fom replaces the fom's entry by the outcome, so there is always one of
//! the two. An expired entry is deleted with the next batch.

use std::{
    any::TypeId,
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use fom_journal::EntryId;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::durable::{
    reading::SavedOutcome,
    record::{Kind, stored_key},
    retained::{Bounds, Ended, Retained, What},
    sent::SentSlots,
};
use fom_protocol::{
    panic_message,
    shrink::Shrink as _,
    sync::{Mutex, MutexGuard},
};
use fom_runtime::{
    __durability::{self as seam, AnyRef, FailedAs, Header, Outcome},
    Cause, Failure, FomId, Key, Operation,
    error::DurabilityError,
    machine::Graph,
    snapshot::{RestoreError, Snapshot},
};

/// An operation type and an operation id. An operation with both runs once.
pub(crate) type Place = (TypeId, Key);

/// Reads an operation from a snapshot. A function value, so that only submissions with an id need to know that the
/// operation can be saved.
pub(crate) type Open<O> = fn(&Snapshot) -> Result<(O, <O as Operation>::Phase), RestoreError>;

/// The state beside a fom with an outcome that is remembered.
pub(crate) struct Remembering {
    /// The operation id, if the fom was submitted with one.
    pub(crate) id: Option<Key>,
    /// The answer, once it is on its way into the journal.
    answer: Mutex<Option<Answered>>,
}

/// How an operation ended, as it is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// The operation ended in an end phase.
    Ended(Snapshot),
    /// The operation ended in the standard failed outcome.
    Failed { cause: String, phase: String },
}

/// The answer for callers that wait for the end of a fom that another caller submitted. A drop without an answer means
/// that there will be no end.
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
    /// The outcome is remembered.
    Ended(FomId),
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

/// All operation ids of one runtime, its remembered outcomes, and the ids of durable sends.
pub(crate) struct IdempotencyStore {
    bounds: Bounds,
    slots: Mutex<Slots>,
}

#[derive(Default)]
pub(crate) struct Slots {
    slots: HashMap<Place, Slot>,
    pub(super) retained: Retained,
    pub(super) sent: SentSlots,
}

/// How a fom ended, in the time of the journal.
pub(crate) struct Answered {
    pub(crate) answer: Arc<Stored>,
    pub(crate) expires: u64,
    /// When the fom ended.
    pub(crate) at: u64,
}

impl Remembering {
    pub(crate) fn new(id: Option<Key>) -> Box<Self> {
        Box::new(Self {
            id,
            answer: Mutex::default(),
        })
    }

    /// Writes the entry that replaces the fom's entry.
    pub(super) fn encode(
        &self,
        graph: &Graph,
        (key, series): (Option<&Key>, Option<&Key>),
        answered: Answered,
        out: &mut Vec<u8>,
    ) {
        out.push(Kind::Outcome as u8);
        let entry = Entry {
            machine: graph.name().to_owned(),
            operation: graph.operation().to_owned(),
            id: self.id.clone(),
            expires: answered.expires,
            at: answered.at,
            key: key.cloned(),
            series: series.cloned(),
            failed: match &*answered.answer {
                Stored::Failed { cause, phase } => Some((cause.clone(), phase.clone())),
                Stored::Ended(_) => None,
            },
        };
        // Names and numbers cannot fail to encode.
        let _ = rmp_serde::encode::write(out, &entry);
        if let Stored::Ended(snapshot) = &*answered.answer {
            out.extend_from_slice(snapshot.as_bytes());
        }
        *self.answer.lock() = Some(answered);
    }

    /// Takes what [`encode`](Self::encode) wrote.
    pub(crate) fn take(&self) -> Option<Answered> {
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
    #[serde(default)]
    at: u64,
    #[serde(default, with = "stored_key")]
    key: Option<Key>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "stored_key")]
    series: Option<Key>,
}

/// An outcome from the journal.
pub(crate) struct Remembered {
    pub(crate) machine: String,
    pub(crate) operation: String,
    pub(super) id: Option<Key>,
    key: Option<Key>,
    at: u64,
    expires: u64,
    answer: Stored,
}

impl Remembered {
    /// Returns what a reader of the journal sees.
    pub(super) fn shown(self) -> SavedOutcome {
        SavedOutcome {
            operation: self.operation,
            machine: self.machine,
            key: self.key,
            once: self.id,
            at: Duration::from_nanos(self.at),
            expires: Duration::from_nanos(self.expires),
            end: match self.answer {
                Stored::Ended(snapshot) => Ok(snapshot),
                Stored::Failed { cause, phase } => Err((cause, phase)),
            },
            secrets: Arc::default(),
        }
    }
}

/// Reads what [`Remembering::encode`] wrote, without the first byte.
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
        id: entry.id,
        key: entry.key,
        at: entry.at,
        expires: entry.expires,
        answer,
    })
}

/// Returns an outcome's entry with another operation id. `bytes` is the entry without the first byte; `name` gets the key, the series
/// and the operation id.
pub(super) fn rename_outcome(
    bytes: &[u8],
    name: impl FnOnce(Option<Key>, Option<Key>, Option<Key>) -> Option<Key>,
) -> Result<Vec<u8>, RestoreError> {
    let (mut entry, rest): (Entry, _) = seam::leading(bytes).map_err(|_| RestoreError::Damaged)?;
    entry.id = name(entry.key.clone(), entry.series.clone(), entry.id);
    let mut out = vec![Kind::Outcome as u8];
    // Names and numbers cannot fail to encode.
    let _ = rmp_serde::encode::write(&mut out, &entry);
    out.extend_from_slice(rest);
    Ok(out)
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
        let start = O::kind(&O::start());
        let snapshot = match self {
            Self::Failed { cause, phase } => {
                let mut cause = cause.clone();
                let kind = seam::kind_ever::<O>(phase).unwrap_or_else(|| {
                    cause.push_str(&format!(
                        " (in phase `{phase}`, which is no phase any more)"
                    ));
                    start
                });
                return Err(Failure::new(Cause::Remembered { cause }, kind, None));
            }
            Self::Ended(snapshot) => snapshot,
        };
        let why = match catch_unwind(AssertUnwindSafe(|| open(snapshot))) {
            Ok(Ok((operation, phase))) => match seam::ended(operation, phase) {
                Ok(ended) => return Ok(ended),
                Err(phase) => format!("it ended in phase `{phase}`, which is no end any more"),
            },
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("it panicked: {}", panic_message(panic)),
        };
        Err(Failure::new(Cause::Unread { why }, start, None))
    }
}

impl IdempotencyStore {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            slots: Mutex::default(),
        }
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Returns what is beside a new fom of this type, if its outcome is remembered.
    #[inline]
    pub(crate) fn remembering(&self, of: TypeId, id: Option<Key>) -> Option<Box<Remembering>> {
        (id.is_some() || self.bounds.keep_all(of)).then(|| Remembering::new(id))
    }

    /// Locks the slots. No other caller submits with an id while the guard is held.
    pub(crate) fn lock(&self, now: u64) -> MutexGuard<'_, Slots> {
        let mut slots = self.slots.lock();
        slots.forget(None, now);
        slots
    }

    /// Ends a fom. Returns the callers that wait for its answer. With a [`NoAnswer`], there is no answer in this run.
    pub(crate) fn ended(
        &self,
        fom: &Header,
        once: Option<&Key>,
        answer: Result<Answered, NoAnswer>,
        now: u64,
    ) -> Vec<oneshot::Sender<Told>> {
        let (of, id) = (fom.type_id(), fom.id());
        let mut slots = self.slots.lock();
        let mut before = None;
        if let Some(once) = once {
            let place = (of, once.clone());
            before = match slots.slots.get(&place) {
                Some(Slot::Live { fom, .. }) if fom.id() == id => slots.slots.remove(&place),
                _ => return Vec::new(),
            };
            slots.slots.shrink();
            if let Err(NoAnswer::Stays) = answer {
                slots.slots.insert(place, Slot::Quarantined(id));
            }
        }
        if let Ok(answered) = answer {
            let ended = Ended {
                of: Some(of),
                machine: fom.graph().name().into(),
                operation: fom.graph().operation().into(),
                once: once.cloned(),
                key: fom.key().cloned(),
                at: answered.at,
                answer: answered.answer,
            };
            slots.remember(id, ended, answered.expires, &self.bounds);
            slots.forget(Some(&self.bounds), now);
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
        // The journal may still have a failed fom, although its id was free again.
        let is_taken = match slots.slots.get(&place) {
            Some(Slot::Live { fom, .. }) => fom.id() != id,
            Some(Slot::Rests(other) | Slot::Ended(other)) => *other > id,
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

    /// Notes that a failed fom was dropped from the quarantine. From then on its answer is remembered as the answer of any
    /// other fom is.
    pub(crate) fn dropped(&self, id: FomId, ended: Ended, expires: u64) {
        let mut slots = self.slots.lock();
        let is_it = match ended.place().map(|place| slots.slots.get(&place)) {
            None => true,
            Some(Some(Slot::Failed(failed, _))) => *failed == id,
            Some(_) => false,
        };
        if is_it {
            slots.remember(id, ended, expires, &self.bounds);
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
    pub(crate) fn recovered(
        &self,
        id: FomId,
        of: Option<(TypeId, &'static Graph)>,
        was: Remembered,
    ) {
        let mut slots = self.slots.lock();
        let ended = Ended {
            of: of.map(|(of, _)| of),
            machine: of.map_or(was.machine.into(), |(_, graph)| graph.name().into()),
            operation: of.map_or(was.operation.into(), |(_, graph)| graph.operation().into()),
            once: was.id,
            key: was.key,
            at: was.at,
            answer: Arc::new(was.answer),
        };
        if let Some(place) = ended.place() {
            let older = match slots.slots.get(&place) {
                Some(Slot::Ended(other)) if slots.retained.expires(*other) <= Some(was.expires) => {
                    Some(*other)
                }
                Some(Slot::Quarantined(quarantined)) if *quarantined == id => None,
                Some(Slot::Failed(failed, _)) if *failed < id => None,
                Some(_) => {
                    slots.retained.forget_entry(id);
                    return;
                }
                None => None,
            };
            if let Some(older) = older {
                slots.retained.forget(older);
            }
        }
        slots.remember(id, ended, was.expires, &self.bounds);
    }

    /// Takes the forgotten entries that are still in the journal. The caller deletes them there.
    pub(crate) fn take_forgotten(&self, now: u64) -> Vec<EntryId> {
        let mut slots = self.slots.lock();
        slots.forget(Some(&self.bounds), now);
        slots.retained.take_forgotten()
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
            Some(Slot::Failed(id, answer)) => Seen::Ended(*id, Arc::clone(answer)),
            Some(Slot::Ended(id)) => match self.retained.outcome(*id) {
                Some(ended) => Seen::Ended(*id, Arc::clone(&ended.answer)),
                None => Seen::Never,
            },
            Some(Slot::Live { fom, waiting }) => {
                let (tell, told) = oneshot::channel();
                waiting.retain(|waiting| !waiting.is_closed());
                waiting.push(tell);
                Seen::Live(fom.clone(), told)
            }
        }
    }

    /// Returns the fom that has this operation id, or had it.
    pub(crate) fn fom(&self, place: &Place) -> Option<FomId> {
        Some(match self.slots.get(place)? {
            Slot::Live { fom, .. } => fom.id(),
            Slot::Quarantined(id) | Slot::Rests(id) | Slot::Failed(id, _) | Slot::Ended(id) => *id,
        })
    }

    /// Notes the first fom with this id.
    pub(crate) fn began(&mut self, place: Place, fom: AnyRef) {
        let waiting = Vec::new();
        self.slots.insert(place, Slot::Live { fom, waiting });
    }

    /// Forgets a remembered outcome for a live fom. The fom was submitted after the outcome was forgotten, but the
    /// journal still had the outcome.
    fn forget_ended(&mut self, place: &Place) {
        if let Some(Slot::Ended(id)) = self.slots.get(place) {
            self.retained.forget(*id);
            self.slots.remove(place);
        }
    }

    fn remember(&mut self, id: FomId, ended: Ended, expires: u64, bounds: &Bounds) {
        if let Some(place) = ended.place() {
            self.slots.insert(place, Slot::Ended(id));
        }
        self.retained.add(id, What::Outcome(ended), expires, bounds);
    }

    /// Forgets what has expired. With `bounds`, forgets the oldest entries above the limits, too.
    fn forget(&mut self, bounds: Option<&Bounds>, now: u64) {
        while let Some((id, what)) = self.retained.forget_next(bounds, now) {
            match what {
                What::Outcome(ended) => {
                    let place = ended.place();
                    if let Some(place) = place
                        && matches!(self.slots.get(&place), Some(Slot::Ended(ended)) if *ended == id)
                    {
                        self.slots.remove(&place);
                        self.slots.shrink();
                    }
                }
                What::Sent(place) => {
                    let event = place.and_then(|place| self.sent.forget(&place));
                    if let Some(event) = event {
                        self.retained.forget_entry(event);
                    }
                }
            }
        }
    }
}
