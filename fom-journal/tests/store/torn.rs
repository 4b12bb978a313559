//! A crash in the middle of a write loses only what was not acknowledged.

use std::{fs, path::PathBuf};

use fom_journal::{Batch, EntryId, FileJournal, Journal, JournalError};

use crate::kit::{FIRST, LINK, Place, is_used, open, put, small};

/// Returns the files that a kill leaves after three syncs, the last of three groups. Also returns where the last sync
/// of the first segment begins and ends.
fn written(place: &Place) -> (Vec<(PathBuf, Vec<u8>)>, usize, usize) {
    let (mut journal, ..) = open(small(), place.path()).unwrap();
    put(&mut journal, &[(1, b"schema")]).unwrap();
    put(&mut journal, &[(70_000, b"acknowledged"), (70_001, b"")]).unwrap();
    let bytes = fs::read(&place.segments()[0]).unwrap();
    let begin = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut batch = Batch::new();
    for id in 70_002..70_005u64 {
        batch.put(EntryId(id), &[id as u8; 20]);
        batch.put(EntryId(70_000), &[id as u8]);
        batch.end_group();
    }
    journal.commit(&batch).unwrap();
    let content = place.content();
    let bytes = fs::read(&place.segments()[0]).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    (content, begin, end)
}

/// Commits one more entry, and opens the journal again: the cut part does not come back.
fn stays_cut(place: &Place, mut journal: FileJournal, entries: usize) {
    put(&mut journal, &[(80_000, b"later")]).unwrap();
    drop(journal);
    let (_journal, again, recovery) = open(small(), place.path()).unwrap();
    assert_eq!(recovery.torn, None);
    assert_eq!(again.entries.len(), entries + 1);
}

/// The last write breaks off at each byte. Whole groups from its beginning are there, in order; the rest is cut, and
/// the journal continues.
#[test]
fn the_last_write_may_break_off_at_every_byte() {
    let place = Place::new();
    let (killed, begin, end) = written(&place);
    let segment = place.segments()[0].clone();
    let bytes = fs::read(&segment).unwrap();
    for cut in begin..=end {
        place.restore(&killed);
        let mut torn = bytes.clone();
        torn[cut..].fill(0);
        fs::write(&segment, &torn).unwrap();
        let (journal, given, recovery) = open(small(), place.path()).unwrap();
        let length = (end - begin) / 3;
        let whole = (cut - begin) / length;
        assert_eq!(given.entries.len(), 3 + whole, "cut at {cut}");
        assert_eq!(given.entries[&1], b"schema");
        let last = 70_001 + whole as u64;
        match whole {
            0 => assert_eq!(given.entries[&70_000], b"acknowledged"),
            _ => assert_eq!(given.entries[&70_000], [last as u8]),
        }
        let between = begin + whole * length;
        match recovery.torn {
            // The first bytes of a group are a checksum, and may be zero.
            None => assert!(
                torn[between..].iter().all(|byte| *byte == 0),
                "cut at {cut}: only a cut that leaves nothing but zeros leaves no trace"
            ),
            Some(damage) => {
                assert_eq!((&damage.file, damage.offset), (&segment, between as u64));
                let aside = place.files("torn-");
                assert_eq!(aside.len(), 1);
                let kept = fs::read(&aside[0]).unwrap();
                assert!(torn[between..].starts_with(&kept));
                assert!(torn[between + kept.len()..].iter().all(|byte| *byte == 0));
            }
        }
        stays_cut(&place, journal, given.entries.len());
    }
}

/// The first write of a segment may break off at every byte, too. No part of it was acknowledged, and everything before
/// it was.
#[test]
fn the_first_write_of_a_segment_may_break_off_at_every_byte() {
    let place = Place::new();
    let (mut journal, ..) = open(small(), place.path()).unwrap();
    put(&mut journal, &[(70_000, &[7; 600])]).unwrap();
    put(&mut journal, &[(70_001, &[8; 600])]).unwrap();
    let killed = place.content();
    drop(journal);
    place.restore(&killed);
    let used: Vec<_> = place
        .segments()
        .into_iter()
        .filter(|path| is_used(path))
        .collect();
    assert_eq!(used.len(), 2);
    let bytes = fs::read(&used[1]).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for cut in LINK..=end {
        place.restore(&killed);
        let mut torn = bytes.clone();
        torn[cut..].fill(0);
        fs::write(&used[1], &torn).unwrap();
        let (journal, given, recovery) = open(small(), place.path()).unwrap();
        let is_whole = torn == bytes;
        assert_eq!(
            given.entries.len(),
            if is_whole { 2 } else { 1 },
            "cut at {cut}"
        );
        // The journal reports no torn end where there are no bytes.
        let seen = match torn[..FIRST] == bytes[..FIRST] {
            true => &torn[FIRST..FIRST + 28],
            false => &torn[LINK..FIRST],
        };
        let is_seen = !is_whole && seen.iter().any(|byte| *byte != 0);
        assert_eq!(recovery.torn.is_some(), is_seen, "cut at {cut}");
        stays_cut(&place, journal, given.entries.len());
    }
}

