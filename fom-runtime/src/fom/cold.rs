//! The state that few foms have: a key, a state in the journal, a waiting handle, and what is rarer.

use std::task::Waker;

use tokio::sync::oneshot;

use crate::{
    attempt::Tried,
    fom::{
        Env, PartTicket,
        attached::Attachments,
        durability::{DurableFom, Effects, FomRecord, KeptFom},
        failure::Failing,
        gate::GateState,
        history::History,
        initial::{Initial, WasSaved},
        key_wait::{Delay, Keys},
    },
    graph::Graph,
    id::{Key, KeyHash},
    snapshot::Unread,
    step_key::EventId,
};
use fom_protocol::{
    LazyBox,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// The state beside the fom, made on demand. It is [`SMALL`](crate::heap::SMALL), because another thread may free it.
#[derive(Default)]
pub(crate) struct Cold {
    pub(crate) keys: Keys,
    /// The hash of its own turn, if it is known.
    pub(super) turn_hash: Option<KeyHash>,
    /// The visits of phases since this was made, as far as they are counted. Written by the thread that runs the fom.
    visits: AtomicU64,
    rare: LazyBox<ColdRare>,
    /// What few foms are made with.
    pub(crate) initial: Option<Box<Initial>>,
    /// The state of the fom's transitions, if they are kept.
    kept: Option<Box<dyn KeptFom>>,
    pub(crate) back: Back,
    pub(crate) retry: Retry,
    /// The waker of the handle.
    pub(crate) waker: Mutex<Option<Waker>>,
    ties: LazyBox<Ties>,
}

/// What some foms are tied to, and their history.
#[derive(Default)]
pub(crate) struct Ties {
    /// The gate, if the fom has entered a phase that has a gate.
    pub(super) gate: Mutex<Option<Box<GateState>>>,
    /// The part that learns of the end of the fom.
    pub(super) part: Mutex<Option<PartTicket>>,
    /// The waits for phases.
    pub(super) watchers: Mutex<Vec<Watcher>>,
    /// The last visits, if the runtime keeps them.
    history: Option<History>,
}

/// What is known of a fom that came back from the journal.
#[derive(Default)]
pub(crate) struct Back {
    /// The fom came back from the journal.
    pub(crate) came_back: bool,
    /// The fom held the gate of its phase before it came back, and has made no step since. Written by the thread that
    /// runs the fom.
    held_gate: AtomicBool,
}

impl Back {
    /// Returns what is known of a fom that came back just now.
    pub(crate) fn restored(held_gate: bool) -> Self {
        Self {
            came_back: true,
            held_gate: AtomicBool::new(held_gate),
        }
    }

    pub(crate) fn held_gate(&self) -> bool {
        self.held_gate.load(Ordering::Relaxed)
    }

    /// Records a step of the fom. From then on, only the gate that it holds now counts.
    pub(crate) fn forget_held_gate(&self) {
        self.held_gate.store(false, Ordering::Relaxed);
    }
}

/// What a fom does before its next attempt. Written by the thread that runs the fom.
#[derive(Default)]
pub(crate) struct Retry {
    /// The resume function has failed, and must run again before the next attempt.
    owes_resume: AtomicBool,
    /// The fom waits for its next attempt and has lent its room to another fom.
    paused: AtomicBool,
}

impl Retry {
    /// Returns whether the fom must run its resume function again. Only the thread that runs the fom calls this.
    pub(crate) fn owes_resume(&self) -> bool {
        self.owes_resume.load(Ordering::Relaxed)
    }

    pub(crate) fn set_owes_resume(&self, owes: bool) {
        self.owes_resume.store(owes, Ordering::Relaxed);
    }

    fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
    }
}

