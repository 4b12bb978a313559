//! What a node knows of itself. Pure: the answers say what the node does next.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fom_runtime::Runtime;

use super::new_incarnation;
use crate::{
    commits::Owned,
    engine::{NodeInfo, View},
    error::ClusterError,
    owners::{newer, owner},
    poison::Noter,
    slot::Slot,
};

/// The most slots that are loaded at once.
const LOADS: usize = 4;
/// No slot moves to a better owner within this time after a change of the members.
const CALM: Duration = Duration::from_secs(10);
/// How long a slot without an owner waits for a node that reads all versions in it. Then the release may have been taken back.
const COMES_BACK: Duration = Duration::from_secs(60);
/// How many former incarnations a node tells.
const SURVIVED: usize = 64;
/// An owner that lives for so long after the deaths of others needs no notes of its runs.
const LIFE: Duration = Duration::from_secs(600);

/// A slot of this node.
pub(crate) enum Held {
    /// It is claimed, and its log is read.
    Loading(Option<Arc<Owned>>),
    Serving(Arc<Owned>, Runtime),
    /// It is given up.
    Leaving(Arc<Owned>),
}

impl Held {
    fn owned(&self) -> Option<&Arc<Owned>> {
        match self {
            Self::Loading(owned) => owned.as_ref(),
            Self::Serving(owned, _) | Self::Leaving(owned) => Some(owned),
        }
    }

