//! A journal in files keeps what it acknowledged, and only that.

use std::{fs, io::ErrorKind};

use fom_journal::{Batch, EntryId, FileJournal, Journal, JournalError};

use crate::kit::{Given, Place, delete, open, put, small};

/// A reopened journal has the committed entries, each in its newest version.
#[test]
fn committed_entries_are_there_again() {
    let place = Place::new();
    let (mut journal, given, recovery) = open(small(), place.path()).unwrap();
    assert_eq!(given.entries.len(), 0);
    assert_eq!(recovery.entries, 0);
    for round in 0..100u64 {
        put(&mut journal, &[(round % 7 + 70_000, &round.to_le_bytes())]).unwrap();
    }
    put(&mut journal, &[(1, b"schema")]).unwrap();
    delete(&mut journal, 70_003).unwrap();
    drop(journal);
    let (_journal, given, recovery) = open(small(), place.path()).unwrap();
    let mut expected: Vec<_> = (94..100u64)
        .chain([93])
        .map(|round| (round % 7 + 70_000, round.to_le_bytes().to_vec()))
        .filter(|(id, _)| *id != 70_003)
        .collect();
    expected.push((1, b"schema".to_vec()));
    assert_eq!(given.entries, expected.into_iter().collect());
    assert_eq!(
        given.order[0], 1,
        "entries that say how others are read come first"
    );
    assert_eq!(given.expected, Some(7));
    assert_eq!(recovery.entries, 7);
    assert_eq!(recovery.torn, None);
    assert_eq!(recovery.gaps, []);
}

/// A second open fails while the first lasts, and does not disturb it.
#[test]
fn a_journal_is_opened_once_at_a_time() {
    let place = Place::new();
    let mut journal = FileJournal::open(place.path()).unwrap();
    put(&mut journal, &[(70_000, b"a")]).unwrap();
    let second = FileJournal::open(place.path());
    assert!(matches!(second, Err(JournalError::Locked(path)) if path == place.path()));
    let mut given = Given::default();
    let inspection = FileJournal::inspect(place.path(), &mut given).unwrap();
    assert!(inspection.in_use);
    assert_eq!(given.entries.len(), 1);
    put(&mut journal, &[(70_001, b"b")]).unwrap();
    drop(journal);
    let (_journal, given, _) = open(small(), place.path()).unwrap();
    assert_eq!(given.entries.len(), 2);
}

/// The open refuses a directory with other content, and a file. Both stay as they are.
#[test]
fn what_is_no_journal_is_left_alone() {
    let place = Place::new();
    fs::create_dir(place.path()).unwrap();
    let thesis = place.path().join("thesis.tex");
    fs::write(&thesis, "years of work").unwrap();
    for path in [place.path(), &thesis] {
        let refused = FileJournal::open(path);
        assert!(
            matches!(refused, Err(JournalError::NotAJournal(_))),
            "{refused:?}"
        );
        let refused = FileJournal::inspect(path, &mut Given::default());
        assert!(
            matches!(refused, Err(JournalError::NotAJournal(_))),
            "{refused:?}"
        );
    }
    assert_eq!(place.files("").len(), 1);
    assert_eq!(fs::read(&thesis).unwrap(), b"years of work");
}

/// The open refuses a journal of a later release, and names its format.
#[test]
fn a_newer_format_is_refused() {
    let place = Place::new();
    let (mut journal, ..) = open(small(), place.path()).unwrap();
    put(&mut journal, &[(70_000, b"a")]).unwrap();
    drop(journal);
    let segment = &place.segments()[0];
    let mut bytes = fs::read(segment).unwrap();
    bytes[4] = 2;
    let crc = crc32fast::hash(&bytes[..8]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    fs::write(segment, &bytes).unwrap();
    let refused = open(small(), place.path()).unwrap_err();
    let JournalError::NewerFormat { path, found, known } = refused else {
        panic!("{refused}");
    };
    assert_eq!((&path, found, known), (segment, 2, 1));
    assert_eq!(fs::read(segment).unwrap(), bytes);
}

/// A journal refuses an entry that is too long before it writes any part of the batch.
#[test]
fn too_long_an_entry_is_refused_whole() {
    let place = Place::new();
    let (mut journal, ..) = open(small(), place.path()).unwrap();
    let mut batch = Batch::new();
    batch.put(EntryId(70_000), b"a");
    batch.end_group();
    batch.put(EntryId(70_001), &vec![1; (64 << 20) + 1]);
    batch.end_group();
    let refused = journal.commit(&batch);
    assert!(matches!(refused, Err(JournalError::TooLong { most, .. }) if most == 64 << 20));
    assert_eq!(journal.stats().entries, 0);
    put(&mut journal, &[(70_002, b"c")]).unwrap();
    drop(journal);
    let (_journal, given, _) = open(small(), place.path()).unwrap();
    assert_eq!(given.entries, [(70_002, b"c".to_vec())].into());
}

/// The journal keeps a group larger than a segment, and a batch of many such groups.
#[test]
fn large_groups_are_kept() {
    let place = Place::new();
    let (mut journal, ..) = open(small(), place.path()).unwrap();
    let mut batch = Batch::new();
    for id in 70_000..70_020u64 {
        batch.put(EntryId(id), &vec![id as u8; 10 + id as usize % 5 * 700]);
        batch.end_group();
    }
    journal.commit(&batch).unwrap();
    drop(journal);
    let (_journal, given, _) = open(small(), place.path()).unwrap();
    assert_eq!(given.order, (70_000..70_020).collect::<Vec<_>>());
    for (id, bytes) in given.entries {
        assert_eq!(bytes, vec![id as u8; 10 + id as usize % 5 * 700]);
    }
}

/// Without the permission to write, the error says so.
#[test]
fn a_place_that_cannot_be_made_is_named() {
    let place = Place::new();
    fs::write(place.path(), "").unwrap();
    let refused = FileJournal::open(place.path().join("below")).unwrap_err();
    assert!(!refused.to_string().is_empty());
    fs::remove_file(place.path()).unwrap();
    let missing = FileJournal::inspect(place.path(), &mut Given::default()).unwrap_err();
    assert!(
        matches!(missing, JournalError::Io { source, .. } if source.kind() == ErrorKind::NotFound)
    );
}
