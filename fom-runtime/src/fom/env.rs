//! What the foms of a runtime share.

use std::collections::VecDeque;

use fom_protocol::sync::Mutex;

use crate::{clock::Clock, fom::Hooks};

/// The number of incidents kept.
const INCIDENTS: usize = 64;

/// What the foms of a runtime share: the clock, the listeners and the list of incidents.
pub(crate) struct Env {
    pub(crate) clock: Clock,
    pub(crate) hooks: Hooks,
    /// The most events kept for one fom.
    pub(crate) mailbox: usize,
    /// The number of phases kept for each fom.
    pub(crate) history: usize,
    incidents: Mutex<VecDeque<String>>,
}

impl Env {
    pub(crate) fn new(clock: Clock, journaled: bool, mailbox: usize, history: usize) -> Self {
        Self {
            clock,
            hooks: Hooks::new(journaled),
            mailbox,
            history,
            incidents: Mutex::new(VecDeque::new()),
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
