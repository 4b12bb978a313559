//! How operations ended: a program looks one up, or lists them.

use std::{any::TypeId, fmt, sync::Arc, time::Duration};

use crate::durable::{
    Address, Durable, Place, Stored,
    quarantine::{Stays, is_of},
};
use fom_runtime::{
    __durability::{self as seam, KeyOf, Shared},
    Failure, FomId, Key, Operation, Persistent,
    snapshot::{QuarantineKind, Quarantined},
    submission::Ended,
};

/// What is known of an operation; see [`DurableExt::outcome`](crate::DurableExt::outcome).
#[non_exhaustive]
pub enum Lookup<O: Operation> {
    /// The operation has not ended. It may rest in the journal.
    InFlight(FomId),
    /// The operation has ended.
    Ended {
        /// The id of its fom.
        id: FomId,
        /// How long ago it ended, in the time of the journal, which goes on while the program does not run.
        age: Duration,
        /// The end phase and the operation, or the failure. A failure has
        /// [`Cause::Remembered`](fom_runtime::Cause::Remembered) and no operation. It has
        /// [`Cause::Unread`](fom_runtime::Cause::Unread) if this release cannot read how the operation ended.
        outcome: Result<Ended<O>, Failure<O>>,
    },
    /// The operation is in the journal, and cannot go on for now; see
    /// [`quarantine`](crate::DurableExt::quarantine).
    Quarantined(FomId),
    /// No operation of this type is known by the address. It was never submitted, its outcome is not remembered, or the
    /// outcome was dropped at a limit.
    Unknown,
    /// The runtime has ended, and knows of no such operation any more. The operation may go on in another process.
    Interrupted,
}

impl<O: Operation> fmt::Debug for Lookup<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InFlight(id) => f.debug_tuple("InFlight").field(id).finish(),
            Self::Ended { id, age, outcome } => f
                .debug_struct("Ended")
                .field("id", id)
                .field("age", age)
                .field("is_ok", &outcome.is_ok())
                .finish(),
            Self::Quarantined(id) => f.debug_tuple("Quarantined").field(id).finish(),
            Self::Unknown => f.write_str("Unknown"),
            Self::Interrupted => f.write_str("Interrupted"),
        }
    }
}

/// The remembered outcomes of a runtime; see [`DurableExt::outcomes`](crate::DurableExt::outcomes).
#[derive(Clone, Copy)]
#[must_use = "this is only a view"]
pub struct Outcomes<'a> {
    shared: &'a Shared,
    of: Option<TypeId>,
}

/// A remembered outcome, as it is listed. `Display` writes one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutcomeInfo {
    /// The id of the fom.
    pub id: FomId,
    /// The operation type.
    pub operation: String,
    /// The machine.
    pub machine: String,
    /// The key that the fom had.
    pub key: Option<Key>,
    /// The operation id that the fom was submitted with.
    pub once: Option<Key>,
    /// The phase in which the operation ended or failed; empty if this release cannot read it.
    pub phase: String,
    /// Why the operation failed, if it failed.
    pub cause: Option<String>,
    /// How long ago the operation ended, in the time of the journal.
    pub age: Duration,
}

impl fmt::Display for OutcomeInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.operation)?;
        if let Some(key) = &self.key {
            write!(f, " {key}")?;
        }
        match &self.cause {
            None => write!(f, " ended in {}", self.phase),
            Some(cause) => write!(f, " failed in {}: {cause}", self.phase),
        }
    }
}

impl fmt::Debug for Outcomes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcomes")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

impl<'a> Outcomes<'a> {
    pub(super) fn of(shared: &'a Shared) -> Self {
        Self { shared, of: None }
    }

    /// Lists only the outcomes of this operation type.
    pub fn of_type<O: Operation>(self) -> Self {
        let of = Some(TypeId::of::<O>());
        Self { of, ..self }
    }

    /// Returns the first outcomes after this id, `most` at the most. Outcomes are in the order of their ids, so the last
    /// id of a page is where the next one begins. Outcomes that are dropped or added between two pages move no other.
    pub fn page(&self, after: Option<FomId>, most: usize) -> Vec<OutcomeInfo> {
        let durable = Durable::of(self.shared);
        let now = durable.journal_now();
        let slots = durable.memory.lock(now);
        let wanted = slots.retained.after(after);
        let wanted = wanted.filter(|(_, ended)| self.of.is_none() || ended.of == self.of);
        let found: Vec<_> = wanted
            .take(most)
            .map(|(id, ended)| {
                let info = OutcomeInfo {
                    id,
                    operation: ended.operation.to_string(),
                    machine: ended.machine.to_string(),
                    key: ended.key.clone(),
                    once: ended.once.clone(),
                    phase: String::new(),
                    cause: None,
                    age: Duration::from_nanos(now.saturating_sub(ended.at)),
                };
                (info, Arc::clone(&ended.answer))
            })
            .collect();
        drop(slots);
        let read = found.into_iter().map(|(info, answer)| match &*answer {
            Stored::Ended(snapshot) => OutcomeInfo {
                phase: snapshot.phase().unwrap_or_default(),
                ..info
            },
            Stored::Failed { cause, phase } => OutcomeInfo {
                phase: phase.clone(),
                cause: Some(cause.clone()),
                ..info
            },
        });
        read.collect()
    }

