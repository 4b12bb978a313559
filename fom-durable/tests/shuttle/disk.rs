//! A journal for the models: it takes its time, fails now and then, and records what it was asked for. In half of the runs it
//! begins commits, and another thread ends them.
//!
//! Seeded, caught by most models of commits: an end that neither commits what came meanwhile nor wakes the thread (a deadlock);
//! the thread that works while another commit is under way (what was acknowledged is not in the journal).

use std::collections::BTreeMap;

use fom_durable::journal::{
    Batch, Change, Committed, EntryId, Journal, JournalError, JournalStats, MemoryJournal, Recover,
    Recovery,
};
use shuttle::rand::{Rng, thread_rng};

use super::*;

/// Clones are the same disk.
#[derive(Clone, Default)]
pub(super) struct Disk(Arc<Shared>);

#[derive(Default)]
struct Shared {
    kept: MemoryJournal,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of commits that may still fail.
    faults: usize,
    /// The mark of each entry that was ever put, as the journal has it or last had it.
    marks: BTreeMap<EntryId, usize>,
    /// The number of times each fom came back.
    back: BTreeMap<FomId, usize>,
    /// The number of foms that came to their end.
    arrived: usize,
    /// Whether a commit is under way.
    commits: bool,
}

/// The sign before a mark in a record. Times and random numbers have all single bytes, but never this word.
const SIGN: &str = "mark ";

/// What an operation keeps so that its records show the order in which they were written.
pub(super) fn mark(number: usize) -> String {
    format!("{SIGN}{number:03}")
}

fn mark_in(bytes: &[u8]) -> Option<usize> {
    let mut words = bytes.windows(SIGN.len() + 3);
    let mark = words.find(|word| word.starts_with(SIGN.as_bytes()))?;
    std::str::from_utf8(&mark[SIGN.len()..]).ok()?.parse().ok()
}

fn entry(fom: FomId) -> EntryId {
    EntryId(EntryId::HEAD.0 + fom.get())
}

impl Disk {
    /// A disk on which at most this many commits fail.
    pub(super) fn failing(faults: usize) -> Self {
        let disk = Self::default();
        disk.0.state.lock().unwrap().faults = faults;
        disk
    }

    /// A disk that has these entries from before.
    pub(super) fn keeping(entries: &[(EntryId, Vec<u8>)]) -> Self {
        let disk = Self::default();
        let mut batch = Batch::new();
        for (id, bytes) in entries {
            batch.put(*id, bytes);
        }
        batch.end_group();
        disk.0.kept.clone().commit(&batch).unwrap();
        disk
    }

    /// Returns all entries.
    pub(super) fn all(&self) -> Vec<(EntryId, Vec<u8>)> {
        let kept = &self.0.kept;
        let ids = kept.ids().into_iter();
        ids.map(|id| (id, kept.entry(id).unwrap())).collect()
    }

    /// A runtime with this journal.
    pub(super) fn bench(
        &self,
        localities: usize,
        change: impl FnOnce(Builder) -> Builder,
    ) -> Bench {
        Bench::with(localities, MOST, |builder| {
            let disk = self.clone();
            let builder = builder.resource(self.clone()).listen(move |transition| {
                if transition.cause() == TransitionCause::Resumed {
                    *disk
                        .0
                        .state
                        .lock()
                        .unwrap()
                        .back
                        .entry(transition.id())
                        .or_default() += 1;
                    disk.0.changed.notify_all();
                }
            });
            change(builder.journal_with(self.clone()))
        })
    }

    /// Returns the last mark that the journal has of this fom.
    pub(super) fn mark_of(&self, fom: FomId) -> Option<usize> {
        let marks = &self.0.state.lock().unwrap().marks;
        marks.get(&entry(fom)).copied()
    }

    /// Returns the ids of the entries, without those that say how entries are read.
    pub(super) fn entries(&self) -> Vec<EntryId> {
        let ids = self.0.kept.ids().into_iter();
        ids.filter(|id| *id >= EntryId::HEAD).collect()
    }

    /// Returns the number of times this fom came back.
    pub(super) fn back(&self, fom: FomId) -> usize {
        let state = self.0.state.lock().unwrap();
        state.back.get(&fom).copied().unwrap_or(0)
    }

