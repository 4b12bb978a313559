//! Who has a lock and who stands in its line at one moment, for who looks for circles.

use crate::{
    fom::AnyRef,
    lock::{LockMode, LongLock, owner::Owner},
};

/// What there was of a lock when it was looked at.
pub(crate) struct Line {
    holders: Vec<(Owner, LockMode, u64)>,
    waiters: Vec<(Owner, LockMode, u64)>,
}

/// What one is at a lock that another one waits for, with its number there.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Holds(u64),
    Waits(u64),
}

impl LongLock {
    /// As it is now.
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

    /// Whether one with this number still waits behind another one. Numbers are given once, so both have been there all the time.
    pub(crate) fn still(&self, waits: u64, behind: Place) -> bool {
        let state = self.state();
        let other = match behind {
            Place::Holds(ticket) => state.holders().any(|hold| hold.ticket == ticket),
            Place::Waits(ticket) => state.waiter(ticket).is_some(),
        };
        other && state.waiter(waits).is_some()
    }

    /// The same for every handle to it, and for no other lock that is there.
    pub(crate) fn address(&self) -> usize {
        std::sync::Arc::as_ptr(&self.0).addr()
    }
}

impl Line {
    /// For each fom that waits: its number, and the foms that it waits for.
    ///
    /// Those are the holders that it cannot have the lock beside. If there is none, it waits for one that stands before it, and
    /// that waits for them: the nearest is enough to find every circle.
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
