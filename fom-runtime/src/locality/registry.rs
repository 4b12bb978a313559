//! All foms of one locality that have not ended: ready, running, waiting and blocked ones alike.

use std::sync::Arc;

use slab::Slab;

use crate::{
    fom::AnyFom,
    sync::{Mutex, atomic::Ordering},
};

/// Behind a lock of its own and not in the core, so that a listing never waits for a fom that does not come back.
#[derive(Default)]
pub(crate) struct Registry(Mutex<Slab<Arc<dyn AnyFom>>>);

impl Registry {
    pub(crate) fn insert(&self, fom: Arc<dyn AnyFom>) {
        let mut foms = self.0.lock();
        let slot = foms.vacant_entry();
        fom.header().slot().store(slot.key(), Ordering::Relaxed);
        slot.insert(fom);
    }

    pub(crate) fn remove(&self, slot: usize) {
        let fom = self.0.lock().try_remove(slot);
        drop(fom);
    }

    pub(crate) fn all(&self) -> Vec<Arc<dyn AnyFom>> {
        self.0
            .lock()
            .iter()
            .map(|(_, fom)| Arc::clone(fom))
            .collect()
    }
}
