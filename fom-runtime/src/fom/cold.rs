//! The state that few foms have: a key, a history, and waiters.

use std::{any::TypeId, collections::VecDeque, sync::OnceLock, task::Waker};

use tokio::sync::oneshot;

use crate::{
    fom::{
        Seen, Ticket,
        attached::Attachments,
        durability::{DurableFom, Effects, KeptFom},
        failure::Failing,
        gate::GateState,
        key_wait::Turn,
    },
    id::Key,
    snapshot::Meta,
    step_key::EventId,
};
use fom_protocol::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64},
};

/// The maximum history capacity that is allocated with the fom. The history grows on demand.
const HISTORY_AT_ONCE: usize = 64;

/// The state beside the fom, made on demand.
#[derive(Default)]
pub(crate) struct Cold {
    pub(crate) key: Option<Key>,
    pub(crate) history: Option<Box<Mutex<VecDeque<Seen>>>>,
    /// The visits of phases since this was made, as far as they are counted. Written by the thread that runs the fom.
    pub(crate) visits: AtomicU64,
    pub(crate) cold_rare: OnceLock<Box<ColdRare>>,
    /// The saved state, if the fom was saved before.
    pub(crate) saved: Option<Box<WasSaved>>,
    /// What durability keeps beside the fom, if it keeps anything.
    pub(crate) durable: Option<Box<dyn DurableFom>>,
    /// The resume function has failed, and must run again before the next attempt. Written by the thread that runs
    /// the fom.
    pub(crate) owes_resume: AtomicBool,
    /// The fom held the gate of its phase before it came back, and has made no step since. Written by the thread that
    /// runs the fom.
    pub(crate) held_gate: AtomicBool,
    /// The fom came back from the journal.
    pub(crate) came_back: bool,
    /// The state that decides when the fom may begin.
    pub(super) turn: Turn,
    /// Given back when the fom has ended.
    pub(crate) ticket: Mutex<Option<Ticket>>,
    /// The key that the fom shares with the fom that submitted it.
    pub(crate) chained: Option<Box<(TypeId, Key)>>,
    /// The fom waits for its next attempt and has lent its room to another fom. Written by the thread that runs the
    /// fom.
    pub(super) paused: AtomicBool,
    pub(crate) waits: Mutex<Waits>,
    /// The gate, if the fom has entered a phase that has a gate.
    pub(crate) gate: Mutex<Option<Box<GateState>>>,
}

/// The state that hardly any visit needs. It is separate because each fom that is kept in a journal has a [`Cold`],
/// and there may be very many.
#[derive(Default)]
pub(crate) struct ColdRare {
    /// What to send at the next transition. Written by the thread that runs the fom.
    pub(crate) outbox: Mutex<Option<Box<dyn Effects>>>,
    /// The last event that the function has taken, if no journal keeps the fom and the sender gave the event an id.
    pub(crate) event: Mutex<Option<EventId>>,
    /// The causes of the failed attempts of this visit.
    pub(crate) causes: Mutex<Vec<String>>,
    /// The failure of this visit, if its phase declares where to go then.
    pub(crate) failing: Mutex<Option<Box<Failing>>>,
    /// The details from other packages.
    pub(super) attachments: Attachments,
}

impl ColdRare {
    pub(crate) fn with_causes(causes: Vec<String>) -> Self {
        Self {
            causes: Mutex::new(causes),
            ..Self::default()
        }
    }
}

/// The saved state of a fom that is submitted again.
#[derive(Default)]
pub(crate) struct WasSaved {
    /// The rest of its deadline.
    pub(crate) left: Option<u64>,
    /// The number of failed attempts.
    pub(crate) tries: u32,
    /// A deadline that an earlier phase keeps over this one, on the runtime's clock, and the index of that phase.
    pub(crate) kept_deadline: Option<(u64, usize)>,
}

impl Cold {
    pub(crate) fn new(
        key: Option<Key>,
        history: usize,
        meta: &Meta,
        durable: Option<Box<dyn DurableFom>>,
    ) -> Box<Self> {
        Box::new(Self {
            key,
            history: (history > 0)
                .then(|| VecDeque::with_capacity(history.min(HISTORY_AT_ONCE)))
                .map(|history| Box::new(Mutex::new(history))),
            visits: AtomicU64::new(0),
            cold_rare: OnceLock::new(),
            saved: (meta.left.is_some() || meta.attempt > 0).then(|| {
                Box::new(WasSaved {
                    left: meta.left,
                    tries: meta.attempt,
                    kept_deadline: None,
                })
            }),
            durable,
            owes_resume: AtomicBool::new(false),
            held_gate: AtomicBool::new(false),
            came_back: false,
            turn: Turn::default(),
            ticket: Mutex::default(),
            chained: None,
            paused: AtomicBool::new(false),
            waits: Mutex::default(),
            gate: Mutex::default(),
        })
    }

    /// Returns the state of the fom's transitions, if they are kept.
    pub(crate) fn kept(&self) -> Option<&dyn KeptFom> {
        self.durable.as_deref()?.kept()
    }

    /// Gives later effects another key, if no journal keeps the fom: `visits` counts these keys. Only the thread that
    /// runs the fom calls this.
    #[cold]
    pub(crate) fn next_effect(&self) {
        if self.kept().is_none() {
            fom_protocol::count(&self.visits, 1);
        }
    }
}

#[derive(Default)]
pub(crate) struct Waits {
    /// The waker of the handle.
    pub(crate) waker: Option<Waker>,
    pub(super) watchers: Vec<Watcher>,
}

/// A wait for one of a set of phases.
pub(crate) struct Watcher {
    phases: Vec<usize>,
    tell: Option<oneshot::Sender<Told>>,
}

/// The answer to a [`Watcher`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Phase(usize),
    Ended,
}

impl Watcher {
    pub(crate) fn new(phases: Vec<usize>, tell: oneshot::Sender<Told>) -> Self {
        Self {
            phases,
            tell: Some(tell),
        }
    }

    /// Returns whether the watcher waits for `told`, or has given up.
    pub(super) fn hears(&self, told: Told) -> bool {
        !matches!(told, Told::Phase(index) if !self.phases.contains(&index)) || self.is_gone()
    }

    fn is_gone(&self) -> bool {
        self.tell.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    pub(super) fn tell(&mut self, told: Told) {
        if let Some(tell) = self.tell.take() {
            // The receiver may have given up.
            let _ = tell.send(told);
        }
    }

    /// Tells the end of the fom: in this phase, or in the failed outcome.
    pub(super) fn tell_end(&mut self, phase: Option<usize>) {
        let told = phase.map(Told::Phase).filter(|told| self.hears(*told));
        self.tell(told.unwrap_or(Told::Ended));
    }
}

impl Waits {
    pub(super) fn watch(&mut self, watcher: Watcher) {
        // Removes finished waits before the list grows. A fom may stay in one phase for long while many waits time out.
        if self.watchers.len() == self.watchers.capacity() {
            self.watchers.retain(|watcher| !watcher.is_gone());
        }
        self.watchers.push(watcher);
    }
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use super::*;

    /// A wait that is over is soon removed, even if the fom does not move.
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
