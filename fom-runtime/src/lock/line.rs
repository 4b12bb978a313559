//! The holders and waiters of a lock at one moment, for the search for circles.

use crate::{
    fom::AnyRef,
    lock::{LockMode, LongLock, owner::Owner},
};

/// The state of a lock at one moment.
pub(crate) struct Line {
    holders: Vec<(Owner, LockMode, u64)>,
    waiters: Vec<(Owner, LockMode, u64)>,
}

/// How a fom stands at a lock that another fom waits for, with its number there.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Holds(u64),
    Waits(u64),
}

impl LongLock {
    /// Returns the current state.
    pub(crate) fn line(&self) -> Line {
        let state = self.state();
        let holders = state.holders();
        let waiters = state.waiters();
        Line {
            holders: holders
                .map(|hold| (hold.owner.clone(), hold.mode, hold.ticket))
                .collect(),
            waiters: waiters
                .map(|(ticket, waiter)| (waiter.owner.clone(), waiter.mode, ticket))
                .collect(),
        }
    }

    /// Whether the waiter with this number still waits behind the other fom. Numbers are not reused, so both have been
    /// there all the time.
    pub(crate) fn still(&self, waits: u64, behind: Place) -> bool {
        let state = self.state();
        let other = match behind {
            Place::Holds(ticket) => state.holders().any(|hold| hold.ticket == ticket),
            Place::Waits(ticket) => state.waiter(ticket).is_some(),
        };
        other && state.waiter(waits).is_some()
    }

    /// Returns a number that is the same for each handle to the lock, and different for each other existing lock.
    pub(crate) fn address(&self) -> usize {
        std::sync::Arc::as_ptr(&self.0).addr()
    }
}

impl Line {
    /// Returns, for each fom that waits, its number and the foms that it waits for.
    ///
    /// These foms are the holders that conflict with it. If there is none, the fom waits for a writer in front of it,
    /// and that writer waits for the holders. The nearest writer is enough to find every circle.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (&AnyRef, u64, Vec<(&AnyRef, Place)>)> {
        let mut writer = None;
        self.waiters
            .iter()
            .filter_map(move |(owner, mode, ticket)| {
                let before = writer;
                if *mode == LockMode::Write {
                    writer = Some((owner, *ticket));
                }
                let mut behind: Vec<_> = self
                    .holders
                    .iter()
                    .filter(|(_, held, _)| mode.conflicts(*held))
                    .map(|(owner, _, ticket)| (owner, Place::Holds(*ticket)))
                    .collect();
                if behind.is_empty() {
                    behind.extend(before.map(|(owner, ticket)| (owner, Place::Waits(ticket))));
                }
                let foms = behind
                    .into_iter()
                    .filter_map(|(owner, place)| Some((owner.fom()?, place)));
                Some((owner.fom()?, *ticket, foms.collect()))
            })
    }
}
