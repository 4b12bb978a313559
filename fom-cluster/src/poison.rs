//! A phase function can abort its process. Its operation would then end one owner of the slot after the other.
//!
//! After two owners of a slot have died, the next one notes each fom before it runs it. If that owner dies, too, the fom that it
//! noted last goes into quarantine. Other foms of the slot go on. An owner that was only not heard of has not died: when its
//! process is a member again, its death is forgotten, and a fom that its death has put into quarantine is tried again.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use fom_protocol::sync::{Mutex, sleep};
use fom_runtime::{
    FomId,
    extension::{Run, RunListener},
};
use serde::{Deserialize, Serialize};

use crate::{
    call::{decode, encode},
    commits::{AGAIN, Owned},
    engine::{Claimed, Engine, View},
    slot::Slot,
};

/// From so many deaths on, an owner notes what it runs.
const NOTED: usize = 2;

/// After so many refused notes, the node takes the slot as lost.
const REFUSED: u32 = 8;

/// The notes of a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notes {
    /// The owners that have died, one after the other.
    deaths: Vec<String>,
    /// The fom that ran last.
    entered: Option<FomId>,
    /// The foms in quarantine, each with the owners that died before. It ran at the last of these deaths.
    held_back: Vec<(FomId, Vec<String>)>,
}

impl Notes {
    /// Returns the notes for the next owner.
    pub(crate) fn of(claimed: &Claimed, view: &View) -> Self {
        // Notes of another release count for nothing.
        let mut notes: Self = decode(&claimed.notes).unwrap_or_default();
        let entered = notes.entered.take();
        notes.forgive(view);
        let Some(dead) = &claimed.dead else {
            notes.deaths.clear();
            return notes;
        };
        if has_survived(view, dead) {
            return notes;
        }
        notes.deaths.push(dead.clone());
        if notes.deaths.len() > NOTED
            && let Some(fom) = entered
        {
            // The others get the same chance.
            let deaths = std::mem::take(&mut notes.deaths);
            notes.held_back.push((fom, deaths));
        }
        notes
    }

    /// Forgets the deaths of processes that live. Returns the foms that are free again.
    fn forgive(&mut self, view: &View) -> Vec<FomId> {
        self.deaths.retain(|dead| !has_survived(view, dead));
        // Without each of the deaths, the fom would not be in quarantine.
        let free = self.held_back.extract_if(.., |(_, deaths)| {
            deaths.iter().any(|dead| has_survived(view, dead))
        });
        free.map(|(fom, _)| fom).collect()
    }

    fn is_empty(&self) -> bool {
        self.deaths.is_empty() && self.held_back.is_empty()
    }
}

/// Returns whether the process of this incarnation lives: it was only not heard of.
fn has_survived(view: &View, incarnation: &str) -> bool {
    let mut rows = view.nodes.values();
    rows.any(|row| row.info.survived.iter().any(|one| one == incarnation))
}

/// Writes the notes of one slot.
pub(crate) struct Noter {
    engine: Arc<dyn Engine>,
    owned: Arc<Owned>,
    notes: Mutex<Notes>,
    is_noting: AtomicBool,
}

impl Noter {
    pub(crate) fn new(engine: Arc<dyn Engine>, owned: Arc<Owned>, notes: Notes) -> Arc<Self> {
        Arc::new(Self {
            engine,
            owned,
            is_noting: AtomicBool::new(notes.deaths.len() >= NOTED),
            notes: Mutex::new(notes),
        })
    }

    /// Writes the notes. Returns whether the node has the slot.
    pub(crate) fn write(&self) -> bool {
        let notes = encode(&*self.notes.lock());
        let mut refused = 0;
        while !self.owned.lease.is_lost() && refused < REFUSED {
            let written = self.engine.note(self.owned.slot, self.owned.term(), &notes);
            match written {
                Ok(true) => return true,
                // A commit of this node may have claimed the slot again, and may have no answer yet.
                Ok(false) => refused += 1,
                Err(_) => {}
            }
            sleep(AGAIN);
        }
        // Another node has the slot, or a claim of this one that came late. Then the node claims it again.
        self.owned.lease.lose();
        false
    }

    /// Returns the slot.
    pub(crate) fn slot(&self) -> Slot {
        self.owned.slot
    }

    /// Returns the foms in quarantine.
    pub(crate) fn held_back(&self) -> Vec<FomId> {
        let notes = self.notes.lock();
        notes.held_back.iter().map(|(fom, _)| *fom).collect()
    }

    /// Whether there is something in the notes.
    pub(crate) fn has_notes(&self) -> bool {
        !self.notes.lock().is_empty()
    }

    /// Whether a process that has seemed to die lives.
    pub(crate) fn forgives(&self, view: &View) -> bool {
        let notes = self.notes.lock();
        let held = notes.held_back.iter().flat_map(|(_, deaths)| deaths);
        let mut dead = notes.deaths.iter().chain(held);
        dead.any(|dead| has_survived(view, dead))
    }

    /// Forgets the deaths of processes that live. Returns the foms that are free again.
    pub(crate) fn forgive(&self, view: &View) -> Vec<FomId> {
        let free = {
            let mut notes = self.notes.lock();
            notes.forgive(view)
        };
        match self.write() {
            true => free,
            false => Vec::new(),
        }
    }

