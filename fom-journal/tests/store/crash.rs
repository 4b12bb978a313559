//! After any crash a journal holds what was acknowledged, at most what was begun besides, and nothing in part.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};

use fom_journal::{
    Batch, EntryId, FileJournal, Journal,
    disk::{Fault, FaultyDisk, Operation},
};
use proptest::{collection::vec, prelude::*};

use crate::kit::{Given, forgetful::Forgetful};

type Entries = BTreeMap<u64, Vec<u8>>;
/// Changes of entries: the entry, and its length if it is put.
type Changes = Vec<(u64, Option<usize>)>;

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Changes>),
    /// A commit with a failing sync.
    Fail(Vec<Changes>),
    Tidy,
    Reopen,
    /// A crash before an operation of the disk, in a commit.
    CrashIn(Vec<Changes>, Operation, u64, u64),
    /// A crash before an operation of the disk, while the journal tidies.
    CrashTidying(Operation, u64, u64),
    /// A crash before an operation of the disk, while the journal closes.
    CrashClosing(Operation, u64, u64),
    Crash(u64),
    /// The process is killed, and the system continues.
    Kill,
    /// A crash before an operation of the disk, while the journal recovers.
    CrashRecovering(Operation, u64, u64),
}

fn groups() -> impl Strategy<Value = Vec<Changes>> {
    let change = (0u64..24, proptest::option::weighted(0.7, 0usize..60));
    vec(vec(change, 1..4), 1..5)
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        Just(Operation::Write),
        Just(Operation::Sync),
        Just(Operation::SyncDir),
        Just(Operation::Create),
        Just(Operation::Rename),
        Just(Operation::Remove),
        Just(Operation::Open),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => groups().prop_map(Step::Commit),
        1 => groups().prop_map(Step::Fail),
        6 => Just(Step::Tidy),
        1 => Just(Step::Reopen),
        2 => (groups(), operation(), 1u64..4, any::<u64>())
            .prop_map(|(groups, operation, nth, seed)| Step::CrashIn(groups, operation, nth, seed)),
        2 => (operation(), 1u64..4, any::<u64>())
            .prop_map(|(operation, nth, seed)| Step::CrashTidying(operation, nth, seed)),
        1 => (operation(), 1u64..4, any::<u64>())
            .prop_map(|(operation, nth, seed)| Step::CrashClosing(operation, nth, seed)),
        1 => any::<u64>().prop_map(Step::Crash),
        1 => Just(Step::Kill),
        1 => (operation(), 1u64..6, any::<u64>())
            .prop_map(|(operation, nth, seed)| Step::CrashRecovering(operation, nth, seed)),
    ]
}

/// Returns entry numbers on both sides of [`EntryId::HEAD`].
fn id_of(number: u64) -> u64 {
    if number < 4 { number } else { 70_000 + number }
}

struct Run {
    disk: Forgetful,
    faulty: FaultyDisk,
    journal: Option<FileJournal>,
    /// The certain entries.
    entries: Entries,
    /// The entries if the groups of a commit with an unknown result are there, with one more group each.
    perhaps: Vec<Entries>,
    stamp: u8,
}

impl Run {
    fn new() -> Self {
        let disk = Forgetful::default();
        let mut run = Self {
            faulty: FaultyDisk::new(disk.clone()),
            disk,
            journal: None,
            entries: Entries::new(),
            perhaps: Vec::new(),
            stamp: 0,
        };
        run.open();
        run
    }

    fn open(&mut self) {
        self.faulty = FaultyDisk::new(self.disk.clone());
        let options = FileJournal::options().segment_bytes(2048).background(false);
        let options = options.disk(self.faulty.clone());
        let mut journal = options.open(Path::new("journal")).unwrap();
        let mut given = Given::default();
        let recovery = journal.recover(&mut given);
        let recovery = recovery.unwrap_or_else(|error| panic!("after a crash: {error}"));
        assert!(given.damaged.is_empty() && recovery.gaps.is_empty());
        let known = given.entries == self.entries || self.perhaps.contains(&given.entries);
        assert!(
            known,
            "there is {:?}, acknowledged was {:?}, begun perhaps {:?}",
            given.entries, self.entries, self.perhaps
        );
        self.entries = given.entries;
        self.perhaps.clear();
        self.journal = Some(journal);
    }

    fn close(&mut self) {
        self.journal = None;
    }

    /// Makes a batch. Returns it with the entries after each of its groups.
    fn batch(&mut self, groups: &[Changes]) -> (Batch, Vec<Entries>) {
        let mut batch = Batch::new();
        let mut after = Vec::new();
        let mut entries = self.entries.clone();
        for changes in groups {
            for (number, length) in changes {
                let id = id_of(*number);
                match length {
                    Some(length) => {
                        self.stamp = self.stamp.wrapping_add(1);
                        let bytes = vec![self.stamp; *length];
                        batch.put(EntryId(id), &bytes);
                        entries.insert(id, bytes);
                    }
                    None => {
                        batch.delete(EntryId(id));
                        entries.remove(&id);
                    }
                }
            }
            batch.end_group();
            after.push(entries.clone());
        }
        (batch, after)
    }

