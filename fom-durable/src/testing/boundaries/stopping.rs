//! A journal that stops the world after a number of commits: earlier commits are kept, later commits are lost.

use std::{collections::BTreeSet, sync::Arc, task::Waker};

use fom_journal::{
    Batch, Change, EntryId, Group, Journal, JournalError, JournalStats, MemoryJournal, Recover,
    Recovery,
};

use fom_protocol::sync::{Condvar, Mutex};

/// The test's view of the journal.
#[derive(Clone, Debug)]
pub(super) struct Stop(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of committed groups of foms.
    commits: u64,
    /// Number of commits that are kept.
    most: u64,
    /// Whether a commit came after the last one that is kept.
    stopped: bool,
    /// Whether callers that wait for a lost commit may go.
    released: bool,
    /// Entries that were kept and never acknowledged.
    unheard: BTreeSet<EntryId>,
    /// The task that waits for the stop.
    waker: Option<Waker>,
}

/// Keeps only the first groups of foms.
#[derive(Debug)]
pub(super) struct Stopping {
    journal: MemoryJournal,
    stop: Stop,
}

impl Stop {
    pub(super) fn after(most: u64) -> Self {
        let state = State {
            most,
            ..State::default()
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            released: Condvar::default(),
        }))
    }

    pub(super) fn journal(&self, journal: &MemoryJournal) -> Stopping {
        Stopping {
            journal: journal.clone(),
            stop: self.clone(),
        }
    }

    pub(super) fn commits(&self) -> u64 {
        self.0.state.lock().commits
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.0.state.lock().stopped
    }

    pub(super) fn unheard(&self) -> BTreeSet<EntryId> {
        self.0.state.lock().unheard.clone()
    }

    /// Answers the callers that wait for lost commits. The runtime is closed, so nothing follows from the answer.
    pub(super) fn release(&self) {
        self.0.state.lock().released = true;
        self.0.released.notify_all();
    }

    /// Sets the task to wake at the stop.
    pub(super) fn wakes(&self, waker: &Waker) {
        self.0.state.lock().waker = Some(waker.clone());
    }
}

/// Whether the group is about foms, and not about the runtime's own entries.
fn is_of_foms(group: &Group<'_>) -> bool {
    group.changes().any(|change| id(&change) >= EntryId::HEAD)
}

fn id(change: &Change<'_>) -> EntryId {
    match change {
        Change::Put { id, .. } | Change::Delete { id } => *id,
    }
}

fn add(group: &Group<'_>, to: &mut Batch) {
    for change in group.changes() {
        match change {
            Change::Put { id, bytes } => to.put(id, bytes),
            Change::Delete { id } => to.delete(id),
        }
    }
    to.end_group();
}

impl Journal for Stopping {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.journal.recover(to)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let mut state = self.stop.0.state.lock();
        let mut kept = Batch::new();
        let mut all = !state.stopped;
        if all {
            let mut unheard = BTreeSet::new();
            for group in batch.groups() {
                if is_of_foms(&group) {
                    if state.commits == state.most {
                        all = false;
                        continue;
                    }
                    state.commits += 1;
                    unheard.extend(group.changes().map(|change| id(&change)));
                }
                add(&group, &mut kept);
            }
            if all || kept.groups().any(|group| is_of_foms(&group)) {
                self.journal.commit(&kept)?;
            }
            if !all {
                state.unheard = unheard;
                state.stopped = true;
                if let Some(waker) = state.waker.take() {
                    waker.wake();
                }
            }
        }
        if all {
            return Ok(());
        }
        // As after a crash, no caller hears of the commit.
        while !state.released {
            state = self.stop.0.released.wait(state);
        }
        Err(JournalError::Closed)
    }

    fn stats(&self) -> JournalStats {
        self.journal.stats()
    }
}
