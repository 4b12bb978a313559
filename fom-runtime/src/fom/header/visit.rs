//! The state of the current visit of a fom: the event that it handles, its requests and outbox, and its failed
//! attempts. Few foms have any of it, so all of it is in [`Cold`] and the state that durability keeps.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::{Header, Seen};
use crate::{
    fom::{Cold, Recorder, durability::Effects},
    step_key::{EventId, StepKey},
};
use fom_protocol::{panic_message, sync::atomic::Ordering};

/// The limits on the causes of failed attempts in one visit: their number, and the characters of each.
const MOST_CAUSES: usize = 16;
const LONGEST_CAUSE: usize = 200;

impl Header {
    /// Returns the key of the current effect. The key names this visit, or the last event that was taken. Only the
    /// thread that runs the fom calls this.
    pub(crate) fn step_key(&self) -> StepKey {
        let run = self.env().run;
        let (origin, (visit, event)) = match (
            self.env().recorder().and_then(Recorder::journal),
            self.kept(),
        ) {
            (Some(journal), Some(kept)) => (journal, kept.visit()),
            _ => {
                self.flags.note();
                let visits = self.cold_made().visits.load(Ordering::Relaxed);
                (
                    run,
                    (
                        visits,
                        self.cold_rare()
                            .and_then(|cold_rare| *cold_rare.event.lock()),
                    ),
                )
            }
        };
        let fom = self.id().get();
        match event {
            Some(event) => StepKey::of_event(origin, run, fom, event),
            None => StepKey::of_visit(origin, fom, visit),
        }
    }

    /// Records that the function has taken an event from a mailbox with event ids. Only the thread that runs the fom
    /// calls this.
    #[cold]
    pub(crate) fn took(&self, id: Option<EventId>) {
        match (self.kept(), id) {
            (Some(kept), Some(id)) => kept.took(id),
            // Without a journal, only an id from the sender is the same in another run.
            _ => {
                self.flags.note();
                let given = id.filter(|id| matches!(id, EventId::Given(_)));
                *self.cold_rare_made().event.lock() = given;
            }
        }
    }

    /// Separates later effects from the last event that was taken. Only the thread that runs the fom calls this.
    pub(crate) fn leave_event(&self) {
        let Some(cold) = self.cold() else { return };
        cold.next_effect();
        if let Some(kept) = cold.kept() {
            kept.leave_event();
        } else if let Some(cold_rare) = cold.cold_rare.get() {
            *cold_rare.event.lock() = None;
        }
    }

    /// Calls `f` with the outbox of this visit, which is made by `make` if there is none. Only the thread that runs the
    /// fom calls this.
    pub(crate) fn with_outbox_made(
        &self,
        make: impl FnOnce() -> Box<dyn Effects>,
        f: impl FnOnce(&mut dyn Effects),
    ) {
        self.flags.note();
        let mut outbox = self.cold_rare_made().outbox.lock();
        f(&mut **outbox.get_or_insert_with(make));
    }

    /// Returns whether the fom must run its resume function again. Only the thread that runs the fom calls this.
    pub(crate) fn owes_resume(&self) -> bool {
        self.cold()
            .is_some_and(|cold| cold.owes_resume.load(Ordering::Relaxed))
    }

    pub(crate) fn set_owes_resume(&self, owes: bool) {
        if let Some(cold) = self.cold() {
            cold.owes_resume.store(owes, Ordering::Relaxed);
        }
    }

    pub(crate) fn held_gate(&self) -> bool {
        self.cold()
            .is_some_and(|cold| cold.held_gate.load(Ordering::Relaxed))
    }

    /// Records a step of the fom. From then on, only the gate that it holds now counts.
    pub(crate) fn forget_held_gate(&self) {
        if let Some(cold) = self.cold() {
            cold.held_gate.store(false, Ordering::Relaxed);
        }
    }

    /// Records that an attempt at the phase failed with this error. Only the thread that runs the fom calls this.
    pub(crate) fn failed_attempt<E>(&self, describe: fn(&E) -> String, error: &E) {
        let said = catch_unwind(AssertUnwindSafe(|| describe(error)));
        let mut said = said.unwrap_or_else(panic_message);
        if let Some((end, _)) = said.char_indices().nth(LONGEST_CAUSE) {
            said.truncate(end);
        }
        self.flags.note();
        let mut causes = self.cold_rare_made().causes.lock();
        if causes.len() == MOST_CAUSES {
            // The first cause shows how the failures began, the last causes how they are now. So the second oldest is
            // removed.
            causes.remove(1);
        }
        causes.push(said);
    }

    /// Returns the causes of the failed attempts of this visit.
    pub(crate) fn causes(&self) -> Vec<String> {
        self.cold_rare()
            .map(|cold_rare| cold_rare.causes.lock().clone())
            .unwrap_or_default()
    }

    /// Forgets the attempts and the event of the last visit, because a visit begins.
    pub(crate) fn forget_attempts(&self) {
        if let Some(cold_rare) = self.cold_rare() {
            *cold_rare.event.lock() = None;
            cold_rare.causes.lock().clear();
            cold_rare.forget_failure();
        }
    }

    /// Sends the outbox. The transition is made, and committed if the fom is kept in a journal.
    #[inline]
    pub(crate) fn send_outbox(&self) {
        if let Some(outbox) = self.take_outbox() {
            outbox.send(self);
        }
    }

    /// Drops the outbox, because the phase function failed.
    pub(crate) fn drop_outbox(&self) {
        if let Some(outbox) = self.take_outbox() {
            outbox.discard(self);
        }
    }

    #[inline]
    fn take_outbox(&self) -> Option<Box<dyn Effects>> {
        self.cold_rare()?.outbox.lock().take()
    }

    /// Returns the key of the next request of this visit, if the fom is kept in a journal. Only the thread that runs
    /// the fom calls this.
    #[inline]
    pub(crate) fn request_key(&self) -> Option<StepKey> {
        let part = self.kept()?.next_part();
        Some(self.step_key().part(part))
    }

    /// Counts a visit, and adds a line to the history, if the fom has one.
    pub(crate) fn remember(&self, index: usize, now: u64) {
        let Some(cold) = self.cold() else { return };
        fom_protocol::count(&cold.visits, 1);
        if let Some(log) = &cold.history {
            remember(log, self.env().history, index, now);
        }
    }

    /// Pauses the fom until its next attempt. A waiting fom with a key lends its room to another fom. Only the thread
    /// that runs the fom calls this.
    pub(crate) fn pause(&self) {
        if let Some(cold) = self.cold()
            && cold.key.is_some()
            && !cold.paused.load(Ordering::Relaxed)
            && self.env().pause_room()
        {
            cold.paused.store(true, Ordering::Relaxed);
        }
    }

    /// Ends the pause, after which the fom needs its room again. Only the thread that runs the fom calls this.
    pub(crate) fn go_on(&self, cold: &Cold) {
        if cold.paused.load(Ordering::Relaxed) {
            cold.paused.store(false, Ordering::Relaxed);
            self.env().resume_room();
        }
    }
}

#[cold]
fn remember(log: &fom_protocol::sync::Mutex<VecDeque<Seen>>, most: usize, index: usize, at: u64) {
    let mut log = log.lock();
    if log.len() == most {
        log.pop_front();
    }
    log.push_back(Seen {
        phase: index as u16,
        at,
    });
}
