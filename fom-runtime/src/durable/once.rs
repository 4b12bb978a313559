//! Operation ids: a submission with an id that was seen before runs nothing, and gets the answer of the first.
//!
//! What is remembered of an operation that ended is bounded in number and in time. With a journal it is an entry: it takes the
//! place of the fom's own in the group that ends the fom, so there is always one of the two. An entry whose time has passed is
//! deleted with the next batch that comes along.

use std::{
    any::{Any, TypeId},
    collections::{BTreeMap, HashMap},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use fom_journal::{EntryId, JournalError};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::{
    Ended, Snapshot,
    durable::{
        entry_of,
        record::{Kind, stored_key},
    },
    error::{BoxError, Cause, Failure, RestoreError},
    fom::{AnyRef, Outcome, panic_message},
    id::{FomId, Key},
    operation::Operation,
    shrink::Shrink as _,
    snapshot,
    sync::{Mutex, MutexGuard},
};

/// An operation type and an id that its user gave: what runs once.
pub(crate) type Place = (TypeId, Key);

/// How an operation comes out of a snapshot. A value, so that only who submits with an id must know that it can be saved.
pub(crate) type Open<O> = fn(&Snapshot) -> Result<(O, <O as Operation>::Phase), RestoreError>;

/// What a fom has beside it that was submitted with an id.
pub(crate) struct Once {
    pub(crate) id: Key,
    /// Its answer, once that is on its way into the journal, and until when it is to be remembered.
    answer: Mutex<Option<(Stored, u64)>>,
}

/// How an operation ended, as it is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// In an end phase.
    Ended(Snapshot),
    /// In the standard failed outcome.
    Failed { cause: String, phase: String },
}

/// What those are told who wait for the end of a fom that somebody else submitted. Nothing: there will be no end.
pub(crate) type Told = Result<Arc<Stored>, JournalError>;

/// What an operation comes to that was submitted before.
enum Slot {
    /// It is in flight.
    Live {
        fom: AnyRef,
        waiting: Vec<oneshot::Sender<Told>>,
    },
    /// It is in the journal and cannot go on for now.
    Aside(FomId),
    /// It came back and rests.
    Rests(FomId),
    Ended {
        id: FomId,
        answer: Arc<Stored>,
        expires: u64,
    },
}

/// What a submission with an id comes to.
pub(crate) enum Seen {
    /// It is the first.
    Never,
    Live(AnyRef, oneshot::Receiver<Told>),
    Aside,
    Rests(FomId),
    Ended(FomId, Arc<Stored>),
}

/// All operation ids of one runtime.
pub(crate) struct Memory {
    most: usize,
    time: u64,
    slots: Mutex<Slots>,
}

#[derive(Default)]
pub(crate) struct Slots {
    slots: HashMap<Place, Slot>,
    /// Those that ended, in the order in which they are forgotten; none: of a type that this program does not have.
    order: BTreeMap<(u64, FomId), Option<Place>>,
    /// Forgotten, and still in the journal.
    forgotten: Vec<EntryId>,
}

impl Once {
    pub(crate) fn new(id: Key) -> Box<Self> {
        Box::new(Self {
            id,
            answer: Mutex::default(),
        })
    }

    /// The entry that takes the place of the fom's.
    pub(crate) fn encode<O: Operation>(&self, answer: Stored, expires: u64, out: &mut Vec<u8>) {
        out.push(Kind::Outcome as u8);
        let entry = Entry {
            machine: O::GRAPH.name().to_owned(),
            operation: O::GRAPH.operation().to_owned(),
            id: Some(self.id.clone()),
            expires,
            failed: match &answer {
                Stored::Failed { cause, phase } => Some((cause.clone(), phase.clone())),
                Stored::Ended(_) => None,
            },
        };
        // Names and numbers: there is nothing in it that could fail.
        let _ = rmp_serde::encode::write(out, &entry);
        if let Stored::Ended(snapshot) = &answer {
            out.extend_from_slice(snapshot.as_bytes());
        }
        *self.answer.lock() = Some((answer, expires));
    }

    /// What [`encode`](Self::encode) wrote down.
    pub(crate) fn take(&self) -> Option<(Stored, u64)> {
        self.answer.lock().take()
    }
}

/// As it stands in the journal; a snapshot of the end comes behind it.
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

/// An outcome out of the journal.
pub(crate) struct Remembered {
    pub(crate) machine: String,
    pub(crate) operation: String,
    id: Key,
    expires: u64,
    answer: Stored,
}

/// Reads what [`Once::encode`] wrote, behind the byte that says what it is.
pub(crate) fn decode_outcome(bytes: &[u8]) -> Result<Remembered, RestoreError> {
    let (entry, rest): (Entry, _) = snapshot::leading(bytes).map_err(|_| RestoreError::Damaged)?;
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
    /// How an operation is remembered that ended like this. What is the user's in it may panic.
    pub(crate) fn ended<O: Operation>(operation: &O, phase: &O::Phase) -> Result<Self, String> {
        let Some(codec) = O::CODEC else {
            return Err("its machine is transient".to_owned());
        };
        let save = || (codec.save)(operation, phase, crate::snapshot::Meta::default());
        match catch_unwind(AssertUnwindSafe(save)) {
            Ok(Ok(snapshot)) => Ok(Self::Ended(snapshot)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(panic) => Err(format!("it panicked: {}", panic_message(panic))),
        }
    }

    pub(crate) fn failed<O: Operation>(cause: &Cause<O::Error>, phase: &str) -> Self {
        Self::Failed {
            cause: describe::<O>(cause),
            phase: phase.to_owned(),
        }
    }

    /// The outcome once more, with values of its own.
    pub(crate) fn outcome<O: Operation>(&self, open: Open<O>) -> Outcome<O> {
        let failed = |cause, phase: &str| {
            let phase = O::GRAPH.find_ever(phase);
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
                return Ok(Ended {
                    phase,
                    operation,
                    untaken: Vec::new(),
                });
            }
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("it panicked: {}", panic_message(panic)),
        };
        failed(Cause::Unread { why }, "")
    }
}

