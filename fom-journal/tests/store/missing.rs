//! A missing part of a killed journal is damage. The journal never takes it for its end.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
};

use fom_journal::{
    Batch, EntryId, FileJournal, Journal, JournalError,
    disk::{FaultyDisk, Operation, RealDisk},
};

use crate::kit::{FIRST, LINK, Place, is_used, open, put, small};

/// The journal that a kill leaves after each of many commits, with the acknowledged entries. Entries change and go, and
/// the journal is tidied, so that it frees files and uses them again.
fn killed() -> Vec<(Place, BTreeMap<u64, Vec<u8>>)> {
    let place = Place::new();
    let (mut journal, ..) = open(small(), place.path()).unwrap();
    let mut entries = BTreeMap::new();
    let mut killed = Vec::new();
    for round in 0..60u64 {
        let (one, other) = (70_000 + round, 80_000 + round % 4);
        let bytes = vec![round as u8; 60 + round as usize % 5 * 30];
        put(&mut journal, &[(one, &bytes), (other, &bytes)]).unwrap();
        entries.insert(one, bytes.clone());
        entries.insert(other, bytes);
        if round >= 10 {
            let mut batch = Batch::new();
            batch.delete(EntryId(one - 10));
            batch.end_group();
            journal.commit(&batch).unwrap();
            entries.remove(&(one - 10));
        }
        if round % 3 == 0 {
            journal.tidy().unwrap();
        }
        killed.push((place.copy(), entries.clone()));
    }
    killed
}

fn used(place: &Place) -> Vec<PathBuf> {
    let mut used = place.segments();
    used.retain(|path| is_used(path));
    used
}

/// Removes a file, or a part of it.
type Lose = fn(&Path);

const WAYS: [(&str, Lose); 7] = [
    ("removed", |path| fs::remove_file(path).unwrap()),
    ("emptied", |path| drop(File::create(path).unwrap())),
    ("cut behind its link", |path| cut(path, FIRST as u64)),
    ("cut by half", |path| {
        cut(path, fs::metadata(path).unwrap().len() / 2);
    }),
    ("without its last byte", |path| {
        cut(path, fs::metadata(path).unwrap().len() - 1);
    }),
    ("without its header", |path| zero(path, 0..LINK)),
    ("of zeros", |path| {
        zero(path, 0..fs::metadata(path).unwrap().len() as usize);
    }),
];

fn cut(path: &Path, length: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(length).unwrap();
}

fn zero(path: &Path, range: std::ops::Range<usize>) {
    let mut bytes = fs::read(path).unwrap();
    let end = range.end.min(bytes.len());
    bytes[range.start.min(end)..end].fill(0);
    fs::write(path, bytes).unwrap();
}

/// Opens the rest. Either the open fails with an error that names the file, or all acknowledged entries are there.
fn is_named(place: &Place, lost: &Path, entries: &BTreeMap<u64, Vec<u8>>, context: &str) -> bool {
    match open(small(), place.path()) {
        Ok((_, given, recovery)) => {
            assert_eq!(recovery.gaps, [], "{context}");
            assert!(given.damaged.is_empty(), "{context}");
            assert!(&given.entries == entries, "{context}: {given:?}");
            false
        }
        Err(JournalError::Damaged(damage)) => {
            assert_eq!(damage.file, lost, "{context}: {damage}");
            true
        }
        Err(error) => panic!("{context}: {error}"),
    }
}

/// Each file of a killed journal, also the newest, is lost in each way.
#[test]
fn each_lost_file_is_named_or_nothing_is_missing() {
    let mut named = 0;
    for (at, (place, entries)) in killed().into_iter().enumerate() {
        let (used, content) = (used(&place), place.content());
        for (way, lose) in WAYS {
            for (lost, _) in &content {
                place.restore(&content);
                lose(lost);
                let context = format!("{} {way} after {at} commits", lost.display());
                let is_named = is_named(&place, lost, &entries, &context);
                named += usize::from(is_named);
                let is_newest = used.last() == Some(lost);
                assert!(
                    is_named || !is_newest,
                    "{context}: the newest is not missed"
                );
            }
        }
        place.restore(&content);
        assert!(!is_named(&place, Path::new(""), &entries, "whole"));
    }
    assert!(named > 500, "{named}");
}

