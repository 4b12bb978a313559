//! A journal that commits only while a test lets it.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use fom_durable::journal::{
    Batch, Journal, JournalError, JournalStats, MemoryJournal, Recover, Recovery,
};

#[derive(Clone, Debug, Default)]
pub(crate) struct Gated {
    pub(crate) journal: MemoryJournal,
    gate: Arc<(Mutex<Gate>, Condvar)>,
}

#[derive(Debug, Default)]
struct Gate {
    /// Commits that may go through, and commits that came.
    let_through: usize,
    asked: usize,
}

impl Gated {
    /// Lets all commits through, or no more.
    pub(crate) fn open(&self, open: bool) {
        let mut gate = self.gate.0.lock().unwrap();
        gate.let_through = if open { usize::MAX } else { gate.asked };
        self.gate.1.notify_all();
    }

    /// Lets one more commit through.
    pub(crate) fn let_one(&self) {
        self.gate.0.lock().unwrap().let_through += 1;
        self.gate.1.notify_all();
    }

    /// Waits until `commits` commits have been asked for in all.
    pub(crate) fn wait_for_asked(&self, commits: usize) {
        let gate = self.gate.0.lock().unwrap();
        let limit = Duration::from_secs(20);
        let waited = self
            .gate
            .1
            .wait_timeout_while(gate, limit, |gate| gate.asked < commits);
        assert!(
            !waited.unwrap().1.timed_out(),
            "commit {commits} was never asked for"
        );
    }
}

impl Journal for Gated {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.journal.recover(to)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let mut gate = self.gate.0.lock().unwrap();
        gate.asked += 1;
        let number = gate.asked;
        self.gate.1.notify_all();
        while gate.let_through < number {
            gate = self.gate.1.wait(gate).unwrap();
        }
        drop(gate);
        self.journal.commit(batch)
    }

    fn stats(&self) -> JournalStats {
        self.journal.stats()
    }
}
