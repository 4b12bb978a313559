//! Commits that end later, in a journal on top of a log.

use std::{
    sync::{Arc, Mutex, mpsc},
    thread,
};

use fom_journal::{
    Batch, Committed, Damage, EntryId, Journal, JournalError, Recover, Statement, conformance,
    log::{LogJournal, LogStore},
};

/// A log in memory. Clones are the same log.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    bodies: Vec<(u64, Vec<u8>)>,
    /// The greatest number that a body was given.
    used: u64,
    /// Whether the next append fails.
    fails: bool,
}

impl Kept {
    fn append(&mut self, numbers: &[u64], bodies: Vec<Vec<u8>>) -> Result<(), JournalError> {
        if std::mem::take(&mut self.fails) {
            return Err(JournalError::Closed);
        }
        self.bodies.extend(numbers.iter().copied().zip(bodies));
        Ok(())
    }
}

impl Log {
    fn number(&self, bodies: &[Vec<u8>]) -> Vec<u64> {
        let mut kept = self.0.lock().unwrap();
        let first = kept.used + 1;
        kept.used += bodies.len() as u64;
        (first..=kept.used).collect()
    }
}

impl LogStore for Log {
    fn last(&self) -> u64 {
        self.0.lock().unwrap().used
    }

    fn append(
        &mut self,
        bodies: Vec<Vec<u8>>,
        _: Vec<(usize, Statement)>,
    ) -> Result<Vec<u64>, JournalError> {
        let numbers = self.number(&bodies);
        self.0.lock().unwrap().append(&numbers, bodies)?;
        Ok(numbers)
    }

    fn appends_later(&self) -> bool {
        true
    }

    fn append_later(
        &mut self,
        bodies: Vec<Vec<u8>>,
        _: Vec<(usize, Statement)>,
        done: Committed,
    ) -> Result<Vec<u64>, Committed> {
        let numbers = self.number(&bodies);
        let (log, given) = (self.clone(), numbers.clone());
        thread::spawn(move || {
            let result = log.0.lock().unwrap().append(&given, bodies);
            done(result);
        });
        Ok(numbers)
    }

    fn load(&mut self, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, JournalError> {
        let kept = self.0.lock().unwrap();
        let wanted = |(number, _): &&(u64, _)| (from..=to).contains(number);
        Ok(kept.bodies.iter().filter(wanted).cloned().collect())
    }

    fn delete_until(&mut self, last: u64) -> Result<(), JournalError> {
        let mut kept = self.0.lock().unwrap();
        kept.bodies.retain(|(number, _)| *number > last);
        Ok(())
    }

    fn longest(&self) -> usize {
        1 << 20
    }

    fn damaged(&self, number: u64, what: &'static str) -> JournalError {
        panic!("body {number}: {what}")
    }
}

#[derive(Default)]
struct Found(Vec<(EntryId, Vec<u8>)>);

impl Recover for Found {
    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        self.0.push((id, bytes.to_vec()));
    }

    fn damaged(&mut self, id: EntryId, damage: Damage) {
        panic!("{id}: {damage}")
    }
}

fn put(id: u64, bytes: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.put(EntryId(id), bytes);
    batch.end_group();
    batch
}

/// Begins a commit, and waits for its end, as a caller does.
fn commit(journal: &mut LogJournal<Log>, batch: &Batch) -> Result<(), JournalError> {
    let (tell, told) = mpsc::channel();
    let done = Box::new(move |result| tell.send(result).unwrap());
    assert!(journal.commit_later(batch, done).is_none(), "it has begun");
    let result = told.recv().unwrap();
    journal.settle(result.is_ok());
    result
}

/// Such a journal keeps all promises.
#[test]
fn a_journal_that_commits_later_keeps_its_promises() {
    conformance::check(|| {
        let log = Log::default();
        move || LogJournal::new(log.clone())
    });
    conformance::check_killed(|| {
        let mut log = Log::default();
        move || {
            let kept = log.0.lock().unwrap();
            let copy = Kept {
                bodies: kept.bodies.clone(),
                ..*kept
            };
            drop(kept);
            log = Log(Arc::new(Mutex::new(copy)));
            LogJournal::new(log.clone())
        }
    });
}

/// The journal has what a commit kept that ended later, and nothing of one that failed. Both sorts of commits mix.
#[test]
fn a_commit_that_ends_later_is_like_another() {
    let log = Log::default();
    let mut journal = LogJournal::new(log.clone());
    journal.recover(&mut Found::default()).unwrap();
    assert!(journal.commits_later());
    commit(&mut journal, &put(10, b"one")).unwrap();
    journal.commit(&put(11, b"two")).unwrap();
    log.0.lock().unwrap().fails = true;
    commit(&mut journal, &put(12, b"lost")).unwrap_err();
    commit(&mut journal, &put(10, b"three")).unwrap();
    let stats = journal.stats();
    assert_eq!((stats.entries, stats.live_bytes), (2, 8));
    while journal.tidy().unwrap() {}

    let mut found = Found::default();
    LogJournal::new(log).recover(&mut found).unwrap();
    let there: Vec<_> = found
        .0
        .iter()
        .map(|(id, bytes)| (id.0, &bytes[..]))
        .collect();
    assert_eq!(there, [(10, &b"three"[..]), (11, b"two")]);
}

/// A batch that the store cannot take begins nothing: the caller gets the error from the other method.
#[test]
fn a_batch_that_is_too_long_does_not_begin() {
    let mut journal = LogJournal::new(Log::default());
    journal.recover(&mut Found::default()).unwrap();
    let long = put(10, &vec![0; 2 << 20]);
    let done = Box::new(|_| panic!("it has not begun"));
    assert!(journal.commit_later(&long, done).is_some());
    let error = journal.commit(&long).unwrap_err();
    assert!(matches!(error, JournalError::TooLong { .. }), "{error}");
    commit(&mut journal, &put(10, b"short")).unwrap();
}
