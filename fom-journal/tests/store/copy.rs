//! Copies of a journal: which ones can be a backup, and which cannot.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read, Write},
};

use fom_journal::{Batch, EntryId, FileJournal, Journal, JournalError};

use crate::kit::{Place, open, small};

type State = BTreeMap<u64, Vec<u8>>;

/// A program that changes a few entries again and again, so that files are filled, freed and reused.
struct Program {
    journal: FileJournal,
    place: Place,
    seed: u64,
    /// The state after each group.
    states: Vec<State>,
}

impl Program {
    fn new(seed: u64) -> Self {
        let place = Place::new();
        let (journal, ..) = open(small(), place.path()).unwrap();
        Self {
            journal,
            place,
            seed,
            states: vec![State::new()],
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }

    fn run(&mut self, commits: u64) {
        for _ in 0..commits {
            let mut state = self.states.last().unwrap().clone();
            let mut batch = Batch::new();
            for _ in 0..=self.random(3) {
                let id = 70_000 + self.random(10);
                if self.random(3) == 0 && state.remove(&id).is_some() {
                    batch.delete(EntryId(id));
                } else {
                    let bytes = vec![self.random(256) as u8; self.random(60) as usize];
                    batch.put(EntryId(id), &bytes);
                    state.insert(id, bytes);
                }
                batch.end_group();
                self.states.push(state.clone());
            }
            self.journal.commit(&batch).unwrap();
            if self.random(4) == 0 {
                self.journal.tidy().unwrap();
            }
        }
    }

    /// Copies as `cp` does: the files in any order, each in pieces. A file that is gone by then is left out.
    fn copy_while_it_runs(&mut self) -> Place {
        let copy = Place::new();
        fs::create_dir(copy.path()).unwrap();
        let mut files = self.place.files("");
        while !files.is_empty() {
            let next = self.random(files.len() as u64) as usize;
            let file = files.swap_remove(next);
            let Ok(mut from) = File::open(&file) else {
                continue;
            };
            let mut to = File::create(copy.path().join(file.file_name().unwrap())).unwrap();
            let mut piece = vec![0; 1 + self.random(1200) as usize];
            loop {
                let read = from.read(&mut piece).unwrap();
                if read == 0 {
                    break;
                }
                to.write_all(&piece[..read]).unwrap();
                let some = self.random(6);
                self.run(some);
            }
        }
        copy
    }
}

/// A copy is the journal if no process uses the journal, or if the copy is a snapshot of the whole file system. That
/// holds also between two commits of a running program. (A copy during a commit is what a crash leaves:
/// `journal_crash`.)
#[test]
fn a_copy_of_one_moment_is_whole() {
    let mut program = Program::new(7);
    for _ in 0..300 {
        program.run(1);
        let copy = program.place.copy();
        let (_, given, recovery) = open(small(), copy.path()).unwrap();
        assert_eq!(recovery.torn, None);
        assert_eq!(&given.entries, program.states.last().unwrap());
        assert!(given.damaged.is_empty());
    }
}

/// Files copied one after the other under a running program never give a state that did not exist. But they are no
/// backup: most are refused, and some silently give the journal as it was *before* the copy began.
#[test]
fn files_copied_one_by_one_are_no_copy() {
    let (mut refused, mut right, mut old) = (0, 0, 0);
    for seed in 1..=300 {
        let mut program = Program::new(seed);
        let before = program.random(120);
        program.run(before);
        let begun = program.states.len() - 1;
        let copy = program.copy_while_it_runs();
        match open(small(), copy.path()) {
            Ok((_, given, _)) if given.damaged.is_empty() => {
                let is = |state: &State| *state == given.entries;
                match program.states.iter().rposition(is) {
                    Some(at) if at >= begun => right += 1,
                    Some(_) => old += 1,
                    None => panic!("seed {seed}: a mixture: {given:?}"),
                }
            }
            Ok(_) | Err(JournalError::Damaged(_)) => refused += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    assert!(
        refused > 100 && old > 0,
        "{refused} refused, {right} right, {old} too old"
    );
}
