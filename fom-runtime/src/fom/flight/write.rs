//! How the entries are written. All of these functions run where the runtime has a recorder.

use std::ptr;

use fom_protocol::TraceRing;

use crate::fom::{
    Env, Header, TransitionCause,
    flight::{
        Kind,
        code::{Words, address, code, code_in, code_of_transition},
    },
    hand::{Hand, context::peek},
};

impl Hand {
    /// Returns the ring, if the runtime has a recorder.
    #[inline]
    fn ring(&self) -> Option<&TraceRing> {
        self.flight.as_deref()
    }

    /// Returns whether the runtime has a recorder.
    #[inline]
    pub(crate) fn is_recorded(&self) -> bool {
        self.flight.is_some()
    }

    /// Records what happened to a fom, if the runtime has a recorder.
    #[inline]
    pub(crate) fn record(&self, kind: Kind, fom: &Header) {
        if let Some(ring) = self.ring() {
            ring.push(self.entry(kind, fom));
        }
    }

    /// Returns an entry for [`record_entry`](Self::record_entry).
    pub(crate) fn entry(&self, kind: Kind, fom: &Header) -> Words {
        [self.now(), fom.id().0, code(kind), 0]
    }

    /// Writes an entry that was made before.
    pub(crate) fn record_entry(&self, entry: Words) {
        if let Some(ring) = self.ring() {
            ring.push(entry);
        }
    }

    /// Records what happened to a fom in its phase.
    pub(crate) fn record_in_phase(&self, kind: Kind, fom: &Header) {
        if let Some(ring) = self.ring() {
            let code = code_in(kind, fom.visit().index());
            ring.push([self.now(), fom.id().0, code, address(fom.graph())]);
        }
    }

    /// Records what the running fom did to another one of its runtime, if that has a recorder.
    pub(crate) fn record_by_running(&self, kind: Kind, to: &Header) {
        if let Some(ring) = self.ring()
            && self.index_in(to.env()).is_some()
        {
            let by = self.running().map_or(0, |fom| fom.id().0);
            ring.push([self.now(), to.id().0, code(kind), by]);
        }
    }
}

/// Records the transition that has just led the fom into its phase. Only the thread that runs the fom calls this.
#[inline(always)]
pub(crate) fn record_transition(
    fom: &Header,
    from: Option<usize>,
    to: Option<usize>,
    cause: TransitionCause,
) {
    // SAFETY: only numbers are copied, so no user code runs.
    if let Some(hand) = unsafe { peek() }
        && let Some(ring) = hand.ring()
        // A fom that never begins can be rejected on a thread of another runtime.
        && hand.index_in(fom.env()).is_some()
    {
        let code = code_of_transition(from, to, cause, |word| number(fom.env(), word));
        ring.push([hand.now(), fom.id().0, code, address(fom.graph())]);
    }
}

/// As [`record_transition`], for an exit that the function of the phase returned.
#[inline(always)]
pub(crate) fn record_returned(fom: &Header, from: usize, to: usize) {
    // SAFETY: as above.
    if let Some(hand) = unsafe { peek() }
        && let Some(ring) = hand.ring()
    {
        let cause = TransitionCause::Returned;
        let code = code_of_transition(Some(from), Some(to), cause, |_| 0);
        ring.push([hand.now(), fom.id().0, code, address(fom.graph())]);
    }
}

#[cold]
fn number(env: &Env, word: &'static str) -> u32 {
    env.flight().map_or(0, |flight| flight.names.number(word))
}

/// Records that an event was sent to the fom.
#[cold]
pub(crate) fn record_send(to: &Header) {
    // SAFETY: as above.
    if let Some(hand) = unsafe { peek() } {
        hand.record_by_running(Kind::EventSent, to);
    }
}

/// Records a step of the fom on its way into the journal.
#[cold]
pub(crate) fn record_commit(fom: &Header, kind: Kind) {
    // SAFETY: as above.
    if let Some(hand) = unsafe { peek() } {
        hand.record(kind, fom);
    }
}

/// Records that a function of the fom panicked.
#[cold]
pub(crate) fn record_panic(fom: &Header) {
    // SAFETY: as above.
    if let Some(hand) = unsafe { peek() }
        && hand.running.is_some_and(|runs| ptr::eq(runs.as_ptr(), fom))
    {
        hand.record_in_phase(Kind::Panicked, fom);
    }
}