    /// Waits until the disk has this many entries.
    pub(super) fn wait_for_entries(&self, entries: usize) {
        self.wait(|_| self.entries().len() == entries);
    }

    /// Waits until this is the last mark put for this fom.
    pub(super) fn wait_for_mark(&self, fom: FomId, mark: usize) {
        self.wait(|state| state.marks.get(&entry(fom)) == Some(&mark));
    }

    /// Called by a fom in its last step.
    pub(super) fn arrived(&self) {
        self.0.state.lock().unwrap().arrived += 1;
        self.0.changed.notify_all();
    }

    /// Waits until this many foms have arrived.
    pub(super) fn wait_for_arrived(&self, foms: usize) {
        self.wait(|state| state.arrived == foms);
    }

    /// Waits until this fom has come back.
    pub(super) fn wait_for_back(&self, fom: FomId) {
        self.wait(|state| state.back.contains_key(&fom));
    }

    /// Waits until this many foms have come back, or no entry is left.
    pub(super) fn wait_for_back_or_gone(&self, foms: usize) {
        self.wait(|state| state.back.len() >= foms || self.entries().is_empty());
    }

    fn wait(&self, until: impl Fn(&State) -> bool) {
        let mut state = self.0.state.lock().unwrap();
        while !until(&state) {
            state = self.0.changed.wait(state).unwrap();
        }
    }
}

impl Journal for Disk {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.0.kept.clone().recover(to)
    }

    fn commits_later(&self) -> bool {
        thread_rng().gen_bool(0.5)
    }

    fn commit_later(&mut self, batch: &Batch, done: Committed) -> Option<Committed> {
        if thread_rng().gen_bool(0.1) {
            return Some(done);
        }
        let (mut disk, batch) = (self.clone(), batch.clone());
        disk.begin();
        thread::spawn(move || {
            let result = disk.append(&batch);
            disk.end();
            done(result);
        });
        None
    }

    fn settle(&mut self, _: bool) {
        assert!(!self.0.state.lock().unwrap().commits);
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.begin();
        let result = self.append(batch);
        self.end();
        result
    }

    fn stats(&self) -> JournalStats {
        self.0.kept.stats()
    }
}

impl Disk {
    fn begin(&self) {
        let before = std::mem::replace(&mut self.0.state.lock().unwrap().commits, true);
        assert!(!before, "one commit is under way");
    }

    fn end(&self) {
        self.0.state.lock().unwrap().commits = false;
    }

    fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
        // The sync takes its time.
        thread::yield_now();
        let mut state = self.0.state.lock().unwrap();
        if state.faults > 0 && thread_rng().gen_bool(0.4) {
            state.faults -= 1;
            drop(state);
            let full = std::io::ErrorKind::StorageFull.into();
            return Err(JournalError::io("write", "here", full));
        }
        for change in batch.groups().flat_map(|group| group.changes()) {
            if let Change::Put { id, bytes } = change
                && let Some(mark) = mark_in(bytes)
            {
                let before = state.marks.insert(id, mark);
                assert!(
                    before.is_none_or(|before| before < mark),
                    "{id} stood at {before:?} before {mark}"
                );
            }
        }
        let mut kept = self.0.kept.clone();
        kept.commit(batch)?;
        drop(state);
        self.0.changed.notify_all();
        // Committed, but not answered yet.
        thread::yield_now();
        Ok(())
    }
}

/// Ends the only fom of a model after a commit that failed. Any other failure fails the model.
pub(super) fn end_after_failed_commit<O: Operation>(
    bench: &Bench,
    disk: &Disk,
    id: FomId,
    key: &str,
    failure: &Failure<O>,
) where
    Failure<O>: std::fmt::Debug,
{
    assert!(matches!(failure.cause, Cause::Journal(_)), "{failure:?}");
    if disk.mark_of(id).is_none() {
        return;
    }
    // The fom comes back and waits. Or it had ended, and its end is committed by now.
    disk.wait_for_back_or_gone(1);
    if let Some(fom) = bench.runtime.find::<O>(key) {
        assert_eq!(fom.id(), id);
        fom.cancel();
    }
}