    /// Forgets that this fom has ended an owner, because a caller decides what becomes of it. Returns whether this node has the
    /// slot.
    pub(crate) fn free(&self, fom: FomId) -> bool {
        let was_held = {
            let mut notes = self.notes.lock();
            notes
                .held_back
                .extract_if(.., |(held, _)| *held == fom)
                .count()
                > 0
        };
        !was_held || self.write()
    }

    /// Whether each run is noted.
    pub(crate) fn is_noting(&self) -> bool {
        self.is_noting.load(Ordering::Acquire)
    }

    /// Ends the notes of runs: the owner has lived for long.
    pub(crate) fn has_lived(&self) {
        {
            let mut notes = self.notes.lock();
            notes.deaths.clear();
            notes.entered = None;
        }
        if self.write() {
            self.is_noting.store(false, Ordering::Release);
        }
    }
}

/// Notes each fom before it runs. The locality waits meanwhile.
pub(crate) struct NotesRuns(pub(crate) Arc<Noter>);

impl RunListener for NotesRuns {
    fn begins(&self, run: &Run<'_>) {
        if !self.0.is_noting() {
            return;
        }
        {
            let mut notes = self.0.notes.lock();
            if notes.entered.replace(run.id()) == Some(run.id()) {
                return;
            }
        }
        self.0.write();
    }

    fn ends(&self) {}
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use fom_journal::Lease;

    use super::*;
    use crate::{
        engine::{Beat, Claim, NodeInfo, NodeRow, Settings},
        memory::MemoryEngine,
    };

    fn fom(number: u64) -> FomId {
        // Ids are numbers for serde.
        rmp_serde::from_slice(&rmp_serde::to_vec(&number).unwrap()).unwrap()
    }

    fn claimed(dead: Option<&str>, notes: &Notes) -> Claimed {
        let dead = dead.map(str::to_owned);
        Claimed::new(1, 0, Duration::ZERO, dead, encode(notes))
    }

    /// The notes after three deaths, the last one with this fom.
    fn after_three(fom: FomId) -> Notes {
        let (mut notes, view) = (Notes::default(), View::default());
        for (dead, deaths) in [("a", 1), ("b", 2)] {
            // Before the second death, nothing is noted.
            notes = Notes::of(&claimed(Some(dead), &notes), &view);
            assert_eq!((notes.deaths.len(), notes.held_back.len()), (deaths, 0));
        }
        notes.entered = Some(fom);
        Notes::of(&claimed(Some("c"), &notes), &view)
    }

    #[test]
    fn the_fom_of_the_third_death_is_held_back() {
        let notes = after_three(fom(7));
        let deaths = ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!(notes.held_back, [(fom(7), deaths)]);
        assert_eq!((notes.deaths.len(), notes.entered), (0, None));
    }

    /// The next owner of the slot runs it as any other.
    #[test]
    fn a_fom_that_is_tried_again_is_held_back_no_more() {
        let engine = MemoryEngine::new();
        engine.open(&Settings::new(1)).unwrap();
        let info = NodeInfo::new("d", "");
        let beat = Beat::new("d 1", true, Duration::ZERO, &info);
        engine.beat(&beat).unwrap();
        let claim = || {
            let claim = Claim::new(Slot(0), 0, "d 1", Duration::ZERO);
            engine.claim(&claim).unwrap().unwrap()
        };
        let lease = Lease::new(claim().term, Duration::MAX, || Duration::ZERO);
        let owned = Owned::new(Slot(0), "d 1".into(), lease, 0);
        let noter = Noter::new(
            Arc::new(engine.clone()),
            Arc::new(owned),
            after_three(fom(7)),
        );
        assert!(noter.write());
        let notes = || {
            Notes::of(
                &Claimed {
                    dead: None,
                    ..claim()
                },
                &View::default(),
            )
        };
        // A claim raises the term, so the notes are written with the next one.
        assert_eq!(notes().held_back.len(), 1);
        noter.owned.lease.set_term(claim().term);
        assert!(noter.free(fom(7)) && noter.free(fom(8)));
        assert_eq!(notes().held_back, []);
    }

    #[test]
    fn a_process_that_lives_has_not_died() {
        // Whichever of the three it is.
        for lives in ["a", "b", "c"] {
            let mut info = NodeInfo::new(lives, "");
            info.survived = vec![lives.to_owned()];
            let nodes = BTreeMap::from([(format!("{lives} again"), NodeRow::new(info, 1))]);
            let view = View::new(true, nodes, Vec::new(), Duration::ZERO);
            let mut notes = after_three(fom(7));
            assert_eq!(notes.forgive(&view), [fom(7)]);
            assert!(notes.is_empty());
            let notes = Notes::of(&claimed(Some(lives), &notes), &view);
            assert!(notes.is_empty(), "its death does not count");
        }
    }

    #[test]
    fn an_orderly_end_is_no_death() {
        let (view, mut notes) = (View::default(), after_three(fom(3)));
        notes.deaths = vec!["a".to_owned(), "b".to_owned()];
        notes.entered = Some(fom(7));
        let notes = Notes::of(&claimed(None, &notes), &view);
        assert_eq!((notes.deaths.len(), notes.entered), (0, None));
        assert_eq!(notes.held_back, after_three(fom(3)).held_back);
        let unread = Claimed::new(1, 0, Duration::ZERO, None, vec![9]);
        assert_eq!(Notes::of(&unread, &view), Notes::default());
    }
}
