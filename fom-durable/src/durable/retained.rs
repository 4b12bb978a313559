//! What the journal keeps for a while after it is done: the outcomes of operations, and the ids of durable sends. All of
//! it is limited in number and in time.
//!
//! Each kind has a limit of its own, so that many outcomes of one type drop none of another.

use std::{
    any::TypeId,
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use fom_journal::EntryId;

use crate::{
    durable::{
        idempotency::{Place, Stored},
        sent::SentPlace,
    },
    entry::entry_of,
};
use fom_protocol::shrink::Shrink as _;
use fom_runtime::{FomId, Key};

/// The most entries, and the time for which each is kept, in nanoseconds.
pub(crate) type Bound = (usize, u64);

/// How much is kept.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// The outcomes of operations with an id, and the ids of durable sends: the bound of each of the two.
    pub(crate) identified: Bound,
    /// The outcomes of the types of which all are kept.
    pub(crate) types: HashMap<TypeId, Bound>,
}

impl Bounds {
    /// Whether the outcomes of all operations of this type are kept.
    #[inline]
    pub(crate) fn keep_all(&self, of: TypeId) -> bool {
        !self.types.is_empty() && self.types.contains_key(&of)
    }

    /// Returns until when an outcome of this type is kept.
    pub(crate) fn expiry(&self, of: TypeId, now: u64) -> u64 {
        let (_, time) = self.types.get(&of).unwrap_or(&self.identified);
        now.saturating_add(*time)
    }

    /// Returns until when the id of a durable send is kept.
    pub(crate) fn sent_expiry(&self, now: u64) -> u64 {
        now.saturating_add(self.identified.1)
    }

    fn class(&self, what: &What) -> Class {
        match what {
            What::Sent(Some(_)) => Class::Sent,
            What::Sent(None) | What::Outcome(Ended { of: None, .. }) => Class::Unknown,
            What::Outcome(Ended { of: Some(of), .. }) if self.keep_all(*of) => Class::All(*of),
            What::Outcome(_) => Class::Identified,
        }
    }

    fn most(&self, class: Class) -> usize {
        match class {
            Class::Identified | Class::Sent => self.identified.0,
            Class::All(of) => self.types.get(&of).map_or(0, |bound| bound.0),
            // No more are added before a release has the type again.
            Class::Unknown => usize::MAX,
        }
    }
}

/// What is limited together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Class {
    /// Outcomes of operations with an id, of types of which not all are kept.
    Identified,
    /// Outcomes of one type.
    All(TypeId),
    /// Ids of durable sends.
    Sent,
    /// Entries about types that this program does not have.
    Unknown,
}

/// How an operation ended.
pub(crate) struct Ended {
    /// The type, if this program has it.
    pub(crate) of: Option<TypeId>,
    pub(crate) machine: Cow<'static, str>,
    pub(crate) operation: Cow<'static, str>,
    pub(crate) once: Option<Key>,
    pub(crate) key: Option<Key>,
    /// When it ended, in the time of the journal.
    pub(crate) at: u64,
    pub(crate) answer: Arc<Stored>,
}

impl Ended {
    /// Returns the type and the operation id.
    pub(crate) fn place(&self) -> Option<Place> {
        Some((self.of?, self.once.clone()?))
    }

    fn keyed(&self) -> Option<Place> {
        Some((self.of?, self.key.clone()?))
    }
}

pub(crate) enum What {
    Outcome(Ended),
    /// An event that was sent once; `None` if this program does not have the type of its receiver.
    Sent(Option<SentPlace>),
}

struct Kept {
    what: What,
    class: Class,
    expires: u64,
}

#[derive(Default)]
pub(crate) struct Retained {
    all: BTreeMap<FomId, Kept>,
    /// The outcomes by key, the newest last.
    keys: HashMap<Place, BTreeSet<(u64, FomId)>>,
    /// Each class in the order in which it is forgotten.
    order: HashMap<Class, BTreeSet<(u64, FomId)>>,
    /// Entries that are forgotten, and still in the journal.
    forgotten: Vec<EntryId>,
    /// The number of outcomes that were forgotten because there were too many.
    dropped: u64,
}