/// A batch larger than a segment is acknowledged, and then its file loses a part.
#[test]
fn a_large_batch_that_is_lost_is_named() {
    let place = Place::new();
    let (mut journal, ..) = open(small(), place.path()).unwrap();
    put(&mut journal, &[(70_000, b"before")]).unwrap();
    let large = vec![7; 3000];
    put(&mut journal, &[(70_001, b"beside"), (70_002, &large)]).unwrap();
    let killed = place.copy();
    drop(journal);
    let entries = [
        (70_000, b"before".to_vec()),
        (70_001, b"beside".to_vec()),
        (70_002, large),
    ];
    let entries = BTreeMap::from(entries);
    let content = killed.content();
    let newest = used(&killed).pop().unwrap();
    assert!(fs::metadata(&newest).unwrap().len() > 3000);
    for (way, lose) in WAYS {
        killed.restore(&content);
        lose(&newest);
        assert!(is_named(&killed, &newest, &entries, way), "{way}");
    }
    killed.restore(&content);
    assert!(!is_named(&killed, Path::new(""), &entries, "whole"));
}

/// The manifest has two records, and a crash may destroy the record that is being written. Without either record the
/// journal is complete, or does not open.
#[test]
fn each_lost_record_of_the_manifest_is_named_or_nothing_is_missing() {
    for (at, (place, entries)) in killed().into_iter().enumerate() {
        let (content, manifest) = (place.content(), place.manifest());
        for record in [0..4096, 4096..8192, 0..8192] {
            place.restore(&content);
            let is_whole = record.len() > 4096;
            zero(&manifest, record);
            let context = format!("after {at} commits");
            let is_named = is_named(&place, &manifest, &entries, &context);
            assert!(is_named || !is_whole, "{context}");
        }
    }
}

/// One file is left of a journal. Neither a manifest without segments nor a segment without a manifest is an empty
/// journal.
#[test]
fn a_journal_of_which_one_file_is_left_is_refused() {
    let (place, _) = killed().pop().unwrap();
    let content = place.content();
    for (left, bytes) in &content {
        place.restore(&[(left.clone(), bytes.clone())]);
        let refused = open(small(), place.path()).unwrap_err();
        let JournalError::Damaged(damage) = refused else {
            panic!("{} alone: {refused}", left.display());
        };
        assert_ne!(&damage.file, left);
    }
}

/// With `salvage` the journal opens without the missing file, and is complete from then on.
#[test]
fn salvage_reports_a_missing_file() {
    let (place, _) = killed().pop().unwrap();
    let content = place.content();
    for (lost, _) in &content {
        place.restore(&content);
        fs::remove_file(lost).unwrap();
        if open(small(), place.path()).is_ok() {
            continue;
        }
        place.restore(&content);
        fs::remove_file(lost).unwrap();
        let (mut journal, given, recovery) = open(small().salvage(true), place.path()).unwrap();
        assert!(recovery.gaps.iter().any(|gap| &gap.file == lost));
        put(&mut journal, &[(95_000, b"later")]).unwrap();
        drop(journal);
        let (_, again, recovery) = open(small(), place.path()).unwrap();
        assert_eq!(recovery.gaps, []);
        assert_eq!(again.entries.len(), given.entries.len() + 1);
    }
}

/// While a process has a journal open, its manifest is removed. A second open fails, and does not begin an empty
/// journal.
#[test]
fn a_removed_manifest_does_not_open_a_journal_twice() {
    let place = Place::new();
    let (mut journal, ..) = open(small(), place.path()).unwrap();
    put(&mut journal, &[(70_000, b"a")]).unwrap();
    fs::remove_file(place.manifest()).unwrap();
    let second = open(small(), place.path()).map(drop);
    assert!(
        matches!(second, Err(JournalError::Damaged(_))),
        "{second:?}"
    );
}

/// The name of a segment in the manifest costs one sync for each segment and none for a commit. With a thread for it,
/// no commit waits for that sync.
#[test]
fn a_commit_is_one_sync_and_a_segment_three_more() {
    let place = Place::new();
    let disk = FaultyDisk::new(RealDisk);
    let options = small().segment_bytes(4096).disk(disk.clone());
    let (mut journal, ..) = open(options, place.path()).unwrap();
    put(&mut journal, &[(70_000, &[0; 100])]).unwrap();
    let from = (disk.count(Operation::Sync), disk.count(Operation::SyncDir));
    let segments = |journal: &FileJournal| journal.stats().prepared_bytes / 4096;
    let first = segments(&journal);
    for round in 0..1_000u64 {
        put(&mut journal, &[(70_000, &round.to_le_bytes())]).unwrap();
    }
    let made = segments(&journal) - first;
    assert!(made > 10, "{made}");
    let syncs = disk.count(Operation::Sync) - from.0;
    let of_directory = disk.count(Operation::SyncDir) - from.1;
    assert_eq!((syncs, of_directory), (1_000 + 2 * made, made));
}
