//! What a waiter waits behind at one moment, for the search for cycles.

use fom_runtime::extension::FomAddress;

use crate::lock::LongLock;

/// How a fom stands at a lock that another fom waits for, with its number there.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Holds(u64),
    Waits(u64),
}

impl Place {
    pub(super) fn ticket(self) -> u64 {
        match self {
            Self::Holds(ticket) | Self::Waits(ticket) => ticket,
        }
    }
}

impl LongLock {
    /// Returns the foms that the waiter with this number waits for.
    ///
    /// These foms are the holders that conflict with it. If there is none, the fom waits for a writer in front of it,
    /// and that writer waits for the holders. The nearest writer is enough to find every cycle.
    pub(super) fn behind(&self, ticket: u64) -> Vec<(FomAddress, Place)> {
        let state = self.state();
        let Some(waiter) = state.waiter(ticket) else {
            return Vec::new();
        };
        let mut behind: Vec<_> = state
            .conflicting(waiter.mode)
            .map(|hold| (hold.owner.fom().cloned(), Place::Holds(hold.ticket)))
            .collect();
        if behind.is_empty() {
            let before = state.writer_before(ticket);
            behind.extend(before.map(|(ticket, before)| {
                let fom = before.owner.fom().cloned();
                (fom, Place::Waits(ticket))
            }));
        }
        drop(state);
        let foms = behind.into_iter();
        foms.filter_map(|(fom, place)| Some((fom?, place)))
            .collect()
    }

    /// Whether the waiter with this number still waits behind the other fom. Numbers are not reused, so both have been
    /// there all the time.
    pub(super) fn still(&self, waits: u64, behind: Place) -> bool {
        let state = self.state();
        let other = match behind {
            Place::Holds(ticket) => state.holders().any(|hold| hold.ticket == ticket),
            Place::Waits(ticket) => state.waiter(ticket).is_some(),
        };
        other && state.waiter(waits).is_some()
    }
}
