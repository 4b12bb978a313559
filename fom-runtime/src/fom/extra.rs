//! What few foms have: a key, a history, and somebody who waits for them.

use std::{
    any::{Any, TypeId},
    collections::VecDeque,
    sync::{Arc, OnceLock, Weak},
    task::Waker,
};

use tokio::sync::oneshot;

use crate::{
    durable::{EventId, Kept, Once, Outbox},
    fom::{Gathering, Seen, failing::Failing, turn::Turn},
    id::Key,
    lock::FomLocks,
    snapshot::Meta,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64},
    },
};

/// The most lines of history that are allocated with the fom; more come as they are needed.
const HISTORY_AT_ONCE: usize = 64;

/// Says of a fom what its header has no room for.
pub(crate) trait Explain: Send + Sync {
    /// What it waits for, when it says that it waits for an active object.
    fn waits_for(&self) -> String;
    /// What it has not taken yet.
    fn queued(&self) -> usize;
    /// Nothing, while it has something to do. While it waits for others to call it: a number that grows with each call.
    fn rests(&self) -> Option<u64>;
    /// Nobody will call it any more.
    fn end(&self);
}

/// Beside the fom, made when it is needed.
#[derive(Default)]
pub(crate) struct Extra {
    pub(crate) key: Option<Key>,
    pub(crate) history: Option<Box<Mutex<VecDeque<Seen>>>>,
    /// Visits of phases since it was made, as far as they were to be counted. Written by the thread that runs the fom.
    pub(crate) visits: AtomicU64,
    pub(crate) rare: OnceLock<Box<Rare>>,
    /// If it was saved before.
    pub(crate) saved: Option<Box<WasSaved>>,
    /// If it is kept in a journal.
    pub(crate) kept: Option<Box<Kept>>,
    /// What it does when it comes back has failed, and is to be done again before the next attempt. Written by the thread that runs the
    /// fom.
    pub(crate) owes_resume: AtomicBool,
    /// It held the locks of its phase before it came back, and has made no step since. The thread that runs the fom
    /// writes this.
    pub(crate) held_locks: AtomicBool,
    /// It came back out of the journal.
    pub(crate) came_back: bool,
    /// Which key of which lanes it keeps until it ends, as [`LanePlace::word`](crate::lanes::LanePlace::word); zero for none. Only the
    /// thread that has its locality's core.
    pub(crate) lane: AtomicU64,
    /// If it was submitted with an operation id.
    pub(crate) once: Option<Box<Once>>,
    /// When it may begin.
    pub(super) turn: Turn,
    /// What is dropped when it has ended.
    pub(crate) ticket: Mutex<Option<Ticket>>,
    /// The key that it has together with the fom that submitted it.
    pub(crate) chained: Option<Box<(TypeId, Key)>>,
    /// It waits for its next attempt, and there is room for another one meanwhile. Written by the thread that runs the fom.
    pub(super) paused: AtomicBool,
    pub(super) waits: Mutex<Waits>,
    /// If it ever waited for a long lock, or held one that a phase declares.
    pub(crate) locks: Mutex<Option<Box<FomLocks>>>,
}

/// What hardly any visit of a phase needs. Apart, since a fom that is kept in a journal has an [`Extra`], and there may be very many.
#[derive(Default)]
pub(crate) struct Rare {
    /// What is sent at the next transition. Written by the thread that runs the fom.
    pub(crate) outbox: Mutex<Outbox>,
    /// The last event that its function has taken, if no journal keeps the fom and the sender gave the event an id.
    pub(crate) event: Mutex<Option<EventId>>,
    /// What the failed attempts of this visit said.
    pub(crate) causes: Mutex<Vec<String>>,
    /// If this visit has failed, and its phase says where to go then.
    pub(crate) failing: Mutex<Option<Box<Failing>>>,
    /// The helpers that it waits for, as long as it keeps their team.
    pub(crate) team: Mutex<Weak<Gathering>>,
    /// Of an active object.
    pub(crate) explains: OnceLock<Weak<dyn Explain>>,
}

impl Rare {
    pub(crate) fn with_causes(causes: Vec<String>) -> Self {
        Self {
            causes: Mutex::new(causes),
            ..Self::default()
        }
    }
}

/// How a fom stood that is submitted again.
#[derive(Default)]
pub(crate) struct WasSaved {
    /// What was left of its deadline.
    pub(crate) left: Option<u64>,
    /// Attempts that had failed.
    pub(crate) tries: u32,
    /// A deadline that an earlier phase keeps over its own, on the runtime's clock, and which phase.
    pub(crate) kept_deadline: Option<(u64, usize)>,
}

