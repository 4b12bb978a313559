//! What an engine keeps of a cluster, besides the logs of its slots.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    engine::{Assignment, Beat, Claim, Claimed, EngineError, NodeRow, Settings, SlotRow, View},
    slot::Slot,
};

/// What an engine keeps of a cluster, besides the logs of its slots: the settings, the nodes, the owners, and what operators said.
///
/// The functions do what those of [`Engine`](crate::engine::Engine) promise. An engine that keeps a replicated log of requests
/// applies each request to this value, in the order of the log. All nodes then have the same value: the functions read no clock,
/// and no other state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterState {
    // The name in the texts that an engine may have stored.
    #[serde(rename = "facts")]
    settings: Option<Settings>,
    nodes: BTreeMap<String, NodeRow>,
    slots: Vec<Kept>,
    time: Duration,
    assignment: Assignment,
    /// When a node sent the last heartbeat, by the clock of the engine.
    beaten: Option<Duration>,
}

/// What is kept of a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    row: SlotRow,
    time: Duration,
    notes: Vec<u8>,
}

impl ClusterState {
    /// Creates the cluster, if there is none. Returns its settings.
    pub fn open(&mut self, wanted: &Settings) -> Settings {
        let settings = *self.settings.get_or_insert(*wanted);
        let slots = usize::from(settings.slots);
        self.slots.resize_with(slots, Kept::default);
        settings
    }

    /// Counts a heartbeat, at this time of the engine's clock.
    pub fn beat(&mut self, me: &Beat<'_>, now: Duration) -> View {
        let mut named = self.nodes.values();
        let is_taken = named.any(|row| row.info.name == me.node.name);
        let is_member = match self.nodes.get_mut(me.incarnation) {
            Some(row) => {
                row.beat += 1;
                row.info = me.node.clone();
                true
            }
            None if me.is_first && !is_taken => {
                if self.nodes.is_empty()
                    && let Some(beaten) = self.beaten
                {
                    self.time += now.saturating_sub(beaten);
                }
                let row = NodeRow::new(me.node.clone(), 1);
                self.nodes.insert(me.incarnation.to_owned(), row);
                true
            }
            None => false,
        };
        if is_member {
            self.time = self.time.max(me.time);
            self.beaten = Some(now);
        }
        let slots = self.slots.iter().map(|kept| kept.row.clone()).collect();
        let mut view = View::new(is_member, self.nodes.clone(), slots, self.time);
        view.assignment = self.assignment.clone();
        view
    }

    /// Removes a node that has sent this heartbeat and no later one. Returns whether it was removed.
    pub fn evict(&mut self, incarnation: &str, beat: u64) -> bool {
        let row = self.nodes.get(incarnation);
        let is_dead = row.is_some_and(|row| row.beat == beat);
        if is_dead {
            self.nodes.remove(incarnation);
        }
        is_dead
    }

    /// Claims a slot. The answer has 0 as the number of the last body: that is for the engine to fill in.
    ///
    /// # Errors
    ///
    /// Fails if the cluster has no such slot.
    pub fn claim(&mut self, claim: &Claim<'_>) -> Result<Option<Claimed>, EngineError> {
        let is_member = self.nodes.contains_key(claim.incarnation);
        let owner = self.slot(claim.slot)?.row.owner.clone();
        let is_mine = owner.as_deref() == Some(claim.incarnation);
        let is_free = !owner
            .as_ref()
            .is_some_and(|owner| self.nodes.contains_key(owner));
        let kept = self.slot(claim.slot)?;
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
        let (term, notes) = (kept.row.term, kept.notes.clone());
        Ok(Some(Claimed::new(term, 0, kept.time, dead, notes)))
    }

    /// Returns whether a slot has an owner, with this term.
    ///
    /// # Errors
    ///
    /// Fails if the cluster has no such slot.
    pub fn is_owned(&mut self, slot: Slot, term: u64) -> Result<bool, EngineError> {
        let row = &self.slot(slot)?.row;
        Ok(row.term == term && row.owner.is_some())
    }

    /// Raises the time of a slot to that of a commit.
    ///
    /// # Errors
    ///
    /// Fails if the cluster has no such slot.
    pub fn pass(&mut self, slot: Slot, time: Duration) -> Result<(), EngineError> {
        let kept = self.slot(slot)?;
        kept.time = kept.time.max(time);
        Ok(())
    }

    /// Replaces the notes of a slot, if it has this term. Returns whether it has.
    ///
    /// # Errors
    ///
    /// Fails if the cluster has no such slot.
    pub fn note(&mut self, slot: Slot, term: u64, notes: &[u8]) -> Result<bool, EngineError> {
        let is_owned = self.is_owned(slot, term)?;
        if is_owned {
            self.slot(slot)?.notes = notes.to_vec();
        }
        Ok(is_owned)
    }

    /// Replaces the assignment, if the version of the kept one is one less. Returns the one that is kept after that.
    pub fn assign(&mut self, assignment: &Assignment) -> Assignment {
        if self.assignment.version + 1 == assignment.version {
            self.assignment = assignment.clone();
        }
        self.assignment.clone()
    }

    /// Gives a slot up, if it has this term.
    ///
    /// # Errors
    ///
    /// Fails if the cluster has no such slot.
    pub fn release(&mut self, slot: Slot, term: u64) -> Result<(), EngineError> {
        let kept = self.slot(slot)?;
        if kept.row.term == term {
            kept.row.owner = None;
        }
        Ok(())
    }

    /// Removes a node.
    pub fn leave(&mut self, incarnation: &str) {
        self.nodes.remove(incarnation);
    }

    fn slot(&mut self, slot: Slot) -> Result<&mut Kept, EngineError> {
        let kept = self.slots.get_mut(usize::from(slot.0));
        kept.ok_or_else(|| EngineError::refused(format!("there is no {slot}")))
    }
}
