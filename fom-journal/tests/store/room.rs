//! The size of a journal is bounded, and the cost of that is bounded and counted.

use std::{collections::BTreeMap, fs};

use fom_journal::{Batch, EntryId, FileJournal, Journal};

use crate::kit::{Place, open};

const SEGMENT: u64 = 16 << 10;

fn size_of(place: &Place) -> u64 {
    let files = place.segments().into_iter();
    files.map(|path| fs::metadata(path).unwrap().len()).sum()
}

/// Beside `parked` entries, other entries come, change and go. After each commit the size is within its bound, with or
/// without a call of `tidy`. Returns the number of moved bytes for each byte that was written for its own sake.
fn churn(parked: u64, tidies: bool, background: bool) -> f64 {
    let place = Place::new();
    let options = FileJournal::options()
        .segment_bytes(SEGMENT)
        .background(background);
    let (mut journal, ..) = open(options.clone(), place.path()).unwrap();
    let mut batch = Batch::new();
    let mut entries = BTreeMap::new();
    for id in 0..parked {
        batch.put(EntryId(100_000 + id), &[id as u8; 100]);
        batch.end_group();
        entries.insert(100_000 + id, vec![id as u8; 100]);
        if batch.len() == 50 {
            journal.commit(&batch).unwrap();
            batch.clear();
        }
    }
    let mut from = journal.stats();
    for round in 0..3_000u64 {
        if round == 1_500 {
            // The parked entries have spread by now.
            from = journal.stats();
        }
        batch.clear();
        let id = 1_000_000 + round / 5;
        let bytes = vec![round as u8; 150];
        if round % 5 == 4 {
            batch.delete(EntryId(id));
            entries.remove(&id);
        } else {
            batch.put(EntryId(id), &bytes);
            entries.insert(id, bytes);
        }
        batch.end_group();
        journal.commit(&batch).unwrap();
        if tidies {
            journal.tidy().unwrap();
        }
        let stats = journal.stats();
        let live = stats.live_bytes + 44 * stats.entries;
        let dead = (8 * live).min(16 * SEGMENT).max(live);
        let bound = (4 * SEGMENT).max(live + dead + 3 * SEGMENT);
        assert!(
            stats.size_bytes <= bound,
            "{} bytes of {bound} in round {round}, {parked} parked",
            stats.size_bytes
        );
        if !background {
            assert_eq!(
                size_of(&place),
                stats.size_bytes,
                "the size is what it says"
            );
        }
    }
    let stats = journal.stats();
    let moved = stats.moved_bytes - from.moved_bytes;
    let prepared = stats.prepared_bytes - from.prepared_bytes;
    let own = stats.written_bytes - from.written_bytes - moved - prepared;
    // A reused file is cleared at its beginning, which is a quarter of such small files.
    let most = (own + moved) * 3 / 8;
    assert!(
        prepared < most,
        "files are used again: {prepared} bytes beside {own} and {moved}"
    );
    drop(journal);
    let (mut journal, given, _) = open(options, place.path()).unwrap();
    assert_eq!(given.entries, entries);
    while journal.tidy().unwrap() {}
    moved as f64 / own as f64
}

/// With no parked entries almost nothing is moved; with some, a fifth of what is written; with many, about as much.
#[test]
fn the_size_is_bounded_and_so_is_its_cost() {
    for background in [false, true] {
        let nothing = churn(0, true, background);
        assert!(nothing < 0.2, "{nothing}");
        let little = churn(300, true, background);
        assert!(little < 0.2, "{little}");
        let much = churn(2_000, true, background);
        assert!(much < 1.6, "{much}");
    }
}

/// A caller that never tidies pays while committing.
#[test]
fn the_size_is_bounded_without_tidying() {
    for parked in [0, 300, 2_000] {
        let moved = churn(parked, false, false);
        assert!(moved < 1.6, "{moved}");
    }
}

/// Frequent opens, each for one commit, do not fill the disk either.
#[test]
fn opening_it_often_takes_no_room() {
    let place = Place::new();
    for round in 0..40u64 {
        let options = FileJournal::options().segment_bytes(SEGMENT);
        let (mut journal, given, _) = open(options, place.path()).unwrap();
        assert_eq!(given.entries.len() as u64, round);
        let mut batch = Batch::new();
        batch.put(EntryId(70_000 + round), &[1; 100]);
        batch.end_group();
        journal.commit(&batch).unwrap();
        while journal.tidy().unwrap() {}
        drop(journal);
        assert!(size_of(&place) <= 5 * SEGMENT, "{} bytes", size_of(&place));
    }
}

/// One entry that is much larger than a segment does not make the journal tidy forever.
#[test]
fn tidying_a_large_entry_comes_to_an_end() {
    let place = Place::new();
    let options = FileJournal::options().segment_bytes(SEGMENT);
    let (mut journal, ..) = open(options, place.path()).unwrap();
    for round in 0..4u8 {
        let mut batch = Batch::new();
        batch.put(EntryId(70_000), &vec![round; 20 * SEGMENT as usize]);
        batch.end_group();
        journal.commit(&batch).unwrap();
        batch.clear();
        batch.delete(EntryId(70_000));
        batch.end_group();
        journal.commit(&batch).unwrap();
        let slices = (0..1_000).find(|_| !journal.tidy().unwrap());
        assert!(slices.is_some(), "it goes on and on");
    }
    assert!(size_of(&place) < 30 * SEGMENT);
}
