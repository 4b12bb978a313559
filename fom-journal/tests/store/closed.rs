//! A closed journal records where it ends. Missing bytes there are damage, and are never cut off as a torn end.

use std::{fs, io::ErrorKind, path::PathBuf};

use fom_journal::{
    Batch, EntryId, FileJournal, Journal, JournalError,
    disk::{Fault, FaultyDisk, Operation, RealDisk},
};

use crate::kit::{FIRST, Given, Place, open, put, small};

/// Makes some commits, the last one of three groups, and closes the journal.
fn closed() -> Place {
    let place = Place::new();
    let (mut journal, ..) = open(small(), place.path()).unwrap();
    put(&mut journal, &[(1, b"schema")]).unwrap();
    put(&mut journal, &[(70_000, b"acknowledged")]).unwrap();
    let mut batch = Batch::new();
    for id in 70_001..70_004u64 {
        batch.put(EntryId(id), &[id as u8; 20]);
        batch.end_group();
    }
    journal.commit(&batch).unwrap();
    place
}

fn is_closed(place: &Place) -> bool {
    let inspection = FileJournal::inspect(place.path(), &mut Given::default());
    inspection.unwrap().closed
}

/// Returns the only segment with entries, its bytes, and where they end.
fn last(place: &Place) -> (PathBuf, Vec<u8>, usize) {
    let path = place.segments()[0].clone();
    let bytes = fs::read(&path).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    (path, bytes, end)
}

/// Zeros or a shorter file remove the end, at each place. The open fails and names the place.
#[test]
fn an_end_that_is_missing_is_damage() {
    let place = closed();
    assert!(is_closed(&place));
    let (path, bytes, end) = last(&place);
    for cut in FIRST..end {
        let mut zeros = bytes.clone();
        zeros[cut..].fill(0);
        for spoiled in [&zeros[..], &bytes[..cut]] {
            fs::write(&path, spoiled).unwrap();
            let refused = open(small(), place.path());
            let damage = match refused {
                Err(JournalError::Damaged(damage)) => damage,
                // Only the bytes of one entry are missing, so the entry is known.
                Ok((_, given, found)) if given.damaged.len() == 1 => {
                    assert_eq!((found.torn, found.gaps), (None, vec![]), "cut at {cut}");
                    given.damaged.into_values().next().unwrap()
                }
                other => panic!("cut at {cut}: {:?}", other.map(|(_, given, _)| given)),
            };
            let names = damage.offset <= end as u64 && damage.offset + damage.length > cut as u64;
            assert!(
                damage.file == path && names,
                "cut at {cut} of {end}: {damage}"
            );
        }
        fs::write(&path, &bytes).unwrap();
        assert_eq!(open(small(), place.path()).unwrap().1.entries.len(), 5);
    }
}

/// With `salvage` the journal opens without the missing part, and reports it.
#[test]
fn salvage_reports_a_missing_end() {
    let place = closed();
    let (path, mut bytes, end) = last(&place);
    bytes[end - 60..].fill(0);
    fs::write(&path, &bytes).unwrap();
    let (mut journal, given, found) = open(small().salvage(true), place.path()).unwrap();
    assert_eq!((given.entries.len(), found.torn), (4, None));
    assert!(found.gaps.iter().any(|gap| gap.file == path));
    put(&mut journal, &[(80_000, b"later")]).unwrap();
    drop(journal);
    let (_, given, found) = open(small(), place.path()).unwrap();
    assert_eq!((given.entries.len(), found.gaps), (5, vec![]));
}

/// A killed process records no end. As always, the torn end is cut and reported.
#[test]
fn a_torn_end_after_a_kill_is_cut() {
    let place = Place::new();
    let (mut journal, ..) = open(small(), place.path()).unwrap();
    for id in 70_000..70_004u64 {
        put(&mut journal, &[(id, &[7; 20])]).unwrap();
    }
    let killed = place.copy();
    drop(journal);
    assert!(is_closed(&place) && !is_closed(&killed));
    let (path, mut bytes, end) = last(&killed);
    bytes[end - 30..].fill(0);
    fs::write(&path, &bytes).unwrap();
    let (_, given, found) = open(small(), killed.path()).unwrap();
    assert_eq!(given.entries.len(), 3);
    assert_eq!(found.torn.unwrap().file, path);
}

/// The record of the end is useless once a commit follows, and is then gone. Until then it stays.
#[test]
fn opening_and_closing_leave_no_files_behind() {
    let place = closed();
    let mut files = Vec::new();
    for round in 0..20u64 {
        let (mut journal, given, found) = open(small(), place.path()).unwrap();
        assert_eq!((given.entries.len(), found.torn), (5, None));
        if round % 2 == 0 {
            put(&mut journal, &[(70_000, &round.to_le_bytes())]).unwrap();
            while journal.tidy().unwrap() {}
            assert!(!is_closed(&place.copy()), "as a kill would leave it");
        }
        drop(journal);
        assert!(is_closed(&place), "round {round}");
        files.push(place.segments().len());
    }
    assert!(files.iter().all(|files| *files <= 6), "{files:?}");
}

/// Closing settles a failed commit: the commit is gone, whatever part of it reached the disk.
#[test]
fn a_commit_that_failed_is_gone_when_it_is_closed() {
    for first in [true, false] {
        let place = Place::new();
        let disk = FaultyDisk::new(RealDisk);
        let (mut journal, ..) = open(small().disk(disk.clone()), place.path()).unwrap();
        put(&mut journal, &[(70_000, b"kept")]).unwrap();
        if first {
            // The next commit begins a segment.
            drop(journal);
            journal = open(small().disk(disk.clone()), place.path()).unwrap().0;
        }
        // A new file needs a sync of its own, and so does the manifest.
        let nth = if first { 3 } else { 1 };
        disk.inject(Operation::Sync, nth, Fault::FailAfter(ErrorKind::Other));
        put(&mut journal, &[(70_001, b"lost")]).unwrap_err();
        drop(journal);
        assert!(is_closed(&place));
        let (_, given, found) = open(small(), place.path()).unwrap();
        assert_eq!((given.entries.len(), found.torn), (1, None));
    }
}

/// A crash while the journal records its end loses nothing else.
#[test]
fn a_crash_while_it_is_closed_costs_nothing() {
    let place = Place::new();
    let (mut journal, ..) = open(small(), place.path()).unwrap();
    for id in 70_000..70_005 {
        put(&mut journal, &[(id, b"acknowledged")]).unwrap();
    }
    let (killed, before) = (place.content(), fs::read(place.manifest()).unwrap());
    drop(journal);
    let after = fs::read(place.manifest()).unwrap();
    assert_ne!(before, after);
    for cut in 0..=before.len() {
        place.restore(&killed);
        let torn = [&after[..cut], &before[cut..]].concat();
        fs::write(place.manifest(), torn).unwrap();
        let (_journal, given, _) = open(small(), place.path()).unwrap();
        assert_eq!(given.entries.len(), 5, "cut at {cut}");
    }
}
