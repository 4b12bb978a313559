//! What the foms of a runtime share.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};

use fom_protocol::sync::Mutex;

use crate::{
    clock::Clock,
    fom::{Hooks, Recorder},
    id::{FomId, KeyOf},
    step_key::random,
};

/// The number of incidents kept.
const INCIDENTS: usize = 64;

/// What the foms of a runtime share: the clock, the listeners, durability and the list of incidents.
pub(crate) struct Env {
    pub(crate) clock: Clock,
    pub(crate) hooks: Hooks,
    /// The most events kept for one fom.
    pub(crate) mailbox: usize,
    /// The number of phases kept for each fom.
    pub(crate) history: usize,
    /// The number of this run of the program; no other run has it.
    pub(crate) run: u128,
    /// Whether transitions are committed to a journal.
    pub(crate) journaled: bool,
    /// Keeps what must survive the process, if anything must. Set before the first fom of a journal.
    pub(crate) recorder: OnceLock<Arc<dyn Recorder>>,
    incidents: Mutex<VecDeque<String>>,
}

impl Env {
    pub(crate) fn new(clock: Clock, journaled: bool, mailbox: usize, history: usize) -> Self {
        Self {
            clock,
            hooks: Hooks::new(journaled),
            mailbox,
            history,
            run: random(),
            journaled,
            recorder: OnceLock::new(),
            incidents: Mutex::new(VecDeque::new()),
        }
    }

    /// Returns the component that keeps what must survive the process.
    #[inline]
    pub(crate) fn recorder(&self) -> Option<&dyn Recorder> {
        self.recorder.get().map(|recorder| &**recorder)
    }

    /// Returns the number of foms that came back and rest.
    pub(crate) fn resting(&self) -> usize {
        self.recorder().map_or(0, Recorder::resting)
    }

    /// Makes the fom with this id, if it rests.
    pub(crate) fn revive(&self, id: FomId) {
        if let Some(recorder) = self.recorder() {
            recorder.revive(id);
        }
    }

    /// Makes all foms that have this key and rest.
    pub(crate) fn revive_key(&self, of: impl FnOnce() -> KeyOf) {
        if let Some(recorder) = self.recorder()
            && recorder.resting() > 0
        {
            recorder.revive_key(&of());
        }
    }

    /// Notes that a fom that came back has asked for its gate, or will not ask.
    pub(crate) fn has_asked(&self, id: FomId) {
        if let Some(recorder) = self.recorder() {
            recorder.has_asked(id);
        }
    }

    /// Reports a problem that ends no operation.
    pub(crate) fn report(&self, incident: String) {
        let mut incidents = self.incidents.lock();
        if incidents.len() == INCIDENTS {
            incidents.pop_front();
        }
        incidents.push_back(incident);
    }

    /// Returns the latest incidents, the oldest first.
    pub(crate) fn incidents(&self) -> Vec<String> {
        self.incidents.lock().iter().cloned().collect()
    }
}
