//! The current visit of a fom: the phase, the event that the visit handles, its requests, and its failed attempts. Few
//! foms have more of it than the phase, so the rest is in [`Cold`] and the state that durability keeps.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use crate::{
    attempt::{Attempt, Tried},
    clock::elapsed,
    fom::{Cold, ColdRare, Header, Timing},
    graph::PhaseInfo,
    step_key::{EventId, StepKey},
};
use fom_protocol::{panic_message, sync::atomic::Ordering};

/// The limits on the failed attempts that are kept of one visit: their number, and the characters of each error.
const MOST_TRIED: usize = 16;
const LONGEST_ERROR: usize = 400;

/// Marks the phase in the header: the counters have the fom in this phase.
const COUNTED: u16 = 1 << 15;

/// The current visit of this fom.
#[derive(Clone, Copy)]
pub(crate) struct Visit<'a>(pub(super) &'a Header);

impl<'a> Visit<'a> {
    /// Begins a visit of the phase at `index`.
    #[inline]
    pub(crate) fn enter(self, index: usize, now: u64) {
        self.0.since.store(now, Ordering::Relaxed);
        self.0.phase.store(index as u16, Ordering::Release);
    }

    /// Returns the index of the phase.
    pub(crate) fn index(self) -> usize {
        (self.0.phase.load(Ordering::Acquire) & !COUNTED).into()
    }

    /// Returns whether the counters have the fom in this phase.
    #[inline]
    pub(crate) fn is_counted(self) -> bool {
        self.0.phase.load(Ordering::Relaxed) & COUNTED != 0
    }

    /// Notes that the counters have the fom in this phase. Only the thread that runs the fom calls this, or the handler
    /// of its locality.
    #[inline]
    pub(crate) fn set_counted(self) {
        let phase = self.0.phase.load(Ordering::Relaxed);
        self.0.phase.store(phase | COUNTED, Ordering::Release);
    }

    /// Returns the phase.
    pub(crate) fn info(self) -> &'static PhaseInfo {
        &self.0.graph().phases()[self.index()]
    }

    /// Sets when the visit began, for a fom that came back. The time may be before the start of the clock.
    pub(crate) fn began(self, at: u64) {
        self.0.since.store(at, Ordering::Release);
    }

    /// Returns when the visit began. The time is negative, in two's complement, if it is before the start of the clock.
    pub(crate) fn since(self) -> u64 {
        self.0.since.load(Ordering::Acquire)
    }

    pub(crate) fn age(self, now: u64) -> Duration {
        elapsed(now, self.since())
    }

    /// Returns the number of failed attempts.
    pub(crate) fn attempt(self) -> u32 {
        self.0.timing().map_or(0, Timing::attempt)
    }

    /// Returns the nearest deadline.
    pub(crate) fn deadline(self) -> Option<u64> {
        self.0.timing().and_then(Timing::deadline)
    }

    #[inline]
    fn rare(self) -> Option<&'a ColdRare> {
        self.0.cold().and_then(Cold::rare)
    }

    /// Returns the key of the current effect. The key names this visit, or the last event that was taken. Only the
    /// thread that runs the fom calls this.
    pub(crate) fn step_key(self) -> StepKey {
        let (run, id) = (self.0.env().run, self.0.id());
        let recorder = self.0.env().recorder();
        let (origin, (visit, event)) = match (
            recorder.and_then(|recorder| recorder.journal_of(id)),
            self.0.kept(),
        ) {
            (Some(journal), Some(kept)) => (journal, kept.visit()),
            _ => {
                self.0.flags.note();
                let visits = self.0.cold_made().visits();
                (
                    run,
                    (visits, self.rare().and_then(|rare| *rare.event.lock())),
                )
            }
        };
        let fom = id.get();
        match event {
            Some(event) => StepKey::of_event(origin, run, fom, event),
            None => StepKey::of_visit(origin, fom, visit),
        }
    }

    /// Records that the function has taken an event from a mailbox with event ids. Only the thread that runs the fom
    /// calls this.
    #[cold]
    pub(crate) fn took(self, id: Option<EventId>) {
        match (self.0.kept(), id) {
            (Some(kept), Some(id)) => kept.took(id),
            // Without a journal, only an id from the sender is the same in another run.
            _ => {
                self.0.flags.note();
                let given = id.filter(|id| matches!(id, EventId::Given(_)));
                *self.0.cold_made().rare_made().event.lock() = given;
            }
        }
    }

    /// Separates later effects from the last event that was taken. Only the thread that runs the fom calls this.
    pub(crate) fn leave_event(self) {
        let Some(cold) = self.0.cold() else { return };
        cold.next_effect();
        if let Some(kept) = cold.kept() {
            kept.leave_event();
        } else if let Some(rare) = cold.rare() {
            *rare.event.lock() = None;
        }
    }

    /// Returns the key of the next request of this visit, if the fom is kept in a journal. Only the thread that runs
    /// the fom calls this.
    #[inline]
    pub(crate) fn request_key(self) -> Option<StepKey> {
        let part = self.0.kept()?.next_part();
        Some(self.step_key().part(part))
    }

    /// Returns the attempt that failed just now. `describe` returns the text of its error, and may panic.
    pub(crate) fn failing(self, describe: impl FnOnce() -> String) -> Tried {
        let said = catch_unwind(AssertUnwindSafe(describe));
        let mut error = said.unwrap_or_else(panic_message);
        if let Some((end, _)) = error.char_indices().nth(LONGEST_ERROR) {
            error.truncate(end);
        }
        Tried {
            number: self.attempt() + 1,
            error,
            at: self.0.env().clock.nanos(),
        }
    }

    /// Keeps a failed attempt at the phase. Only the thread that runs the fom calls this.
    pub(crate) fn failed(self, attempt: Tried) {
        self.0.flags.note();
        let mut tried = self.0.cold_made().rare_made().tried.lock();
        if tried.len() == MOST_TRIED {
            // The first error shows how the failures began, the last errors how they are now. So the second oldest is
            // removed.
            tried.remove(1);
        }
        tried.push(attempt);
    }

    /// Returns the failed attempts of this visit.
    pub(crate) fn tried(self) -> Vec<Tried> {
        self.with_tried(<[Tried]>::to_vec)
    }

    /// Returns the failed attempts of this visit, as they are shown now.
    pub(crate) fn attempts(self) -> Vec<Attempt> {
        let now = self.0.env().clock.nanos();
        self.with_tried(|tried| tried.iter().map(|attempt| attempt.shown(now)).collect())
    }

    /// Returns the error of the last failed attempt of this visit.
    pub(crate) fn last_error(self) -> Option<String> {
        self.with_tried(|tried| tried.last().map(|attempt| attempt.error.clone()))
    }

    fn with_tried<T: Default>(self, read: impl FnOnce(&[Tried]) -> T) -> T {
        let rare = self.rare();
        rare.map_or_else(T::default, |rare| read(&rare.tried.lock()))
    }
}