/// The state that hardly any visit needs. It is separate because each fom that is kept in a journal has a [`Cold`],
/// and there may be very many.
#[derive(Default)]
pub(crate) struct ColdRare {
    /// What to send at the next transition. Written by the thread that runs the fom.
    pub(crate) outbox: Mutex<Option<Box<dyn Effects>>>,
    /// The last event that the function has taken, if no journal keeps the fom and the sender gave the event an id.
    pub(crate) event: Mutex<Option<EventId>>,
    /// The failed attempts of this visit.
    pub(crate) tried: Mutex<Vec<Tried>>,
    /// The failure of this visit, if its phase declares where to go then.
    pub(crate) failing: Mutex<Option<Box<Failing>>>,
    /// Operation and phase as they were when the function of the phase took its data, for a failure.
    pub(crate) given: Mutex<Vec<u8>>,
    /// What this release does not know of the fom, and carries along.
    pub(crate) unread: Mutex<Option<Box<Unread>>>,
    /// The details from other packages.
    pub(crate) attachments: Attachments,
    /// The operation id of a fom with transitions that are not kept.
    identified: Option<Box<dyn DurableFom>>,
    /// Whether the fom has taken a way out of a cancel. Written by the thread that runs the fom.
    heard_cancel: AtomicBool,
    /// Whether the fom has taken the way out of a phase with `cancelled`. Written by the thread that runs the fom.
    turned_back: AtomicBool,
}

impl ColdRare {
    pub(super) fn has_heard_cancel(&self) -> bool {
        self.heard_cancel.load(Ordering::Relaxed)
    }

    pub(super) fn hear_cancel(&self) {
        self.heard_cancel.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_turned_back(&self) -> bool {
        self.turned_back.load(Ordering::Relaxed)
    }

    /// Notes that the fom takes the way out of a phase with `cancelled`. From then on only phases with `cancelled` hear a
    /// cancel. Only the thread that runs the fom, or makes it, calls this.
    pub(crate) fn turn_back(&self) {
        self.turned_back.store(true, Ordering::Relaxed);
    }

    /// Forgets the attempts and the event of the last visit, because a visit begins.
    pub(crate) fn begin_visit(&self) {
        *self.event.lock() = None;
        self.tried.lock().clear();
        *self.given.lock() = Vec::new();
        self.forget_failure();
    }
}

impl Cold {
    /// Returns the state of a fom with a key and nothing else.
    #[inline]
    pub(crate) fn of_key(key: Key, turn_hash: Option<KeyHash>) -> Box<Self> {
        // Made in place, and not on the stack.
        let mut cold = Box::<Self>::default();
        cold.keys.own = Some(key);
        cold.turn_hash = turn_hash;
        cold
    }

    pub(crate) fn new(
        key: Option<Key>,
        turn_hash: Option<KeyHash>,
        history: usize,
        initial: Option<Initial>,
        durable: Option<FomRecord>,
    ) -> Box<Self> {
        let mut cold = Box::<Self>::default();
        cold.keys.own = key;
        cold.turn_hash = turn_hash;
        cold.initial = initial.map(Box::new);
        match durable {
            Some(FomRecord::Kept(kept)) => cold.kept = Some(kept),
            Some(FomRecord::Identified(fom)) => cold.rare.made_mut().identified = Some(fom),
            None => {}
        }
        if history > 0 {
            cold.ties.made_mut().history = Some(History::new(history));
        }
        cold
    }

    #[inline]
    pub(crate) fn rare(&self) -> Option<&ColdRare> {
        self.rare.get()
    }

    /// Returns the [`ColdRare`] state, and makes it if there is none.
    pub(crate) fn rare_made(&self) -> &ColdRare {
        self.rare.made()
    }

    /// Sets the failed attempts of a fom that is not made yet.
    pub(crate) fn set_tried(&mut self, tried: Vec<Tried>) {
        self.rare.made_mut().tried = Mutex::new(tried);
    }

    /// Returns the saved visit, if the fom was made with one.
    pub(crate) fn saved(&self) -> Option<&WasSaved> {
        Some(&self.initial.as_ref()?.saved)
    }

    /// Returns the delay of the fom, until it is over.
    pub(super) fn delay(&self) -> Option<&Delay> {
        let delay = self.initial.as_ref()?.delay.as_ref()?;
        (!delay.is_over()).then_some(delay)
    }