    /// Calls `run` with a crash before an operation of the disk. Returns the disk that the crash leaves, if it happens.
    fn crash_in(
        &mut self,
        operation: Operation,
        nth: u64,
        seed: u64,
        run: impl FnOnce(&mut Self),
    ) -> Option<Forgetful> {
        let left = Arc::new(Mutex::new(None));
        let (disk, slot) = (self.disk.clone(), Arc::clone(&left));
        let then = move |_: &Path| {
            let left = end(&disk, seed);
            *slot.lock().unwrap() = Some(left);
        };
        self.faulty.inject(operation, nth, Fault::before(then));
        run(self);
        self.faulty.heal();
        left.lock().unwrap().take()
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Commit(groups) => {
                let (batch, after) = self.batch(&groups);
                self.journal.as_mut().unwrap().commit(&batch).unwrap();
                self.entries = after.last().unwrap().clone();
                // An earlier failed commit cannot come back.
                self.perhaps.clear();
            }
            Step::Fail(groups) => {
                let (batch, after) = self.batch(&groups);
                self.disk.fail_sync();
                let done = self.journal.as_mut().unwrap().commit(&batch);
                self.disk.heal();
                // If the sync of a file made ahead fails, the journal tries another file.
                match done {
                    Ok(()) => {
                        self.entries = after.last().unwrap().clone();
                        self.perhaps.clear();
                    }
                    Err(_) => self.perhaps.extend(after),
                }
            }
            Step::Tidy => {
                self.journal.as_mut().unwrap().tidy().unwrap();
            }
            Step::Reopen => {
                self.close();
                self.open();
            }
            Step::CrashIn(groups, operation, nth, seed) => {
                let (batch, after) = self.batch(&groups);
                let left = self.crash_in(operation, nth, seed, |run| {
                    run.journal.as_mut().unwrap().commit(&batch).unwrap();
                });
                match left {
                    Some(left) => {
                        self.close();
                        self.disk = left;
                        self.perhaps.extend(after);
                        self.open();
                    }
                    None => {
                        self.entries = after.last().unwrap().clone();
                        self.perhaps.clear();
                    }
                }
            }
            Step::CrashTidying(operation, nth, seed) => {
                let left = self.crash_in(operation, nth, seed, |run| {
                    let journal = run.journal.as_mut().unwrap();
                    for _ in 0..20 {
                        if !journal.tidy().unwrap() {
                            break;
                        }
                    }
                });
                if let Some(left) = left {
                    self.close();
                    self.disk = left;
                    self.open();
                }
            }
            Step::Crash(seed) => {
                let left = end(&self.disk, seed);
                self.close();
                self.disk = left;
                self.open();
            }
            Step::CrashClosing(operation, nth, seed) => {
                let left = self.crash_in(operation, nth, seed, Self::close);
                if let Some(left) = left {
                    self.disk = left;
                }
                self.open();
            }
            Step::Kill => {
                let left = self.disk.killed();
                self.close();
                self.disk = left;
                self.open();
            }
            Step::CrashRecovering(operation, nth, seed) => {
                self.close();
                let left = Arc::new(Mutex::new(None));
                let (disk, slot) = (self.disk.clone(), Arc::clone(&left));
                let faulty = FaultyDisk::new(self.disk.clone());
                let then = move |_: &Path| *slot.lock().unwrap() = Some(end(&disk, seed));
                faulty.inject(operation, nth, Fault::before(then));
                let options = FileJournal::options().segment_bytes(2048).background(false);
                let mut journal = options.disk(faulty).open(Path::new("journal")).unwrap();
                journal.recover(&mut Given::default()).unwrap();
                drop(journal);
                if let Some(left) = left.lock().unwrap().take() {
                    self.disk = left;
                }
                self.open();
            }
        }
    }
}

/// Returns the disk after a crash or after a kill. After a kill the system still has the unsynced bytes.
fn end(disk: &Forgetful, seed: u64) -> Forgetful {
    match seed % 5 {
        4 => disk.killed(),
        _ => disk.crash(luck(seed)),
    }
}

/// Decides whether a piece survives: at random, never, or always.
fn luck(seed: u64) -> impl FnMut() -> bool {
    let mut state = seed | 1;
    move || match seed % 4 {
        0 => false,
        1 => true,
        _ => {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % 8 > 2
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any steps, with a crash anywhere, and any part of the unsynced bytes left.
    #[test]
    fn what_was_acknowledged_survives(steps in vec(step(), 1..80)) {
        let mut run = Run::new();
        for step in steps {
            run.step(step);
        }
        run.close();
        run.open();
    }
}

/// The journal ends twice before its manifest is durable: in its first commit, and in the second attempt.
#[test]
fn a_journal_that_is_not_named_yet_ends_twice() {
    let commit = || vec![vec![(0, None)]];
    let operations = [
        Operation::Write,
        Operation::Sync,
        Operation::SyncDir,
        Operation::Create,
        Operation::Rename,
        Operation::Remove,
    ];
    let ends = |seeds: u64| {
        let nths = (1..4).flat_map(move |nth| (0..seeds).map(move |seed| (nth, seed)));
        operations
            .into_iter()
            .flat_map(move |operation| nths.clone().map(move |(nth, seed)| (operation, nth, seed)))
    };
    for (first, nth, seed) in ends(5) {
        for (second, nth_of_second, seed_of_second) in ends(5) {
            let mut run = Run::new();
            run.step(Step::CrashIn(commit(), first, nth, seed));
            run.step(Step::CrashIn(
                commit(),
                second,
                nth_of_second,
                seed_of_second,
            ));
            run.close();
            run.open();
        }
    }
}