/// A cause as text.
fn describe<O: Operation>(cause: &Cause<O::Error>) -> String {
    let Cause::Error(original) = cause else {
        return cause.text();
    };
    let error: &dyn Any = original;
    let text = || match error.downcast_ref::<BoxError>() {
        Some(error) => error.to_string(),
        None => (O::DESCRIBE)(original),
    };
    // What puts it into words is the user's.
    catch_unwind(AssertUnwindSafe(text)).unwrap_or_else(panic_message)
}

impl Memory {
    pub(crate) fn new(most: usize, time: u64) -> Self {
        Self {
            most,
            time,
            slots: Mutex::default(),
        }
    }

    /// Until when an outcome of now is to be remembered.
    pub(crate) fn expiry(&self, now: u64) -> u64 {
        now.saturating_add(self.time)
    }

    /// Nobody else submits with an id as long as this is held.
    pub(crate) fn lock(&self, now: u64) -> MutexGuard<'_, Slots> {
        let mut slots = self.slots.lock();
        slots.forget(usize::MAX, now);
        slots
    }

    /// The fom with this id has ended: what those are to be told who wait for it. No answer: there is none in this run.
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
                slots.slots.insert(place.clone(), Slot::Aside(id));
            }
            Err(NoAnswer::Gone) => {}
        }
        drop(slots);
        match before {
            Some(Slot::Live { waiting, .. }) => waiting,
            _ => Vec::new(),
        }
    }

    /// A fom with an id came back. False: the id has another one that is in flight.
    pub(crate) fn back(&self, place: Place, fom: AnyRef) -> bool {
        let mut slots = self.slots.lock();
        if let Some(Slot::Live { .. }) = slots.slots.get(&place) {
            return false;
        }
        slots.forget_ended(&place);
        slots.began(place, fom);
        true
    }

    /// A fom with an id came back, and rests.
    pub(crate) fn rests(&self, place: Place, id: FomId) {
        let mut slots = self.slots.lock();
        slots.forget_ended(&place);
        slots.slots.entry(place).or_insert(Slot::Rests(id));
    }

    /// A fom with an id is in the journal and cannot go on for now.
    pub(crate) fn aside(&self, place: Place, id: FomId) {
        let mut slots = self.slots.lock();
        let slot = slots.slots.entry(place).or_insert(Slot::Aside(id));
        if let Slot::Rests(_) = slot {
            *slot = Slot::Aside(id);
        }
    }

    /// What was set aside is no longer in the journal.
    pub(crate) fn discarded(&self, id: FomId) {
        let is_it = |slot: &Slot| matches!(slot, Slot::Aside(aside) if *aside == id);
        self.slots.lock().slots.retain(|_, slot| !is_it(slot));
    }

    /// An outcome out of the journal; `of` is its type, if this program has it.
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
            Some(Slot::Aside(aside)) if *aside == id => None,
            Some(_) => {
                slots.forgotten.push(entry_of(id.get()));
                return;
            }
            None => None,
        };
        if let Some(older) = older {
            slots.order.remove(&older);
            slots.forgotten.push(entry_of(older.1.get()));
        }
        slots.remember(place, id, Arc::new(was.answer), was.expires);
    }

    /// What is in the journal and forgotten: to be deleted there.
    pub(crate) fn take_forgotten(&self, now: u64) -> Vec<EntryId> {
        let mut slots = self.slots.lock();
        slots.forget(self.most, now);
        std::mem::take(&mut slots.forgotten)
    }
}

/// Why a fom with an id ended without an answer to remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// It is as if it had never been submitted, or the runtime ends.
    Gone,
    /// It is still in the journal.
    Stays,
}

impl Slots {
    /// What a submission with this id comes to.
    pub(crate) fn look(&mut self, place: &Place) -> Seen {
        match self.slots.get_mut(place) {
            None => Seen::Never,
            Some(Slot::Aside(_)) => Seen::Aside,
            Some(Slot::Rests(id)) => Seen::Rests(*id),
            Some(Slot::Ended { id, answer, .. }) => Seen::Ended(*id, Arc::clone(answer)),
            Some(Slot::Live { fom, waiting }) => {
                let (tell, told) = oneshot::channel();
                waiting.retain(|waiting| !waiting.is_closed());
                waiting.push(tell);
                Seen::Live(fom.clone(), told)
            }
        }
    }

    /// The first fom with this id is made.
    pub(crate) fn began(&mut self, place: Place, fom: AnyRef) {
        let waiting = Vec::new();
        self.slots.insert(place, Slot::Live { fom, waiting });
    }

    /// A fom that has not ended was submitted after what is remembered was forgotten, and that had not come into the journal.
    fn forget_ended(&mut self, place: &Place) {
        if let Some(Slot::Ended { id, expires, .. }) = self.slots.get(place) {
            let (id, expires) = (*id, *expires);
            self.order.remove(&(expires, id));
            self.slots.remove(place);
            self.forgotten.push(entry_of(id.get()));
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

    /// Forgets what has expired, and the oldest of what is too much.
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
            self.forgotten.push(entry_of(id.get()));
        }
    }
}