    /// Returns what another node has now.
    fn lost(self) -> Option<(Arc<Owned>, Option<Runtime>)> {
        match self {
            Self::Loading(owned) => Some((owned?, None)),
            Self::Serving(owned, runtime) => Some((owned, Some(runtime))),
            Self::Leaving(owned) => Some((owned, None)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Runs,
    /// It gives its slots up.
    Leaves,
    Left,
}

pub(crate) struct State {
    pub(crate) info: NodeInfo,
    pub(crate) incarnation: Arc<str>,
    /// Whether no heartbeat of this incarnation was answered.
    pub(crate) is_first: bool,
    pub(crate) stage: Stage,
    pub(crate) wakes: bool,
    /// The end of all leases of this node.
    until: Duration,
    slots: BTreeMap<Slot, Held>,
    /// What is wrong with a slot, since it was last claimed.
    failed: BTreeMap<Slot, ClusterError>,
    /// The highest term that was seen of each slot.
    terms: Vec<u64>,
    /// The slots with notes, and since when.
    noting: BTreeMap<Slot, (Arc<Noter>, Duration)>,
    /// The slots that no living node owns, and since when this node sees that.
    ownerless: BTreeMap<Slot, Duration>,
    went_back: Option<ClusterError>,
}

impl State {
    pub(crate) fn new(info: NodeInfo) -> Self {
        Self {
            incarnation: new_incarnation(&info.name),
            info,
            is_first: true,
            stage: Stage::Runs,
            wakes: false,
            until: Duration::ZERO,
            slots: BTreeMap::new(),
            failed: BTreeMap::new(),
            terms: Vec::new(),
            noting: BTreeMap::new(),
            ownerless: BTreeMap::new(),
            went_back: None,
        }
    }

    pub(crate) fn beat(&self) -> (Arc<str>, bool, NodeInfo) {
        (
            Arc::clone(&self.incarnation),
            self.is_first,
            self.info.clone(),
        )
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn serving(&self, slot: Slot) -> Option<(Arc<Owned>, Runtime)> {
        match self.slots.get(&slot) {
            Some(Held::Serving(owned, runtime)) => Some((Arc::clone(owned), runtime.clone())),
            _ => None,
        }
    }

    pub(crate) fn served(&self) -> Vec<(Slot, u64)> {
        let served = self.slots.iter().filter_map(|(slot, held)| match held {
            Held::Serving(owned, _) => Some((*slot, owned.term())),
            _ => None,
        });
        served.collect()
    }

    pub(crate) fn troubles(&self) -> Vec<ClusterError> {
        self.went_back
            .iter()
            .chain(self.failed.values())
            .cloned()
            .collect()
    }

    /// Returns the slots that no living node owns, and since when this node sees that.
    pub(crate) fn ownerless(&self) -> &BTreeMap<Slot, Duration> {
        &self.ownerless
    }

    /// Notes the terms, and which slots have no owner.
    pub(crate) fn note(&mut self, view: &View, now: Duration) {
        let lives = |owner: &String| view.nodes.contains_key(owner);
        for (at, row) in view.slots.iter().enumerate() {
            let slot = Slot(at as u16);
            match row.owner.as_ref().is_some_and(lives) {
                true => drop(self.ownerless.remove(&slot)),
                false => drop(self.ownerless.entry(slot).or_insert(now)),
            }
        }
        self.terms.resize(view.slots.len(), 0);
        for (at, row) in view.slots.iter().enumerate() {
            let highest = &mut self.terms[at];
            if row.term < *highest {
                self.went_back.get_or_insert(ClusterError::TermWentBack {
                    slot: Slot(at as u16),
                    found: row.term,
                    seen: *highest,
                });
            }
            *highest = row.term.max(*highest);
        }
        // A process that has survived can die for real, and what it told is gone with it. The others go on to tell it.
        let rows = view.nodes.values();
        for one in rows.flat_map(|row| &row.info.survived) {
            self.has_survived(one);
        }
    }

    /// Notes that the process of an incarnation lived on after it was removed.
    fn has_survived(&mut self, incarnation: &str) {
        let survived = &mut self.info.survived;
        if survived.iter().any(|one| one == incarnation) {
            return;
        }
        survived.push(incarnation.to_owned());
        if survived.len() > SURVIVED {
            survived.remove(0);
        }
    }

    /// Takes an answered heartbeat: all leases hold until then.
    pub(crate) fn confirm(&mut self, until: Duration) {
        self.is_first = false;
        if self.went_back.is_some() {
            return;
        }
        self.until = self.until.max(until);
        for owned in self.slots.values().filter_map(Held::owned) {
            owned.lease.extend(until);
        }
    }

    pub(crate) fn until(&self) -> Duration {
        self.until
    }

    /// Begins a new incarnation, because the node was evicted. Returns the slots that it had.
    pub(crate) fn begin_anew(&mut self) -> Vec<(Arc<Owned>, Option<Runtime>)> {
        let before = std::mem::replace(&mut self.incarnation, new_incarnation(&self.info.name));
        self.has_survived(&before);
        self.is_first = true;
        self.until = Duration::ZERO;
        let slots = std::mem::take(&mut self.slots);
        slots.into_values().filter_map(Held::lost).collect()
    }

    /// Returns the slots that another node has claimed, or that this one has lost in another way.
    pub(crate) fn fenced(&mut self, view: &View) -> Vec<(Arc<Owned>, Option<Runtime>)> {
        let is_lost = |slot: &Slot, held: &Held| {
            let row = view.slots.get(usize::from(slot.0));
            let is_taken = |owned: &Arc<Owned>| {
                let takes = row.is_some_and(|row| {
                    row.term > owned.term() && row.owner.as_deref() != Some(&*self.incarnation)
                });
                takes || owned.lease.is_lost()
            };
            // A slot that is given up ends by itself.
            !matches!(held, Held::Leaving(_)) && held.owned().is_some_and(is_taken)
        };
        let lost = self.slots.iter().filter(|(slot, held)| is_lost(slot, held));
        let lost: Vec<_> = lost.map(|(slot, _)| *slot).collect();
        let lost = lost.into_iter().filter_map(|slot| self.slots.remove(&slot));
        lost.filter_map(Held::lost).collect()
    }

    /// Returns the slots to claim now, with their terms, and notes that they are claimed.
    pub(crate) fn claims(&mut self, view: &View, now: Duration) -> Vec<(Slot, u64)> {
        let me = Arc::clone(&self.incarnation);
        let is_loading = |held: &&Held| matches!(held, Held::Loading(_));
        let loading = self.slots.values().filter(is_loading).count();
        if self.went_back.is_some() {
            return Vec::new();
        }
        let wanted = view.slots.iter().enumerate().filter(|(at, row)| {
            let slot = Slot(*at as u16);
            let is_mine = row.owner.as_deref() == Some(&*me);
            let lives = |owner: &String| view.nodes.contains_key(owner);
            let is_free = !row.owner.as_ref().is_some_and(lives);
            let is_best = self.stage == Stage::Runs && owner(view, slot) == Some(&*me);
            let may = newer(&self.info, &row.holds).is_empty() || self.has_waited(slot, now);
            // A slot of its own that it does not have: the answer to a claim was lost.
            !self.slots.contains_key(&slot) && (is_mine || is_free && is_best && may)
        });
        let wanted = wanted.map(|(at, row)| (Slot(at as u16), row.term));
        let wanted: Vec<_> = wanted.take(LOADS.saturating_sub(loading)).collect();
        for (slot, _) in &wanted {
            self.slots.insert(*slot, Held::Loading(None));
        }
        wanted
    }

    /// Returns whether no node that can read the slot has come for long.
    fn has_waited(&self, slot: Slot, now: Duration) -> bool {
        let since = self.ownerless.get(&slot);
        since.is_some_and(|since| now.saturating_sub(*since) >= COMES_BACK)
    }

    /// Returns a slot to give up now, and the incarnation that should have it. One slot moves at a time.
    pub(crate) fn gives(
        &mut self,
        view: &View,
        changed: Option<Duration>,
        now: Duration,
    ) -> Option<(Slot, Option<String>)> {
        let moves = |held: &Held| matches!(held, Held::Leaving(_));
        let is_calm = changed.is_some_and(|changed| now.saturating_sub(changed) >= CALM);
        let is_owned = |owner: &String| view.nodes.contains_key(owner);
        let all_owned = view
            .slots
            .iter()
            .all(|row| row.owner.as_ref().is_some_and(is_owned));
        let is_drained = view.assignment.drained.contains(&self.info.name);
        let may = self.stage == Stage::Leaves || (is_calm || is_drained) && all_owned;
        if !may || self.slots.values().any(moves) {
            return None;
        }
        let best = |slot: &Slot| owner(view, *slot);
        let slot = *self
            .slots
            .iter()
            .find(|(slot, held)| {
                matches!(held, Held::Serving(..)) && best(slot) != Some(&*self.incarnation)
            })?
            .0;
        Some((slot, best(&slot).map(str::to_owned)))
    }

    /// Notes that a slot is claimed. Returns `false` if the node was evicted meanwhile.
    pub(crate) fn claimed(&mut self, owned: &Arc<Owned>) -> bool {
        match self.slots.get_mut(&owned.slot) {
            // A claim of an earlier incarnation may come late.
            Some(held @ Held::Loading(None)) if owned.is_of(&self.incarnation) => {
                *held = Held::Loading(Some(Arc::clone(owned)));
                true
            }
            _ => false,
        }
    }

    /// Notes that a slot has notes.
    pub(crate) fn noting(&mut self, noter: &Arc<Noter>, now: Duration) {
        self.noting.insert(noter.slot(), (Arc::clone(noter), now));
    }

    /// Returns the slots that this node has owned for long enough to stop the notes of runs.
    pub(crate) fn lived(&mut self, now: Duration) -> Vec<Arc<Noter>> {
        let lived =
            |noter: &Noter, since: Duration| noter.is_noting() && now.saturating_sub(since) >= LIFE;
        let noting = self.noting.values();
        let lived = noting.filter(|(noter, since)| lived(noter, *since));
        lived.map(|(noter, _)| Arc::clone(noter)).collect()
    }

    /// Returns what writes the notes of a slot, if there are notes.
    pub(crate) fn noter(&self, slot: Slot) -> Option<Arc<Noter>> {
        self.noting.get(&slot).map(|(noter, _)| Arc::clone(noter))
    }

    /// Returns what writes the notes of the slots that have some.
    pub(crate) fn noters(&mut self) -> Vec<Arc<Noter>> {
        self.noting.retain(|_, (noter, _)| noter.has_notes());
        let noting = self.noting.values();
        noting.map(|(noter, _)| Arc::clone(noter)).collect()
    }

    /// Notes that the runtime of a slot runs. Returns the runtime if the slot was lost meanwhile.
    pub(crate) fn loaded(&mut self, owned: &Arc<Owned>, runtime: Runtime) -> Option<Runtime> {
        match self.slots.get_mut(&owned.slot) {
            Some(held) if held.owned().is_some_and(|its| Arc::ptr_eq(its, owned)) => {
                *held = Held::Serving(Arc::clone(owned), runtime);
                self.failed.remove(&owned.slot);
                None
            }
            _ => Some(runtime),
        }
    }

    /// Notes that a slot is not loaded.
    pub(crate) fn not_loaded(
        &mut self,
        slot: Slot,
        owned: Option<&Arc<Owned>>,
        why: Option<ClusterError>,
    ) {
        let is_its = |held: &Held| match (held.owned(), owned) {
            (Some(its), Some(owned)) => Arc::ptr_eq(its, owned),
            (None, None) => true,
            _ => false,
        };
        if self.slots.get(&slot).is_some_and(is_its) {
            self.slots.remove(&slot);
        }
        if let Some(why) = why {
            self.failed.insert(slot, why);
        }
    }

    /// Begins to give a slot up. Returns what to end.
    pub(crate) fn leave(&mut self, slot: Slot) -> Option<(Arc<Owned>, Runtime)> {
        match self.slots.remove(&slot) {
            Some(Held::Serving(owned, runtime)) => {
                self.slots.insert(slot, Held::Leaving(Arc::clone(&owned)));
                Some((owned, runtime))
            }
            other => {
                self.slots.extend(other.map(|held| (slot, held)));
                None
            }
        }
    }

    /// Ends to give a slot up.
    pub(crate) fn given_up(&mut self, owned: &Arc<Owned>) {
        let held = self.slots.get(&owned.slot);
        let is_its = held
            .and_then(Held::owned)
            .is_some_and(|its| Arc::ptr_eq(its, owned));
        if is_its {
            self.slots.remove(&owned.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{NodeRow, SlotRow, Versions};

    /// The foms of a newer release would go into quarantine, so the slot waits for a node of that release. If none comes for a
    /// minute, the release was taken back.
    #[test]
    fn a_slot_of_a_newer_release_waits_for_a_node_that_reads_it() {
        let versions = |version| Versions::from([("Selling Order".to_owned(), version)]);
        let mut info = NodeInfo::new("a", "");
        info.reads = versions(1);
        let mut state = State::new(info.clone());
        let mut view = View::default();
        view.nodes
            .insert(state.incarnation.to_string(), NodeRow::new(info, 1));
        let mut newer = SlotRow::new(7, None);
        newer.holds = versions(2);
        let mut older = SlotRow::new(3, None);
        older.holds = versions(1);
        view.slots = vec![newer, older];
        let at = |seconds: u64| Duration::from_secs(1000 + seconds);
        state.note(&view, at(0));
        assert_eq!(state.claims(&view, at(0)), [(Slot(1), 3)]);
        assert_eq!(state.claims(&view, at(59)), []);
        assert_eq!(state.claims(&view, at(60)), [(Slot(0), 7)]);
    }
}
