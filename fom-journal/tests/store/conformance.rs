//! The journals of this crate keep the promises of the trait.

use std::{
    fs,
    io::ErrorKind,
    panic::catch_unwind,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use fom_journal::{
    Batch, Change, EntryId, FileJournal, FileJournalOptions, Group, Journal, JournalError,
    JournalStats, MemoryJournal, Recover, Recovery, conformance,
    disk::{Fault, FaultyDisk, Operation, RealDisk},
};

use crate::kit::{Place, small};

fn check_file(options: impl Fn() -> FileJournalOptions) {
    conformance::check(|| {
        let place = Arc::new(Place::new());
        let options = options();
        move || options.clone().open(place.path()).unwrap()
    });
}

/// The journal in memory.
#[test]
fn memory_conforms() {
    conformance::check(|| {
        let kept = MemoryJournal::new();
        move || kept.clone()
    });
}

/// The journal in files, with segments so small that each group of promises needs many.
#[test]
fn files_conform() {
    check_file(small);
}

/// The same with a thread that makes segments ahead.
#[test]
fn files_made_ahead_conform() {
    check_file(|| small().background(true));
}

/// The same with the default options.
#[test]
fn files_of_the_usual_size_conform() {
    check_file(FileJournal::options);
}

/// The journal after a kill: a copy of the directory that was opened last.
#[test]
fn files_conform_when_killed() {
    conformance::check_killed(|| {
        let mut place: Option<Place> = None;
        move || {
            let next = place.as_ref().map_or_else(Place::new, Place::copy);
            let journal = small().open(next.path()).unwrap();
            place = Some(next);
            journal
        }
    });
}

/// The journal in memory after a kill.
#[test]
fn memory_conforms_when_killed() {
    conformance::check_killed(|| {
        let mut kept = MemoryJournal::new();
        move || {
            kept = kept.fork();
            kept.clone()
        }
    });
}

/// The files after a kill, without one of them.
#[test]
fn files_conform_when_one_is_missing() {
    conformance::check_missing(|| {
        let (place, mut copies) = (Place::new(), Vec::new());
        let path = place.path().to_owned();
        let without = move |piece| {
            let left = place.copy();
            let files = left.files("");
            fs::remove_file(files.get(piece)?).unwrap();
            let journal = small().open(left.path()).unwrap();
            copies.push(left);
            Some(journal)
        };
        (move || small().open(&path).unwrap(), without)
    });
}

/// With a disk that is full, breaks off writes, or fails to sync.
#[test]
fn files_conform_when_they_fail() {
    use Operation::{Create, Rename, Sync, Write};
    for (operations, fault) in [
        (&[Create, Write][..], Fault::Fail(ErrorKind::StorageFull)),
        (&[Write], Fault::Torn(100, ErrorKind::StorageFull)),
        (&[Sync], Fault::FailAfter(ErrorKind::Other)),
        (&[Rename, Sync], Fault::Fail(ErrorKind::Other)),
    ] {
        conformance::check_failing(|| {
            let place = Place::new();
            let disk = FaultyDisk::new(RealDisk);
            let options = small().disk(disk.clone());
            let fault = fault.clone();
            let fail = move |fails| {
                disk.heal();
                for operation in operations.iter().filter(|_| fails) {
                    disk.inject_from(*operation, 1, fault.clone());
                }
            };
            (move || options.clone().open(place.path()).unwrap(), fail)
        });
    }
}

/// A fault of a journal.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    LosesGroups,
    ReversesGroups,
    HalvesGroups,
    ForgetsDeletes,
    ResurrectsWhenTidied,
    LosesWhenTidied,
    GivesTwice,
    GivesInDisorder,
    GivesOldBytes,
    CutsNumbers,
    LosesEmptyEntries,
    Miscounts,
    WritesWhenDropped,
    SaysItIsDone,
    KeepsWhatFailed,
    KeepsTheSecondGroupOfWhatFailed,
    MixesWhatFailedWithTheNext,
    NeverWorksAgain,
    ForgetsWhatIsMissing,
}