/// The pages of one write reach the disk in any order. Pages of the last write may be missing in front of others that
/// are there.
#[test]
fn the_last_write_may_lose_any_part() {
    let place = Place::new();
    let (killed, begin, end) = written(&place);
    let segment = place.segments()[0].clone();
    let bytes = fs::read(&segment).unwrap();
    for from in (begin..end).step_by(3) {
        for to in (from + 1..end).step_by(7) {
            place.restore(&killed);
            let mut torn = bytes.clone();
            torn[from..to].fill(0);
            fs::write(&segment, &torn).unwrap();
            let (journal, given, _) = open(small(), place.path()).unwrap();
            // Missing bytes of a group that were zeros anyway do not matter.
            let whole = given.entries.len() - 3;
            assert!(whole >= (from - begin) / ((end - begin) / 3));
            for id in 70_002..70_002 + whole as u64 {
                assert_eq!(given.entries[&id], [id as u8; 20]);
            }
            stays_cut(&place, journal, given.entries.len());
        }
    }
}

/// A write with a later write behind it was acknowledged. The journal does not cut it off, but names it.
#[test]
fn what_was_acknowledged_is_not_taken_for_torn() {
    let place = Place::new();
    let (killed, begin, _) = written(&place);
    place.restore(&killed);
    let segment = place.segments()[0].clone();
    let mut bytes = fs::read(&segment).unwrap();
    bytes[begin - 60..begin - 30].fill(0);
    fs::write(&segment, &bytes).unwrap();
    let refused = open(small(), place.path()).unwrap_err();
    let JournalError::Damaged(damage) = refused else {
        panic!("{refused}");
    };
    assert_eq!(damage.file, segment);
    assert!(damage.offset < begin as u64 && damage.offset + damage.length >= begin as u64);
    assert_eq!(fs::read(&segment).unwrap(), bytes, "it is left as it is");
}

/// The journal keeps only the newest of many torn ends.
#[test]
fn torn_ends_do_not_fill_the_disk() {
    let mut place = Place::new();
    for round in 0..20u64 {
        let (mut journal, given, _) = open(small(), place.path()).unwrap();
        assert_eq!(given.entries.len() as u64, round);
        put(&mut journal, &[(70_000 + round, b"a")]).unwrap();
        // A closed journal has no torn end.
        place = place.copy();
        let mut segments = place.segments();
        segments.retain(|path| is_used(path));
        let segment = segments.pop().unwrap();
        let mut bytes = fs::read(&segment).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        bytes[end..end + 20].fill(7);
        fs::write(&segment, &bytes).unwrap();
    }
    let (_, given, _) = open(small(), place.path()).unwrap();
    assert_eq!(given.entries.len(), 20);
    let torn = place.files("torn-").len();
    assert!((1..=8).contains(&torn), "{torn} files");
}

/// The last write is torn, and the one before it is damaged. The journal cuts the one and reports the other.
#[test]
fn a_torn_write_behind_a_damaged_one_is_cut() {
    let place = Place::new();
    let (killed, begin, end) = written(&place);
    let segment = place.segments()[0].clone();
    place.restore(&killed);
    let mut spoiled = fs::read(&segment).unwrap();
    let at = spoiled
        .windows(12)
        .position(|bytes| bytes == b"acknowledged")
        .unwrap();
    spoiled[at] ^= 1;
    // The first of three groups; the others are whole.
    spoiled[begin..begin + (end - begin) / 3].fill(0);
    fs::write(&segment, &spoiled).unwrap();
    let (_, given, found) = open(small(), place.path()).unwrap();
    assert_eq!(given.damaged.keys().copied().collect::<Vec<_>>(), [70_000]);
    assert_eq!(found.torn.map(|torn| torn.offset), Some(begin as u64));
    assert_eq!(given.entries.len(), 2);
}