/// Dropped when a fom has ended, in whatever way, or could not be made: whoever lent it something has it back.
pub(crate) type Ticket = Box<dyn Any + Send>;

impl Extra {
    pub(crate) fn new(
        key: Option<Key>,
        history: usize,
        meta: &Meta,
        kept: Option<Box<Kept>>,
    ) -> Box<Self> {
        Box::new(Self {
            key,
            history: (history > 0)
                .then(|| VecDeque::with_capacity(history.min(HISTORY_AT_ONCE)))
                .map(|history| Box::new(Mutex::new(history))),
            visits: AtomicU64::new(0),
            rare: OnceLock::new(),
            saved: (meta.left.is_some() || meta.attempt > 0).then(|| {
                Box::new(WasSaved {
                    left: meta.left,
                    tries: meta.attempt,
                    kept_deadline: None,
                })
            }),
            kept,
            owes_resume: AtomicBool::new(false),
            held_locks: AtomicBool::new(false),
            came_back: false,
            lane: AtomicU64::new(0),
            once: None,
            turn: Turn::default(),
            ticket: Mutex::default(),
            chained: None,
            paused: AtomicBool::new(false),
            waits: Mutex::default(),
            locks: Mutex::default(),
        })
    }

    /// Effects from here on have another key, if no journal keeps the fom: this counts those keys. Only the thread that
    /// runs the fom.
    #[cold]
    pub(super) fn next_effect(&self) {
        if self.kept.is_none() {
            crate::protocol::count(&self.visits, 1);
        }
    }
}

#[derive(Default)]
pub(super) struct Waits {
    /// Of the one who has the handle.
    pub(super) waker: Option<Waker>,
    pub(super) watchers: Vec<Watcher>,
}

/// Somebody who waits for one of a set of phases.
pub(crate) struct Watcher {
    phases: Vec<usize>,
    tell: Option<Tell>,
}

/// Who is told.
enum Tell {
    One(oneshot::Sender<Told>),
    /// The team that the fom is a member of, and its place there.
    Team(Weak<Gathering>, usize),
}

/// What a [`Watcher`] is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Phase(usize),
    Ended,
}

impl Watcher {
    pub(crate) fn new(phases: Vec<usize>, tell: oneshot::Sender<Told>) -> Self {
        Self {
            phases,
            tell: Some(Tell::One(tell)),
        }
    }

    /// Waits for the end alone.
    pub(crate) fn of_team(team: &Arc<Gathering>, place: usize) -> Self {
        Self {
            phases: Vec::new(),
            tell: Some(Tell::Team(Arc::downgrade(team), place)),
        }
    }

    /// Whether this is what it waits for, or it waits no more.
    pub(super) fn hears(&self, told: Told) -> bool {
        !matches!(told, Told::Phase(index) if !self.phases.contains(&index)) || self.is_gone()
    }

    fn is_gone(&self) -> bool {
        match &self.tell {
            Some(Tell::One(tell)) => tell.is_closed(),
            Some(Tell::Team(team, _)) => team.strong_count() == 0,
            None => true,
        }
    }

    pub(super) fn tell(&mut self, told: Told) {
        // Who waited may have given up; then there is nobody to tell.
        match self.tell.take() {
            Some(Tell::One(tell)) => drop(tell.send(told)),
            Some(Tell::Team(team, place)) => {
                if let Some(team) = team.upgrade() {
                    team.ended(place);
                }
            }
            None => {}
        }
    }

    /// Of the end of the fom, in this phase or in the failed outcome.
    pub(super) fn tell_end(&mut self, phase: Option<usize>) {
        let told = phase.map(Told::Phase).filter(|told| self.hears(*told));
        self.tell(told.unwrap_or(Told::Ended));
    }
}

impl Waits {
    pub(super) fn watch(&mut self, watcher: Watcher) {
        // Instead of growing: a fom may stay in one phase for long, while wait after wait for it times out.
        if self.watchers.len() == self.watchers.capacity() {
            self.watchers.retain(|watcher| !watcher.is_gone());
        }
        self.watchers.push(watcher);
    }
}

#[cfg(all(test, not(any(fom_loom, fom_shuttle))))]
mod tests {
    use super::*;

    /// A wait that is over leaves nothing behind for long, also when the fom does not move.
    #[test]
    fn waits_that_were_given_up_do_not_pile_up() {
        let mut waits = Waits::default();
        let (tell, _kept) = oneshot::channel();
        waits.watch(Watcher::new(vec![1], tell));
        for _ in 0..1000 {
            let (tell, _) = oneshot::channel();
            waits.watch(Watcher::new(vec![1], tell));
        }
        assert!(waits.watchers.len() <= 4);
    }
}