const WRONG: [Wrong; 19] = [
    Wrong::ForgetsWhatIsMissing,
    Wrong::LosesGroups,
    Wrong::ReversesGroups,
    Wrong::HalvesGroups,
    Wrong::ForgetsDeletes,
    Wrong::ResurrectsWhenTidied,
    Wrong::LosesWhenTidied,
    Wrong::GivesTwice,
    Wrong::GivesInDisorder,
    Wrong::GivesOldBytes,
    Wrong::CutsNumbers,
    Wrong::LosesEmptyEntries,
    Wrong::Miscounts,
    Wrong::WritesWhenDropped,
    Wrong::SaysItIsDone,
    Wrong::KeepsWhatFailed,
    Wrong::KeepsTheSecondGroupOfWhatFailed,
    Wrong::MixesWhatFailedWithTheNext,
    Wrong::NeverWorksAgain,
];

type Kept = Arc<Mutex<Vec<(u64, Vec<u8>)>>>;

/// A journal in memory with a fault.
struct Faulty {
    wrong: Wrong,
    kept: Kept,
    fails: Arc<AtomicBool>,
    unwritten: Vec<(u64, Option<Vec<u8>>)>,
    deleted: Vec<(u64, Vec<u8>)>,
    has_failed: bool,
    groups: u64,
}

impl Faulty {
    fn new(wrong: Wrong, kept: &Kept, fails: &Arc<AtomicBool>) -> Self {
        Self {
            wrong,
            kept: Arc::clone(kept),
            fails: Arc::clone(fails),
            unwritten: Vec::new(),
            deleted: Vec::new(),
            has_failed: false,
            groups: 0,
        }
    }

    fn change(&mut self, id: u64, bytes: Option<Vec<u8>>) {
        let id = match self.wrong {
            Wrong::CutsNumbers => id & u64::from(u32::MAX),
            _ => id,
        };
        let mut kept = self.kept.lock().unwrap();
        let at = kept.iter().position(|(known, _)| *known == id);
        match (at, bytes) {
            (Some(_), Some(_)) if self.wrong == Wrong::GivesOldBytes => {}
            (_, Some(bytes)) if bytes.is_empty() && self.wrong == Wrong::LosesEmptyEntries => {}
            (Some(at), Some(bytes)) => kept[at].1 = bytes,
            (None, Some(bytes)) => kept.push((id, bytes)),
            (Some(_), None) if self.wrong == Wrong::ForgetsDeletes => {}
            (Some(at), None) => self.deleted.push(kept.remove(at)),
            (None, None) => {}
        }
    }

    fn changes(group: Group<'_>) -> Vec<(u64, Option<Vec<u8>>)> {
        let changes = group.changes().map(|change| match change {
            Change::Put { id, bytes } => (id.0, Some(bytes.to_vec())),
            Change::Delete { id } => (id.0, None),
        });
        changes.collect()
    }

    fn write(&mut self) {
        for (id, bytes) in std::mem::take(&mut self.unwritten) {
            self.change(id, bytes);
        }
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.write();
    }
}