    /// Returns the number of outcomes.
    pub fn count(&self) -> usize {
        let durable = Durable::of(self.shared);
        let slots = durable.memory.lock(durable.journal_now());
        let all = slots.retained.after(None);
        all.filter(|(_, ended)| self.of.is_none() || ended.of == self.of)
            .count()
    }

    /// Returns how many outcomes, of all types, were dropped since the runtime was built because there were too many.
    pub fn dropped(&self) -> u64 {
        let durable = Durable::of(self.shared);
        let slots = durable.memory.lock(durable.journal_now());
        slots.retained.dropped()
    }
}

/// A fom that a lookup found.
enum Found {
    InFlight(FomId),
    Ended(FomId, u64, Arc<Stored>),
    Quarantined(FomId),
}

impl Durable {
    /// Looks an operation up. Starts nothing, and brings nothing back.
    pub(super) fn lookup<O: Persistent>(&self, shared: &Shared, address: Address) -> Lookup<O> {
        let of = TypeId::of::<O>();
        let found = match address {
            Address::Id(id) => self.found_id::<O>(shared, id),
            Address::Key(key) => self.found_key::<O>(shared, &(of, key)),
            Address::Once(id) => {
                let fom = self.memory.lock(self.journal_now()).fom(&(of, id));
                fom.and_then(|id| self.found_id::<O>(shared, id))
            }
        };
        match found {
            // A runtime that ends forgets the operations that go on in another process.
            None if seam::is_closed(shared) => Lookup::Interrupted,
            None => Lookup::Unknown,
            Some(Found::InFlight(id)) => Lookup::InFlight(id),
            Some(Found::Quarantined(id)) => Lookup::Quarantined(id),
            Some(Found::Ended(id, at, answer)) => Lookup::Ended {
                id,
                age: Duration::from_nanos(self.journal_now().saturating_sub(at)),
                outcome: seam::told(answer.outcome(O::restore)),
            },
        }
    }

    fn found_id<O: Operation>(&self, shared: &Shared, id: FomId) -> Option<Found> {
        let of = TypeId::of::<O>();
        let ended = || found_ended::<O>(self, id);
        let rests =
            || (self.passive.type_of(shared, id) == Some(of)).then_some(Found::InFlight(id));
        let runs = || {
            let fom = seam::find_id(shared, id)?;
            (fom.type_id() == of).then_some(Found::InFlight(id))
        };
        let kept = || {
            let entry = self.quarantine.fom(id)?;
            is_of(&entry, O::GRAPH).then(|| self.quarantined_as(entry))
        };
        // A fom may come back meanwhile, and may end: each is somewhere later before it leaves its place.
        ended()
            .or_else(rests)
            .or_else(runs)
            .or_else(ended)
            .or_else(kept)
    }

    fn found_key<O: Operation>(&self, shared: &Shared, place: &Place) -> Option<Found> {
        let named = KeyOf::key(place.0, place.1.clone());
        if let Some(id) = self.passive.with_key(&named) {
            return Some(Found::InFlight(id));
        }
        // A fom that ends has its key for a while after its outcome is known.
        if let Some(id) = seam::key_holder(shared, &named) {
            let ended = found_ended::<O>(self, id);
            return Some(ended.unwrap_or(Found::InFlight(id)));
        }
        let last = self
            .memory
            .lock(self.journal_now())
            .retained
            .with_key(place);
        let ended = last.and_then(|id| found_ended::<O>(self, id));
        let kept = self.quarantine.last_of(O::GRAPH, &place.1);
        match (ended, kept.map(|entry| self.quarantined_as(entry))) {
            // The last one that ended or failed.
            (Some(Found::Ended(id, at, answer)), Some(Found::Ended(other, failed_at, failure))) => {
                Some(match at > failed_at {
                    true => Found::Ended(id, at, answer),
                    false => Found::Ended(other, failed_at, failure),
                })
            }
            (ended, kept) => kept.or(ended),
        }
    }

    /// Returns how a fom in quarantine is found.
    fn quarantined_as(&self, entry: Quarantined) -> Found {
        let id = entry.id;
        match (entry.kind(), entry.failure) {
            (QuarantineKind::Failed, Some(failure)) if !self.quarantine.is_tried(id) => {
                let phase = entry.phase.unwrap_or_default();
                let cause = failure.cause;
                let answer = Arc::new(Stored::Failed { cause, phase });
                let at = self.quarantine.failed_at(id);
                // It is not listed yet if it fails now.
                Found::Ended(id, at.unwrap_or_else(|| self.journal_now()), answer)
            }
            (QuarantineKind::Failed, None) => Found::InFlight(id),
            _ if self.quarantine.stays(id) == Stays::ComesBack => Found::InFlight(id),
            _ => Found::Quarantined(id),
        }
    }
}

/// Returns the outcome of a fom of this type, if it is known.
fn found_ended<O: Operation>(durable: &Durable, id: FomId) -> Option<Found> {
    let remembered = {
        let slots = durable.memory.lock(durable.journal_now());
        let ended = slots.retained.outcome(id);
        let ended = ended.filter(|ended| ended.of == Some(TypeId::of::<O>()));
        ended.map(|ended| Found::Ended(id, ended.at, Arc::clone(&ended.answer)))
    };
    remembered.or_else(|| {
        let entry = durable.quarantine.just_failed(id)?;
        is_of(&entry, O::GRAPH).then(|| durable.quarantined_as(entry))
    })
}
