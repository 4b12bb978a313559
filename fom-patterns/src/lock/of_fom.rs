//! The locks that a fom waits for, for listings, for deadlocks and against waiting twice. Kept beside the fom, and only
//! for foms that ever waited.

use std::time::Duration;

use fom_protocol::sync::Mutex;
use fom_runtime::extension::{Attached, Blocker, FomAddress, Hold, Holder, Wait, WaitKind};
use fom_runtime::time::Instant;

use crate::lock::{LockMode, LongLock, line::Place, owner::Owner};

/// What a fom that waits for a lock waits for. Listings name the lock instead.
pub(super) static LOCK: WaitKind = WaitKind::new("a lock");

/// The kind of the wait in listings and deadlocks.
const KIND: &str = "the lock";

/// How many of the owners in front of a fom are listed.
const NAMED: usize = 8;

/// The waits of one fom for locks.
#[derive(Default)]
pub(super) struct FomLocks(Mutex<Waits>);

#[derive(Default)]
struct Waits {
    /// The locks that the fom queues for, with its numbers in the queues.
    waiting: Vec<Waiting>,
    /// The total time of the waits that are over.
    waited: u64,
}

/// A place in a queue.
#[derive(Clone)]
struct Waiting {
    lock: LongLock,
    mode: LockMode,
    ticket: u64,
    /// When the fom joined the queue.
    since: Instant,
    /// The fom, for the time.
    fom: FomAddress,
}

impl FomLocks {
    /// Records that the fom stands in the queue of a lock.
    pub(super) fn waits_for(fom: &FomAddress, lock: LongLock, mode: LockMode, ticket: u64) {
        let locks = fom.attachment::<Self>();
        let waiting = Waiting {
            lock,
            mode,
            ticket,
            since: fom.now(),
            fom: fom.clone(),
        };
        locks.0.lock().waiting.push(waiting);
    }

    /// Records that the fom has left the queue, after a wait of this time.
    pub(super) fn waited_for(fom: &FomAddress, lock: &LongLock, nanos: u64) {
        let Some(locks) = fom.find_attachment::<Self>() else {
            return;
        };
        let gone = {
            let mut locks = locks.0.lock();
            locks.waited = locks.waited.saturating_add(nanos);
            let place = locks
                .waiting
                .iter()
                .position(|waiting| waiting.lock == *lock);
            place.map(|place| locks.waiting.swap_remove(place))
        };
        drop(gone);
    }

    /// Returns how the fom waits for this lock, if it does.
    pub(super) fn mode(fom: &FomAddress, lock: &LongLock) -> Option<LockMode> {
        let locks = fom.find_attachment::<Self>()?;
        let locks = locks.0.lock();
        let mut waiting = locks.waiting.iter();
        waiting
            .find(|waiting| waiting.lock == *lock)
            .map(|waiting| waiting.mode)
    }

    fn waiting(&self) -> Vec<Waiting> {
        self.0.lock().waiting.clone()
    }
}

impl Waiting {
    /// Returns the wait, unless the lock was granted just now.
    fn wait(&self) -> Option<Wait> {
        // Formatted without the mutex.
        let (hold, owners): (Hold, Vec<Owner>) = {
            let state = self.lock.state();
            let mode = state.waiter(self.ticket)?.mode;
            let owners: Vec<_> = state
                .conflicting(mode)
                .map(|hold| hold.owner.clone())
                .take(NAMED)
                .collect();
            if owners.is_empty() {
                let before = state
                    .before(self.ticket)
                    .filter(|(_, waiter)| mode.conflicts(waiter.mode));
                let before = before.map(|(_, waiter)| waiter.owner.clone());
                (Hold::IsAhead, before.take(NAMED).collect())
            } else {
                (Hold::Has, owners)
            }
        };
        let holder = |owner: &Owner| Holder {
            fom: owner.fom().map(FomAddress::id),
            name: owner.to_string(),
            hold,
        };
        (!owners.is_empty()).then(|| Wait {
            subject: Some(self.lock.to_string()),
            holders: owners.iter().map(holder).collect(),
            waited: Some(self.fom.now() - self.since),
            ..Wait::of(KIND)
        })
    }

    fn blockers(&self) -> impl Iterator<Item = Blocker> {
        let behind = self.lock.behind(self.ticket).into_iter();
        behind.map(|(fom, place)| Blocker {
            fom,
            kind: KIND,
            subject: Some(self.lock.to_string()),
            hold: match place {
                Place::Holds(_) => Hold::Has,
                Place::Waits(_) => Hold::IsAhead,
            },
            numbers: (self.ticket, place.ticket()),
        })
    }
}

impl Attached for FomLocks {
    fn waits(&self, kind: &WaitKind) -> Vec<Wait> {
        if *kind != LOCK {
            return Vec::new();
        }
        self.waiting().iter().filter_map(Waiting::wait).collect()
    }

    fn waited(&self) -> Duration {
        Duration::from_nanos(self.0.lock().waited)
    }

    fn blockers(&self) -> Vec<Blocker> {
        let waiting = self.waiting();
        waiting.iter().flat_map(Waiting::blockers).collect()
    }

    fn still_blocks(&self, blocker: &Blocker) -> bool {
        let (waits, place) = blocker.numbers;
        let behind = if blocker.hold == Hold::Has {
            Place::Holds(place)
        } else {
            Place::Waits(place)
        };
        let waiting = self.waiting();
        // Tickets are numbers of one lock. A fom may wait for several locks.
        waiting.iter().any(|waiting| {
            waiting.ticket == waits
                && waiting.lock.still(waits, behind)
                && Some(waiting.lock.to_string()) == blocker.subject
        })
    }
}