    pub(super) fn ties(&self) -> Option<&Ties> {
        self.ties.get()
    }

    /// Returns the [`Ties`], and makes them if there are none.
    pub(super) fn ties_made(&self) -> &Ties {
        self.ties.made()
    }

    /// Returns the history, if the runtime keeps one.
    pub(crate) fn history(&self) -> Option<&History> {
        self.ties()?.history.as_ref()
    }

    pub(super) fn visits(&self) -> u64 {
        self.visits.load(Ordering::Relaxed)
    }

    /// Counts a visit, and adds a line to the history, if there is one, of `most` lines.
    pub(crate) fn remember(&self, index: usize, now: u64, most: usize) {
        fom_protocol::count(&self.visits, 1);
        if let Some(history) = self.history() {
            history.remember(index, now, most);
        }
    }

    /// Returns the state of the fom's transitions, if they are kept.
    #[inline]
    pub(crate) fn kept(&self) -> Option<&dyn KeptFom> {
        self.kept.as_deref()
    }

    /// Returns what durability keeps beside the fom, if it keeps anything.
    pub(crate) fn durable(&self) -> Option<&dyn DurableFom> {
        match &self.kept {
            Some(kept) => Some(&**kept),
            None => self.rare()?.identified.as_deref(),
        }
    }

    /// Gives later effects another key, if no journal keeps the fom: the history counts these keys. Only the thread
    /// that runs the fom calls this.
    #[cold]
    pub(crate) fn next_effect(&self) {
        if self.kept().is_none() {
            fom_protocol::count(&self.visits, 1);
        }
    }

    /// Pauses the fom until its next attempt. A waiting fom with a key lends its room to another fom. Only the thread
    /// that runs the fom calls this.
    pub(super) fn pause(&self, env: &Env) {
        if self.keys.own.is_some() && !self.retry.is_paused() && env.pause_room() {
            self.retry.set_paused(true);
        }
    }

    /// Ends the pause, after which the fom needs its room again. Only the thread that runs the fom calls this.
    pub(super) fn go_on(&self, env: &Env) {
        if self.retry.is_paused() {
            self.retry.set_paused(false);
            env.resume_room();
        }
    }
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
    /// The fom is in a phase that leads to none of the phases.
    Unreachable,
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

    /// Returns the answer for a fom that has entered this phase, if the wait is over.
    pub(super) fn answer(&self, graph: &Graph, index: usize) -> Option<Told> {
        let told = Told::Phase(index);
        if self.hears(told) {
            return Some(told);
        }
        // A fom that has not begun is in no phase, and one in an end phase tells its end.
        graph.phases().get(index).filter(|phase| !phase.is_end())?;
        // Without a phase it waits for the end.
        let lasts = self.phases.is_empty() || graph.leads(index, &self.phases);
        (!lasts).then_some(Told::Unreachable)
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

impl Ties {
    pub(super) fn watch(&self, watcher: Watcher) {
        let mut watchers = self.watchers.lock();
        // Removes finished waits before the list grows. A fom may stay in one phase for long while many waits time out.
        if watchers.len() == watchers.capacity() {
            watchers.retain(|watcher| !watcher.is_gone());
        }
        watchers.push(watcher);
    }
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use super::*;
    use crate::heap::SMALL;

    #[test]
    fn the_cold_state_is_small() {
        assert!(size_of::<Cold>() <= SMALL);
    }

    /// A wait that is over is soon removed, even if the fom does not move.
    #[test]
    fn waits_that_were_given_up_do_not_pile_up() {
        let ties = Ties::default();
        let (tell, _kept) = oneshot::channel();
        ties.watch(Watcher::new(vec![1], tell));
        for _ in 0..1000 {
            let (tell, _) = oneshot::channel();
            ties.watch(Watcher::new(vec![1], tell));
        }
        assert!(ties.watchers.lock().len() <= 4);
    }
}
