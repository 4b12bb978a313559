//! Any operation of the disk may fail. Acknowledged entries stay, nothing is there in part, and the journal works again
//! after.

use std::{collections::BTreeMap, io::ErrorKind};

use fom_journal::{
    Batch, EntryId, FileJournal, Journal, JournalError,
    disk::{Fault, FaultyDisk, Operation, RealDisk},
};

use crate::kit::{Given, Place, open, put, small};

type Entries = BTreeMap<u64, Vec<u8>>;

const OPERATIONS: [Operation; 9] = [
    Operation::Create,
    Operation::Open,
    Operation::Write,
    Operation::Sync,
    Operation::SyncDir,
    Operation::Rename,
    Operation::Remove,
    Operation::Read,
    Operation::List,
];

/// Makes commits that need many segments, and tidies in between. Updates the certain entries. Returns the entries that
/// the failed commits could have made of them. Both groups of a batch have the number of their round.
fn run(journal: &mut FileJournal, entries: &mut Entries, rounds: u64) -> Vec<(Entries, Entries)> {
    let mut unknown = Vec::new();
    for round in 0..rounds {
        let mut batch = Batch::new();
        let mut after = entries.clone();
        let mut put = |batch: &mut Batch, id: u64| {
            let bytes = vec![round as u8; 30 + round as usize % 9 * 10];
            batch.put(EntryId(id), &bytes);
            after.insert(id, bytes);
        };
        put(&mut batch, 70_000 + round % 7);
        put(&mut batch, 80_000 + round % 7);
        batch.end_group();
        let mut first = after.clone();
        batch.put(EntryId(90_000), &[round as u8]);
        after.insert(90_000, vec![round as u8]);
        batch.delete(EntryId(70_000 + (round + 3) % 7));
        after.remove(&(70_000 + (round + 3) % 7));
        batch.end_group();
        match journal.commit(&batch) {
            Ok(()) => {
                *entries = after;
                unknown.clear();
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                std::mem::swap(&mut first, &mut after);
                unknown.push((after, first));
            }
        }
        let _ = journal.tidy();
    }
    unknown
}

/// Opens with a fault, runs, and checks the entries afterwards.
fn check(operation: Operation, nth: u64, fault: &Fault, lasting: bool) -> bool {
    let context = format!("{operation:?} {nth} {fault:?} lasting {lasting}");
    let place = Place::new();
    let disk = FaultyDisk::new(RealDisk);
    let mut entries = Entries::new();
    {
        // Of another size, so that they cannot be reused.
        let (mut journal, ..) = open(small().segment_bytes(1500), place.path()).unwrap();
        run(&mut journal, &mut entries, 8);
    }
    let before = disk.count(operation);
    match lasting {
        true => disk.inject_from(operation, nth, fault.clone()),
        false => disk.inject(operation, nth, fault.clone()),
    }
    let mut unknown = Vec::new();
    if let Ok((mut journal, given, _)) = open(small().disk(disk.clone()), place.path()) {
        assert_eq!(given.entries, entries, "{context}");
        unknown = run(&mut journal, &mut entries, 12);
        let hit = disk.count(operation) - before >= nth;
        disk.heal();
        if hit {
            // The journal works again when the cause is gone, and does not mix in what failed.
            unknown = run(&mut journal, &mut entries, 6);
            assert!(unknown.is_empty(), "{context}: it goes on");
            while journal.tidy().unwrap() {}
        }
        // Moved entries are also right while the journal runs.
        assert_eq!(journal.stats().entries, entries.len() as u64, "{context}");
    }
    let hit = disk.count(operation) - before >= nth;
    let opened = open(small(), place.path());
    let (_, given, recovery) = opened.unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(
        recovery.gaps.is_empty() && given.damaged.is_empty(),
        "{context}"
    );
    let possible =
        |(first, both): &(Entries, Entries)| given.entries == *first || given.entries == *both;
    assert!(
        given.entries == entries || unknown.iter().any(possible),
        "{context}: {given:?} instead of {entries:?}"
    );
    hit
}

/// Each operation of each kind fails, in turn.
#[test]
fn each_operation_may_fail() {
    for operation in OPERATIONS {
        for fault in [
            Fault::Fail(ErrorKind::StorageFull),
            Fault::Fail(ErrorKind::ReadOnlyFilesystem),
            Fault::FailAfter(ErrorKind::Other),
        ] {
            let mut nth = 1;
            while check(operation, nth, &fault, false) {
                nth += 1;
            }
            assert!(nth > 1, "{operation:?} is used");
        }
    }
}

/// From each operation on, all operations of a kind fail until the cause is gone.
#[test]
fn all_operations_may_fail_for_a_time() {
    for operation in OPERATIONS {
        for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
            let mut nth = 1;
            while check(operation, nth, &Fault::Fail(kind), true) {
                nth += 1;
            }
        }
    }
}

