//! The journal never reads the old content of a reused file, or of a file after a failed sync.

use std::{fs, io::ErrorKind, path::Path};

use fom_journal::{
    Batch, EntryId, FileJournal, Journal,
    disk::{Fault, FaultyDisk, Operation, RealDisk},
};

use crate::kit::{FIRST, Given, Place, forgetful::Forgetful, open, put, small};

/// Makes a batch of groups, each with one entry of 400 bytes.
fn batch(ids: std::ops::Range<u64>, byte: u8) -> Batch {
    let mut batch = Batch::new();
    for id in ids {
        batch.put(EntryId(id), &[byte; 400]);
        batch.end_group();
    }
    batch
}

/// A reused file still holds the groups of a failed commit, with the next numbers. A new write covers the first old
/// group, and the end of the write is lost. The journal does not read the old groups behind it.
#[test]
fn old_groups_in_a_file_that_is_used_again_are_not_read() {
    let place = Place::new();
    let disk = FaultyDisk::new(RealDisk);
    let options = FileJournal::options()
        .segment_bytes(16 << 10)
        .background(false);
    let (mut journal, ..) = open(options.clone().disk(disk.clone()), place.path()).unwrap();
    put(&mut journal, &[(70_000, b"before")]).unwrap();
    let fail = |journal: &mut FileJournal, batch: &Batch, nth| {
        disk.inject(Operation::Sync, nth, Fault::FailAfter(ErrorKind::Other));
        journal.commit(batch).unwrap_err();
        disk.heal();
    };
    // The first failure spoils the segment. The second spoils a new segment, after one sync made it and another named
    // it.
    fail(&mut journal, &batch(80_000..80_001, 1), 1);
    fail(&mut journal, &batch(80_000..80_020, 1), 3);
    let spoiled = place.segments().pop().unwrap();
    let old = fs::read(&spoiled).unwrap();
    // The manifest names a third segment instead, and its commit fails too. The spoiled segment is free now.
    fail(&mut journal, &batch(80_000..80_001, 1), 3);
    journal.commit(&batch(90_000..90_012, 2)).unwrap();
    let place = place.copy();
    let spoiled = place.path().join(spoiled.file_name().unwrap());
    let again = place.segments().pop().unwrap();
    assert_ne!(spoiled, again);
    assert!(!spoiled.exists(), "the file has another name now");
    let mut bytes = fs::read(&again).unwrap();
    let end = FIRST + 12 * (28 + 16 + 400);
    assert!(bytes[end..end + 28].iter().all(|byte| *byte == 0));
    assert_eq!(bytes[end + 28..], old[end + 28..], "the rest is as it was");
    bytes[end..end + 28].copy_from_slice(&old[end..end + 28]);
    fs::write(&again, &bytes).unwrap();
    let (_, given, _) = open(options, place.path()).unwrap();
    let ids: Vec<_> = given.entries.keys().copied().collect();
    assert_eq!(
        ids,
        [70_000]
            .into_iter()
            .chain(90_000..90_012)
            .collect::<Vec<_>>()
    );
}

/// After a failed sync the journal writes nothing more to that file: the content on the disk is unknown.
#[test]
fn a_file_with_a_failed_sync_is_left_as_it_is() {
    let place = Place::new();
    let disk = FaultyDisk::new(RealDisk);
    let (mut journal, ..) = open(small().disk(disk.clone()), place.path()).unwrap();
    put(&mut journal, &[(70_000, b"before")]).unwrap();
    let file = place.segments()[0].clone();
    disk.inject(Operation::Sync, 1, Fault::FailAfter(ErrorKind::Other));
    put(&mut journal, &[(70_001, b"failed")]).unwrap_err();
    let bytes = fs::read(&file).unwrap();
    put(&mut journal, &[(70_002, b"after")]).unwrap();
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

/// Several commits failed. All but the first had segments of their own, and the journal removed or cleared these
/// segments. A recovery accepts the remaining files. Then the power fails, before any sync of the removals. The
/// segments must not come back.
#[test]
fn a_segment_that_failed_does_not_come_back_after_a_recovery() {
    // The bits say which of the first unsynced pieces survive.
    for pieces in 0..64u32 {
        for failures in 0..6 {
            let disk = Forgetful::default();
            let path = Path::new("journal");
            let opened = |disk: &Forgetful| {
                let options = FileJournal::options().segment_bytes(2048).background(false);
                open(options.disk(disk.clone()), path).unwrap()
            };
            let (mut journal, ..) = opened(&disk);
            put(&mut journal, &[(70_000, b"before")]).unwrap();
            // The segment is made first, so that the next sync is that of the commit.
            put(&mut journal, &[(70_001, &[0; 600])]).unwrap();
            journal.tidy().unwrap();
            disk.fail_sync();
            put(&mut journal, &[(80_000, b"first")]).unwrap_err();
            disk.fail_sync();
            put(&mut journal, &[(80_001, b"second")]).unwrap_err();
            // Further syncs fail while the commits clear the file, or make another.
            (0..failures).for_each(|_| disk.fail_sync());
            for id in 80_002..80_004 {
                let _ = put(&mut journal, &[(id, b"later")]);
            }
            disk.heal();
            // The process has ended, but the system has not.
            let killed = disk.killed();
            drop(journal);
            let (_journal, first, _) = opened(&killed);
            let mut asked = 0;
            let crashed = killed.crash(|| {
                asked += 1;
                pieces & 1u32.checked_shl(asked - 1).unwrap_or(0) != 0
            });
            let (_, second, _) = opened(&crashed);
            let context = format!("{failures} more failures, pieces {pieces:b}");
            assert_eq!(first.entries, second.entries, "{context}");
        }
    }
}

/// An inspection of a journal without a manifest reports the missing manifest, returns the entries, and creates no
/// manifest.
#[test]
fn without_a_manifest_it_is_not_in_use() {
    let place = Place::new();
    let (mut journal, ..) = open(FileJournal::options(), place.path()).unwrap();
    put(&mut journal, &[(70_000, b"a")]).unwrap();
    drop(journal);
    fs::remove_file(place.manifest()).unwrap();
    let mut given = Given::default();
    let inspection = FileJournal::inspect(place.path(), &mut given).unwrap();
    assert_eq!((given.entries.len(), inspection.in_use), (1, false));
    assert_eq!(inspection.recovery.gaps[0].file, place.manifest());
    assert!(!place.manifest().exists());
}