impl Retained {
    /// Adds an entry. It replaces an earlier one with this id.
    pub(crate) fn add(&mut self, id: FomId, what: What, expires: u64, bounds: &Bounds) {
        self.take(id);
        let class = bounds.class(&what);
        if let What::Outcome(ended) = &what
            && let Some(keyed) = ended.keyed()
        {
            self.keys.entry(keyed).or_default().insert((ended.at, id));
        }
        self.order.entry(class).or_default().insert((expires, id));
        let kept = Kept {
            what,
            class,
            expires,
        };
        self.all.insert(id, kept);
    }

    /// Keeps an entry in the journal for as long as it takes, without a limit.
    pub(crate) fn keep(&mut self, id: FomId) {
        self.take(id);
    }

    /// Removes an entry here, and later from the journal.
    pub(crate) fn forget(&mut self, id: FomId) -> Option<What> {
        let what = self.take(id)?;
        self.forgotten.push(entry_of(id));
        Some(what)
    }

    /// Notes an entry of the journal that is not added, and is no longer needed.
    pub(crate) fn forget_entry(&mut self, id: FomId) {
        self.forgotten.push(entry_of(id));
    }

    fn take(&mut self, id: FomId) -> Option<What> {
        let kept = self.all.remove(&id)?;
        if let Some(order) = self.order.get_mut(&kept.class) {
            order.remove(&(kept.expires, id));
        }
        if let What::Outcome(ended) = &kept.what
            && let Some(keyed) = ended.keyed()
            && let Some(with_key) = self.keys.get_mut(&keyed)
        {
            with_key.remove(&(ended.at, id));
            if with_key.is_empty() {
                self.keys.remove(&keyed);
                self.keys.shrink();
            }
        }
        Some(kept.what)
    }

    /// Returns the next entry that has expired. With `bounds`, also the next one above a limit.
    pub(crate) fn forget_next(
        &mut self,
        bounds: Option<&Bounds>,
        now: u64,
    ) -> Option<(FomId, What)> {
        let next = self.order.iter().find_map(|(class, order)| {
            let (expires, id) = *order.first()?;
            let is_old = expires <= now;
            let is_above = bounds.is_some_and(|bounds| order.len() > bounds.most(*class));
            (is_old || is_above).then_some((id, !is_old))
        });
        let (id, dropped) = next?;
        let what = self.forget(id)?;
        if dropped && matches!(what, What::Outcome(_)) {
            self.dropped += 1;
        }
        Some((id, what))
    }

    /// Returns how this fom ended.
    pub(crate) fn outcome(&self, id: FomId) -> Option<&Ended> {
        match &self.all.get(&id)?.what {
            What::Outcome(ended) => Some(ended),
            What::Sent(_) => None,
        }
    }

    /// Returns until when this entry is kept.
    pub(crate) fn expires(&self, id: FomId) -> Option<u64> {
        Some(self.all.get(&id)?.expires)
    }

    /// Returns the last fom with this key that has ended.
    pub(crate) fn with_key(&self, of: &Place) -> Option<FomId> {
        self.keys.get(of)?.last().map(|(_, id)| *id)
    }

    /// Returns the outcomes after this id, in the order of their ids.
    pub(crate) fn after(&self, id: Option<FomId>) -> impl Iterator<Item = (FomId, &Ended)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = id.map_or(Unbounded, Excluded);
        let all = self.all.range((from, Unbounded));
        all.filter_map(|(id, kept)| match &kept.what {
            What::Outcome(ended) => Some((*id, ended)),
            What::Sent(_) => None,
        })
    }

    /// Returns the number of outcomes that were forgotten because there were too many.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes the forgotten entries that are still in the journal.
    pub(crate) fn take_forgotten(&mut self) -> Vec<EntryId> {
        std::mem::take(&mut self.forgotten)
    }
}
