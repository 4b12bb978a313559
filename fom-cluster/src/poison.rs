//! Operations whose functions end the process. Such an operation would end one owner of its slot after the other.
//!
//! After two owners of a slot have died, the next one notes each fom before it runs it. If that owner dies, too, the fom that it
//! noted last goes into quarantine. Other foms of the slot go on.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use fom_protocol::sync::sleep;
use fom_runtime::{
    FomId,
    extension::{Run, RunListener},
};
use serde::{Deserialize, Serialize};

use crate::{
    call::{decode, encode},
    commits::{AGAIN, Owned},
    engine::{Claimed, Engine},
    slot::Slot,
};

/// From so many deaths on, an owner notes what it runs.
const NOTED: u32 = 2;

/// The notes of a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notes {
    /// How many owners have died, one after the other.
    deaths: u32,
    /// The fom that ran last.
    entered: Option<FomId>,
    /// The foms in quarantine.
    held_back: Vec<FomId>,
}

impl Notes {
    /// Returns the notes for the next owner.
    pub(crate) fn of(claimed: &Claimed) -> Self {
        // Notes of another release count for nothing.
        let mut notes: Self = decode(&claimed.notes).unwrap_or_default();
        let entered = notes.entered.take();
        if !claimed.was_dead {
            notes.deaths = 0;
            return notes;
        }
        notes.deaths += 1;
        if notes.deaths > NOTED
            && let Some(fom) = entered
            && !notes.held_back.contains(&fom)
        {
            notes.held_back.push(fom);
            // The others get the same chance.
            notes.deaths = 0;
        }
        notes
    }
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
            is_noting: AtomicBool::new(notes.deaths >= NOTED),
            notes: Mutex::new(notes),
        })
    }

    /// Writes the notes. Returns whether the node has the slot.
    pub(crate) fn write(&self) -> bool {
        let notes = encode(&*self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        while !self.owned.lease.is_lost() {
            match self.engine.note(self.owned.slot, self.owned.term(), &notes) {
                Ok(true) => return true,
                // A commit may have claimed the slot again meanwhile. If not, its next answer tells.
                Ok(false) | Err(_) => sleep(AGAIN),
            }
        }
        false
    }

    /// Returns the slot.
    pub(crate) fn slot(&self) -> Slot {
        self.owned.slot
    }

    /// Returns the foms in quarantine.
    pub(crate) fn held_back(&self) -> Vec<FomId> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.held_back.clone()
    }

    /// Whether each run is noted.
    pub(crate) fn is_noting(&self) -> bool {
        self.is_noting.load(Ordering::Acquire)
    }

    /// Ends the notes of runs: the owner has lived for long.
    pub(crate) fn has_lived(&self) {
        {
            let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            (notes.deaths, notes.entered) = (0, None);
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
            let mut notes = self.0.notes.lock().unwrap_or_else(PoisonError::into_inner);
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
    use std::time::Duration;

    use super::*;

    fn fom(number: u64) -> FomId {
        // Ids are numbers for serde.
        rmp_serde::from_slice(&rmp_serde::to_vec(&number).unwrap()).unwrap()
    }

    fn claimed(was_dead: bool, notes: &Notes) -> Claimed {
        Claimed::new(1, 0, Duration::ZERO, was_dead, encode(notes))
    }

    #[test]
    fn the_fom_of_the_third_death_is_held_back() {
        let mut notes = Notes::default();
        for deaths in 1..=2 {
            // Before the second death, nothing is noted.
            notes = Notes::of(&claimed(true, &notes));
            assert_eq!((notes.deaths, notes.held_back.len()), (deaths, 0));
        }
        notes.entered = Some(fom(7));
        let notes = Notes::of(&claimed(true, &notes));
        assert_eq!(notes.held_back, [fom(7)]);
        assert_eq!((notes.deaths, notes.entered), (0, None));
    }

    #[test]
    fn an_orderly_end_is_no_death() {
        let notes = Notes {
            deaths: 2,
            entered: Some(fom(7)),
            held_back: vec![fom(3)],
        };
        let notes = Notes::of(&claimed(false, &notes));
        assert_eq!((notes.deaths, notes.entered), (0, None));
        assert_eq!(notes.held_back, [fom(3)]);
        assert_eq!(
            Notes::of(&Claimed::new(1, 0, Duration::ZERO, false, vec![9])),
            Notes::default()
        );
    }
}