impl Journal for Faulty {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        let mut kept = self.kept.lock().unwrap().clone();
        kept.sort_unstable();
        if self.wrong == Wrong::GivesInDisorder {
            kept.reverse();
        }
        let mut found = Recovery::default();
        for (id, bytes) in &kept {
            to.entry(EntryId(*id), bytes);
            if self.wrong == Wrong::GivesTwice {
                to.entry(EntryId(*id), bytes);
            }
            found.entries += 1;
        }
        Ok(found)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let groups: Vec<_> = batch.groups().map(Self::changes).collect();
        let fails = self.fails.load(Ordering::Relaxed);
        if fails || self.has_failed && self.wrong == Wrong::NeverWorksAgain {
            self.has_failed = true;
            match self.wrong {
                Wrong::SaysItIsDone => return Ok(()),
                Wrong::KeepsWhatFailed | Wrong::MixesWhatFailedWithTheNext => {
                    self.unwritten.extend(groups.into_iter().flatten());
                    if self.wrong == Wrong::KeepsWhatFailed {
                        self.write();
                    }
                }
                Wrong::KeepsTheSecondGroupOfWhatFailed => {
                    let second = groups.into_iter().nth(1).unwrap_or_default();
                    second
                        .into_iter()
                        .for_each(|(id, bytes)| self.change(id, bytes));
                }
                _ => {}
            }
            return Err(JournalError::Closed);
        }
        let mut groups = groups;
        if self.wrong == Wrong::ReversesGroups {
            groups.reverse();
        }
        for mut changes in groups {
            self.groups += 1;
            match self.wrong {
                Wrong::LosesGroups if self.groups.is_multiple_of(9) => continue,
                Wrong::HalvesGroups if changes.len() > 2 => drop(changes.pop()),
                _ => {}
            }
            self.unwritten.extend(changes);
        }
        if self.wrong != Wrong::WritesWhenDropped {
            self.write();
        }
        Ok(())
    }

    fn tidy(&mut self) -> Result<bool, JournalError> {
        let mut kept = self.kept.lock().unwrap();
        match self.wrong {
            Wrong::ResurrectsWhenTidied => {
                let known = |id: u64| kept.iter().any(|(known, _)| *known == id);
                let back = self.deleted.pop().filter(|(id, _)| !known(*id));
                kept.extend(back);
            }
            Wrong::LosesWhenTidied => drop(kept.pop()),
            _ => {}
        }
        Ok(false)
    }

    fn stats(&self) -> JournalStats {
        let kept = self.kept.lock().unwrap();
        let mut stats = JournalStats::default();
        stats.entries = kept.len() as u64 + u64::from(self.wrong == Wrong::Miscounts);
        stats.live_bytes = kept.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        stats
    }
}

fn check_all(wrong: Wrong) {
    let never = Arc::new(AtomicBool::new(false));
    conformance::check(|| {
        let (kept, never) = (Kept::default(), Arc::clone(&never));
        move || Faulty::new(wrong, &kept, &never)
    });
    conformance::check_killed(|| {
        let (mut kept, never) = (Kept::default(), Arc::clone(&never));
        move || {
            let copy = kept.lock().unwrap().clone();
            kept = Arc::new(Mutex::new(copy));
            Faulty::new(wrong, &kept, &never)
        }
    });
    conformance::check_missing(|| {
        let (kept, never) = (Kept::default(), Arc::clone(&never));
        let (of, nor) = (Arc::clone(&kept), Arc::clone(&never));
        let without = move |piece| {
            let mut left = of.lock().unwrap().clone();
            // The other journals have one piece.
            let is_there = wrong == Wrong::ForgetsWhatIsMissing && piece == 0;
            left.pop().filter(|_| is_there)?;
            Some(Faulty::new(wrong, &Arc::new(Mutex::new(left)), &nor))
        };
        (move || Faulty::new(wrong, &kept, &never), without)
    });
    conformance::check_failing(|| {
        let (kept, fails) = (Kept::default(), Arc::new(AtomicBool::new(false)));
        let switch = Arc::clone(&fails);
        (
            move || Faulty::new(wrong, &kept, &fails),
            move |fails| switch.store(fails, Ordering::Relaxed),
        )
    });
}

/// The suite reports each promise that a journal breaks. A journal without a fault passes.
#[test]
fn each_broken_promise_is_found() {
    check_all(Wrong::Nothing);
    for wrong in WRONG {
        let checked = catch_unwind(|| check_all(wrong));
        assert!(checked.is_err(), "{wrong:?} is not found");
    }
}
