//! An engine in memory, for tests and simulations.

use std::{collections::BTreeMap, sync::Arc};

use fom_protocol::sync::{Mutex, MutexGuard};

use crate::{
    clock::boot_time,
    cluster_state::ClusterState,
    engine::{Append, Assignment, Beat, Claim, Claimed, Engine, EngineError, Settings, View},
    slot::Slot,
};

/// An engine in the memory of this process, for tests and simulations. Clones are the same engine: nodes that have clones are
/// one cluster.
#[derive(Clone, Debug, Default)]
pub struct MemoryEngine(Arc<Mutex<Content>>);

#[derive(Clone, Debug, Default)]
struct Content {
    state: ClusterState,
    logs: BTreeMap<Slot, Log>,
}

/// The log of a slot.
#[derive(Clone, Debug, Default)]
struct Log {
    last: u64,
    bodies: BTreeMap<u64, Vec<u8>>,
}

impl MemoryEngine {
    /// Returns an engine without a cluster.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a separate engine with a copy of the content, as a backup is.
    pub fn fork(&self) -> Self {
        Self(Arc::new(Mutex::new(self.lock().clone())))
    }

    /// Replaces the content by that of another engine, as a restored backup does.
    pub fn restore(&self, backup: &Self) {
        let content = backup.lock().clone();
        *self.lock() = content;
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock()
    }
}

impl Engine for MemoryEngine {
    fn open(&self, wanted: &Settings) -> Result<Settings, EngineError> {
        Ok(self.lock().state.open(wanted))
    }

    fn beat(&self, me: &Beat<'_>) -> Result<View, EngineError> {
        Ok(self.lock().state.beat(me, boot_time()))
    }

    fn evict(&self, incarnation: &str, beat: u64) -> Result<bool, EngineError> {
        Ok(self.lock().state.evict(incarnation, beat))
    }

    fn claim(&self, claim: &Claim<'_>) -> Result<Option<Claimed>, EngineError> {
        let mut content = self.lock();
        let mut claimed = content.state.claim(claim)?;
        if let Some(claimed) = &mut claimed {
            claimed.last = content.logs.entry(claim.slot).or_default().last;
        }
        Ok(claimed)
    }

    fn commit(&self, appends: &[Append]) -> Result<Vec<bool>, EngineError> {
        let mut content = self.lock();
        let mut done = Vec::new();
        for append in appends {
            let is_owned = content.state.is_owned(append.slot, append.term)?;
            if is_owned {
                content.state.pass(append.slot, append.time)?;
                let log = content.logs.entry(append.slot).or_default();
                for (number, body) in &*append.bodies {
                    log.last = *number;
                    log.bodies.insert(*number, body.clone());
                }
            }
            done.push(is_owned);
        }
        Ok(done)
    }

    fn load(&self, slot: Slot, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, EngineError> {
        /// The most bodies of one answer.
        const PAGE: usize = 1024;
        let mut content = self.lock();
        let log = content.logs.entry(slot).or_default();
        if from > to {
            return Ok(Vec::new());
        }
        let page = log.bodies.range(from..=to).take(PAGE);
        Ok(page.map(|(number, body)| (*number, body.clone())).collect())
    }

    fn ends(&self, slots: u16) -> Result<Vec<u64>, EngineError> {
        let content = self.lock();
        let last = |slot| content.logs.get(&Slot(slot)).map_or(0, |log| log.last);
        Ok((0..slots).map(last).collect())
    }

    fn delete_until(&self, slot: Slot, term: u64, last: u64) -> Result<(), EngineError> {
        let mut content = self.lock();
        if content.state.is_owned(slot, term)? {
            let log = content.logs.entry(slot).or_default();
            log.bodies.retain(|number, _| *number > last);
        }
        Ok(())
    }

    fn note(&self, slot: Slot, term: u64, notes: &[u8]) -> Result<bool, EngineError> {
        self.lock().state.note(slot, term, notes)
    }

    fn assign(&self, assignment: &Assignment) -> Result<Assignment, EngineError> {
        Ok(self.lock().state.assign(assignment))
    }

    fn release(&self, slot: Slot, term: u64) -> Result<(), EngineError> {
        self.lock().state.release(slot, term)
    }

    fn leave(&self, incarnation: &str) -> Result<(), EngineError> {
        self.lock().state.leave(incarnation);
        Ok(())
    }
}
