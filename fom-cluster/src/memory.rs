//! An engine in memory, for tests and simulations.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fom_protocol::sync::{Mutex, MutexGuard};

use crate::{
    clock::boot_time,
    engine::{
        Append, Assignment, Beat, Claim, Claimed, Engine, EngineError, Facts, NodeRow, SlotRow,
        View,
    },
    slot::Slot,
};

/// An engine in the memory of this process, for tests and simulations. Clones are the same engine: nodes that have clones are
/// one cluster.
#[derive(Clone, Debug, Default)]
pub struct MemoryEngine(Arc<Mutex<Content>>);

#[derive(Clone, Debug, Default)]
struct Content {
    facts: Option<Facts>,
    nodes: BTreeMap<String, NodeRow>,
    slots: Vec<Kept>,
    time: Duration,
    assignment: Assignment,
    /// When a node sent the last heartbeat, by the clock of this engine.
    beaten: Option<Duration>,
}

#[derive(Clone, Debug, Default)]
struct Kept {
    row: SlotRow,
    time: Duration,
    notes: Vec<u8>,
    last: u64,
    log: BTreeMap<u64, Vec<u8>>,
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

impl Content {
    fn slot(&mut self, slot: Slot) -> Result<&mut Kept, EngineError> {
        let kept = self.slots.get_mut(usize::from(slot.0));
        kept.ok_or_else(|| EngineError::refused(format!("there is no {slot}")))
    }
}

impl Engine for MemoryEngine {
    fn open(&self, wanted: &Facts) -> Result<Facts, EngineError> {
        let mut content = self.lock();
        let facts = *content.facts.get_or_insert(*wanted);
        let slots = usize::from(facts.slots);
        content.slots.resize_with(slots, Kept::default);
        Ok(facts)
    }

    fn beat(&self, me: &Beat<'_>) -> Result<View, EngineError> {
        let mut content = self.lock();
        let mut named = content.nodes.values();
        let is_taken = named.any(|row| row.info.name == me.node.name);
        let is_member = match content.nodes.get_mut(me.incarnation) {
            Some(row) => {
                row.beat += 1;
                row.info = me.node.clone();
                true
            }
            None if me.is_first && !is_taken => {
                if content.nodes.is_empty()
                    && let Some(beaten) = content.beaten
                {
                    content.time += boot_time().saturating_sub(beaten);
                }
                let row = NodeRow::new(me.node.clone(), 1);
                content.nodes.insert(me.incarnation.to_owned(), row);
                true
            }
            None => false,
        };
        if is_member {
            content.time = content.time.max(me.time);
            content.beaten = Some(boot_time());
        }
        let slots = content.slots.iter().map(|kept| kept.row.clone()).collect();
        let (nodes, time) = (content.nodes.clone(), content.time);
        let mut view = View::new(is_member, nodes, slots, time);
        view.assignment = content.assignment.clone();
        Ok(view)
    }

    fn bury(&self, incarnation: &str, beat: u64) -> Result<bool, EngineError> {
        let mut content = self.lock();
        let row = content.nodes.get(incarnation);
        let is_dead = row.is_some_and(|row| row.beat == beat);
        if is_dead {
            content.nodes.remove(incarnation);
        }
        Ok(is_dead)
    }

    fn claim(&self, claim: &Claim<'_>) -> Result<Option<Claimed>, EngineError> {
        let mut content = self.lock();
        let is_member = content.nodes.contains_key(claim.incarnation);
        let owner = content.slot(claim.slot)?.row.owner.clone();
        let is_mine = owner.as_deref() == Some(claim.incarnation);
        let lives = |owner: &String| content.nodes.contains_key(owner);
        let is_free = !owner.as_ref().is_some_and(lives);
        let kept = content.slot(claim.slot)?;
        let is_claimed = is_mine || is_free && kept.row.term == claim.seen;
        if !is_member || !is_claimed {
            return Ok(None);
        }
        kept.row.term += 1;
        kept.row.owner = Some(claim.incarnation.to_owned());
        kept.time = kept.time.max(claim.time);
        if !is_mine {
            kept.row.since = kept.time;
            kept.row.holds = claim.reads.clone();
        }
        let dead = owner.filter(|_| !is_mine);
        let (term, last, time) = (kept.row.term, kept.last, kept.time);
        Ok(Some(Claimed::new(
            term,
            last,
            time,
            dead,
            kept.notes.clone(),
        )))
    }

    fn commit(&self, appends: &[Append]) -> Result<Vec<bool>, EngineError> {
        let mut content = self.lock();
        let mut done = Vec::new();
        for append in appends {
            let kept = content.slot(append.slot)?;
            let is_owned = kept.row.term == append.term && kept.row.owner.is_some();
            if is_owned {
                kept.time = kept.time.max(append.time);
                for (number, body) in &*append.bodies {
                    kept.last = *number;
                    kept.log.insert(*number, body.clone());
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
        let log = &content.slot(slot)?.log;
        if from > to {
            return Ok(Vec::new());
        }
        let page = log.range(from..=to).take(PAGE);
        Ok(page.map(|(number, body)| (*number, body.clone())).collect())
    }

    fn delete_until(&self, slot: Slot, term: u64, last: u64) -> Result<(), EngineError> {
        let mut content = self.lock();
        let kept = content.slot(slot)?;
        if kept.row.term == term {
            kept.log.retain(|number, _| *number > last);
        }
        Ok(())
    }

    fn note(&self, slot: Slot, term: u64, notes: &[u8]) -> Result<bool, EngineError> {
        let mut content = self.lock();
        let kept = content.slot(slot)?;
        let is_owned = kept.row.term == term && kept.row.owner.is_some();
        if is_owned {
            kept.notes = notes.to_vec();
        }
        Ok(is_owned)
    }

    fn assign(&self, assignment: &Assignment) -> Result<Assignment, EngineError> {
        let kept = &mut self.lock().assignment;
        if kept.version + 1 == assignment.version {
            *kept = assignment.clone();
        }
        Ok(kept.clone())
    }

    fn release(&self, slot: Slot, term: u64) -> Result<(), EngineError> {
        let mut content = self.lock();
        let kept = content.slot(slot)?;
        if kept.row.term == term {
            kept.row.owner = None;
        }
        Ok(())
    }

    fn leave(&self, incarnation: &str) -> Result<(), EngineError> {
        self.lock().nodes.remove(incarnation);
        Ok(())
    }
}
