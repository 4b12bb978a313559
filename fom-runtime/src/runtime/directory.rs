//! Live foms by key: at most one of an operation type for each key.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use crate::{
    id::{FomId, Key},
    operation::Operation,
    protocol::FomState,
    runtime::FomRef,
    sync::Mutex,
};

/// Locks, so that keys that have nothing to do with each other seldom meet at one.
const SHARDS: usize = 16;

type Shard = Mutex<HashMap<(TypeId, Key), Held>>;

/// Which fom has a key: its id, and a `FomRef` of its type.
type Held = (FomId, Box<dyn Any + Send + Sync>);

pub(crate) struct Directory {
    shards: [Shard; SHARDS],
    hasher: RandomState,
}

impl Default for Directory {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Shard::default()),
            hasher: RandomState::new(),
        }
    }
}

impl Directory {
    fn shard(&self, key: &Key) -> &Shard {
        &self.shards[self.hash(key) as usize % SHARDS]
    }

    /// The hash of a key, for placement too.
    pub(crate) fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key)
    }

    pub(crate) fn find<O: Operation>(&self, key: &Key) -> Option<FomRef<O>> {
        let shard = self.shard(key).lock();
        shard
            .get(&(TypeId::of::<O>(), key.clone()))?
            .1
            .downcast_ref::<FomRef<O>>()
            // One that ended, and whose key waits for it to come back.
            .filter(|fom| fom.state() != FomState::Finished)
            .cloned()
    }

    /// Gives the key to the fom that `make` makes, unless a live one has it, or it waits for one that is to come back: `back` is the
    /// one that does. Nobody else gets in between.
    pub(crate) fn claim<O: Operation>(
        &self,
        key: &Key,
        back: Option<FomId>,
        make: impl FnOnce() -> FomRef<O>,
    ) -> Result<FomRef<O>, FomRef<O>> {
        let mut shard = self.shard(key).lock();
        let place = (TypeId::of::<O>(), key.clone());
        if let Some(live) = shard
            .get(&place)
            .filter(|held| Some(held.0) != back)
            .and_then(|held| held.1.downcast_ref::<FomRef<O>>())
        {
            return Err(live.clone());
        }
        let fom = make();
        let before = shard.insert(place, (fom.id(), Box::new(fom.clone())));
        drop(shard);
        drop(before);
        Ok(fom)
    }

    pub(crate) fn remove(&self, of: TypeId, key: &Key, id: FomId) {
        let mut shard = self.shard(key).lock();
        let place = (of, key.clone());
        let held = shard
            .get(&place)
            .is_some_and(|held| held.0 == id)
            .then(|| shard.remove(&place));
        drop(shard);
        drop(held);
    }
}
