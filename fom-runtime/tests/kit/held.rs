//! A journal that commits, fails and tidies as a test directs.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use fom_durable::journal::{
    Batch, Journal, JournalError, JournalStats, MemoryJournal, Recover, Recovery,
};

/// The longest time that a wait may take.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pub(crate) journal: MemoryJournal,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    holds_commits: bool,
    holds_tidying: bool,
    fails: bool,
    /// Commits that were asked for, done, and failed.
    asked: usize,
    done: usize,
    failed: usize,
    /// How often `tidy` was called.
    tidied: usize,
}

impl Held {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.0.lock().unwrap());
        self.state.1.notify_all();
    }

    /// Makes commits wait from now on, or lets them go.
    pub(crate) fn hold_commits(&self, holds: bool) {
        self.change(|state| state.holds_commits = holds);
    }

    /// Makes the journal wait after each commit from now on, or lets it go.
    pub(crate) fn hold_tidying(&self, holds: bool) {
        self.change(|state| state.holds_tidying = holds);
    }

    /// Makes the disk full, or not.
    pub(crate) fn fail(&self, fails: bool) {
        self.change(|state| state.fails = fails);
    }

    pub(crate) fn asked(&self) -> usize {
        self.state.0.lock().unwrap().asked
    }

    pub(crate) fn done(&self) -> usize {
        self.state.0.lock().unwrap().done
    }

    pub(crate) fn tidied(&self) -> usize {
        self.state.0.lock().unwrap().tidied
    }

    /// Returns whether `commits` commits are done within this time.
    pub(crate) fn has_done(&self, commits: usize, within: Duration) -> bool {
        self.wait(within, |state| state.done >= commits)
    }

    pub(crate) fn wait_for_asked(&self, commits: usize) {
        let asked = self.wait(LIMIT, |state| state.asked >= commits);
        assert!(asked, "commit {commits} was never asked for");
    }

    pub(crate) fn wait_for_done(&self, commits: usize) {
        let done = self.has_done(commits, LIMIT);
        assert!(done, "commit {commits} was never done");
    }

    pub(crate) fn wait_for_failed(&self, commits: usize) {
        assert!(self.wait(LIMIT, |state| state.failed >= commits));
    }

    pub(crate) fn wait_for_tidied(&self, times: usize) {
        assert!(self.wait(LIMIT, |state| state.tidied >= times));
    }

    fn wait(&self, within: Duration, until: impl Fn(&State) -> bool) -> bool {
        let state = self.state.0.lock().unwrap();
        let waited = self
            .state
            .1
            .wait_timeout_while(state, within, |state| !until(state));
        !waited.unwrap().1.timed_out()
    }
}

impl Journal for Held {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.journal.recover(to)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.change(|state| state.asked += 1);
        let state = self.state.0.lock().unwrap();
        let held = |state: &mut State| state.holds_commits;
        let fails = self.state.1.wait_while(state, held).unwrap().fails;
        if fails {
            self.change(|state| state.failed += 1);
            let full = std::io::ErrorKind::StorageFull.into();
            return Err(JournalError::io("write", "here", full));
        }
        let done = self.journal.commit(batch);
        self.change(|state| state.done += 1);
        done
    }

    fn tidy(&mut self) -> Result<bool, JournalError> {
        self.change(|state| state.tidied += 1);
        let state = self.state.0.lock().unwrap();
        let held = |state: &mut State| state.holds_tidying;
        drop(self.state.1.wait_while(state, held).unwrap());
        self.journal.tidy()
    }

    fn stats(&self) -> JournalStats {
        self.journal.stats()
    }
}