/// Each write is short, or breaks off.
#[test]
fn each_write_may_be_short() {
    for bytes in [1, 71, 72, 90, 130] {
        for fault in [
            Fault::Short(bytes),
            Fault::Torn(bytes, ErrorKind::Other),
            Fault::Torn(bytes, ErrorKind::StorageFull),
        ] {
            let mut nth = 1;
            while check(Operation::Write, nth, &fault, false) {
                nth += 1;
            }
        }
    }
}

/// A full disk and a read-only disk have errors of their own. The journal continues when there is room.
#[test]
fn a_full_disk_says_so() {
    for (kind, background) in [
        (ErrorKind::StorageFull, false),
        (ErrorKind::StorageFull, true),
        (ErrorKind::QuotaExceeded, false),
        (ErrorKind::ReadOnlyFilesystem, false),
        (ErrorKind::PermissionDenied, true),
    ] {
        let place = Place::new();
        let disk = FaultyDisk::new(RealDisk);
        let options = small().background(background).disk(disk.clone());
        let (mut journal, ..) = open(options, place.path()).unwrap();
        // There is no room for a new segment.
        disk.inject_from(Operation::Create, 1, Fault::Fail(kind));
        let mut kept = 0;
        let error = loop {
            match put(&mut journal, &[(70_000 + kept, &[1; 100])]) {
                Ok(()) => kept += 1,
                Err(error) => break error,
            }
            assert!(kept < 100, "it was never full");
        };
        let is_full = matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        match error {
            JournalError::Full { .. } => assert!(is_full),
            JournalError::ReadOnly { .. } => assert!(!is_full),
            other => panic!("{kind:?}: {other}"),
        }
        disk.heal();
        put(&mut journal, &[(90_000, b"there is room")]).unwrap();
        drop(journal);
        let (_, given, _) = open(small(), place.path()).unwrap();
        assert_eq!(given.entries.len() as u64, kept + 1);
    }
}

/// A failed sync is not tried again in the same place. Its data must not be there once later data is.
#[test]
fn a_failed_sync_does_not_come_back() {
    let place = Place::new();
    let disk = FaultyDisk::new(RealDisk);
    let (mut journal, ..) = open(small().disk(disk.clone()), place.path()).unwrap();
    put(&mut journal, &[(70_000, b"before")]).unwrap();
    disk.inject(Operation::Sync, 1, Fault::FailAfter(ErrorKind::Other));
    put(
        &mut journal,
        &[(70_000, b"not acknowledged"), (70_001, b"nor this")],
    )
    .unwrap_err();
    assert_eq!(journal.stats().entries, 1);
    put(&mut journal, &[(70_002, b"later")]).unwrap();
    drop(journal);
    let (_, given, _) = open(small(), place.path()).unwrap();
    let expected = [(70_000, b"before".to_vec()), (70_002, b"later".to_vec())];
    assert_eq!(given.entries, expected.into());
}

/// A recovery that could not read everything can be tried again.
#[test]
fn a_recovery_may_be_tried_again() {
    let place = Place::new();
    let disk = FaultyDisk::new(RealDisk);
    let mut entries = Entries::new();
    {
        let (mut journal, ..) = open(small(), place.path()).unwrap();
        run(&mut journal, &mut entries, 20);
    }
    let mut journal = small().disk(disk.clone()).open(place.path()).unwrap();
    disk.inject(Operation::Read, 9, Fault::Fail(ErrorKind::Other));
    let failed = journal.recover(&mut Given::default());
    assert!(
        matches!(failed, Err(JournalError::Io { doing: "read", .. })),
        "{failed:?}"
    );
    let mut given = Given::default();
    journal.recover(&mut given).unwrap();
    assert_eq!(given.entries, entries);
}

/// If the disk is full in the middle of a batch larger than a segment, no part of the batch is kept. The caller has the
/// operation back, and may have given its key to another by the next commit.
#[test]
fn a_large_batch_that_failed_leaves_nothing() {
    for nth in 0..12 {
        let place = Place::new();
        let disk = FaultyDisk::new(RealDisk);
        let (mut journal, ..) = open(small().disk(disk.clone()), place.path()).unwrap();
        put(&mut journal, &[(70_000, b"before")]).unwrap();
        let mut large = Batch::new();
        for id in 80_000..80_020 {
            large.put(EntryId(id), &[7; 200]);
            large.end_group();
        }
        let full = Fault::Torn(1000, ErrorKind::StorageFull);
        disk.inject(Operation::Write, disk.count(Operation::Write) + nth, full);
        let failed = journal.commit(&large).is_err();
        // The remaining faults hit these commits, which are tried again as the runtime does.
        while put(&mut journal, &[(70_001, b"after")]).is_err() {}
        drop(journal);
        let (_journal, given, _) = open(small(), place.path()).unwrap();
        let large = given.entries.range(80_000..90_000).count();
        assert_eq!(large, if failed { 0 } else { 20 }, "write {nth}");
        assert_eq!(given.entries[&70_000], b"before");
        assert_eq!(given.entries[&70_001], b"after");
    }
}
