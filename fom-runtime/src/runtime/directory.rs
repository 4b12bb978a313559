//! Foms by key: who has the key of an operation type, and who waits for it.

use std::{
    any::TypeId,
    collections::{HashMap, hash_map},
    hash::{BuildHasher, RandomState},
};

use crate::{
    fom::{AnyRef, Header, Standing},
    id::{FomId, Key},
    operation::Operation,
    protocol::FomState,
    runtime::{
        FomRef,
        keys::{Entry, Order, Place, Turned},
    },
    sync::{Mutex, MutexGuard},
};

/// Locks, so that keys that have nothing to do with each other seldom meet at one.
const SHARDS: usize = 16;

/// A map that is smaller than this keeps its memory.
const SMALL: usize = 1024;

type Keys = HashMap<(TypeId, Key), Entry<AnyRef>>;

pub(crate) struct Directory {
    shards: [Mutex<Keys>; SHARDS],
    hasher: RandomState,
    /// How many may wait for one key.
    most: usize,
}

impl Directory {
    pub(super) fn new(most: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            most,
        }
    }

    fn lock(&self, key: &Key) -> MutexGuard<'_, Keys> {
        self.shards[self.hash(key) as usize % SHARDS].lock()
    }

    /// The hash of a key, for placement too.
    pub(crate) fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key)
    }

    pub(crate) fn find<O: Operation>(&self, key: &Key) -> Option<FomRef<O>> {
        let keys = self.lock(key);
        let entry = keys.get(&(TypeId::of::<O>(), key.clone()))?;
        // Not one that ended, and whose key waits for it to come back.
        let mut live = entry
            .holders()
            .filter(|fom| fom.token.state() != FomState::Finished);
        live.next().and_then(FomRef::of_any)
    }

    /// Gives the key to the fom that `make` makes, or has it wait for it. Nobody else gets in between.
    pub(super) fn enter<O: Operation>(
        &self,
        key: &Key,
        order: Order,
        make: impl FnOnce() -> AnyRef,
    ) -> Result<(), Turned<AnyRef>> {
        let mut keys = self.lock(key);
        let entry = keys.entry((TypeId::of::<O>(), key.clone())).or_default();
        // Whoever turns it away is in there: the entry is not a new one.
        let shed = entry.look(order, self.most)?;
        let fom = make();
        if let Place::Waits(number) = entry.enter(order, fom.clone()) {
            fom.stand(Standing::Waits(number));
        }
        if let Some(shed) = &shed {
            shed.stand(Standing::Shed);
        }
        drop(keys);
        if let Some(shed) = shed {
            shed.wake();
        }
        Ok(())
    }

    /// Gives the key to a fom that comes back, and that `make` makes, unless another one has it.
    pub(super) fn claim_again<O: Operation>(
        &self,
        key: &Key,
        id: FomId,
        make: impl FnOnce() -> AnyRef,
    ) -> bool {
        let mut keys = self.lock(key);
        let entry = keys.entry((TypeId::of::<O>(), key.clone())).or_default();
        let before = if let Some(own) = entry.holder_mut(|fom| fom.id() == id) {
            Some(std::mem::replace(own, make()))
        } else if entry.holders().next().is_some() {
            return false;
        } else {
            entry.put(make(), false);
            None
        };
        drop(keys);
        drop(before);
        true
    }

    /// A fom has ended: the next has its turn.
    pub(crate) fn leave(&self, fom: &Header, key: &Key) {
        let id = fom.id();
        self.change(fom.type_id(), key, |entry| match fom.standing() {
            Standing::Has => entry.give_back(|held| held.id() == id),
            Standing::Waits(number) => entry.give_up(number),
            Standing::Shed => None,
        });
    }

    /// One that kept the key until it would come back does not come back.
    pub(crate) fn remove(&self, of: TypeId, key: &Key, id: FomId) {
        self.change(of, key, |entry| entry.give_back(|held| held.id() == id));
    }

    /// Changes what is known of a key, and gives it to those that may have it then.
    fn change(
        &self,
        of: TypeId,
        key: &Key,
        change: impl FnOnce(&mut Entry<AnyRef>) -> Option<AnyRef>,
    ) {
        let mut keys = self.lock(key);
        let hash_map::Entry::Occupied(mut entry) = keys.entry((of, key.clone())) else {
            return;
        };
        let gone = change(entry.get_mut());
        let mut granted = Granted::default();
        while let Some(next) = entry.get_mut().next() {
            next.stand(Standing::Has);
            granted.put(next);
        }
        let removed = entry.get().is_empty().then(|| entry.remove_entry());
        // What a million keys have needed is not kept for the next thousand.
        if removed.is_some() && keys.capacity() > SMALL && keys.capacity() > 8 * keys.len() {
            let twice = 2 * keys.len();
            keys.shrink_to(twice.max(SMALL));
        }
        drop(keys);
        // The last reference to a fom drops what is the user's.
        drop((gone, removed));
        granted.wake();
    }
}

/// Those that were given a key: one, but for those that share it.
#[derive(Default)]
struct Granted {
    first: Option<AnyRef>,
    others: Vec<AnyRef>,
}

impl Granted {
    fn put(&mut self, fom: AnyRef) {
        if self.first.is_none() {
            self.first = Some(fom);
        } else {
            self.others.push(fom);
        }
    }

    /// Each goes to the tail of its home's run queue: a key never goes before the others there.
    fn wake(self) {
        for fom in self.first.into_iter().chain(self.others) {
            fom.wake();
        }
    }
}
