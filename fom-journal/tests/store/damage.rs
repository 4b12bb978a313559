//! The journal finds damage, names its place, and never returns it as an entry.

use std::{collections::BTreeMap, fs, path::PathBuf};

use fom_journal::{Damage, FileJournal, Journal, JournalError};

use crate::kit::{FIRST, Given, Place, delete, is_used, open, put, small};

/// Writes some segments. The bytes of each entry say which entry it is and how new.
fn written() -> (Place, BTreeMap<u64, Vec<u8>>) {
    let place = Place::new();
    let (mut journal, ..) = open(small(), place.path()).unwrap();
    let mut entries = BTreeMap::new();
    for id in 100_000..100_014u64 {
        let bytes = format!("entry {id} {}", "y".repeat(90)).into_bytes();
        put(&mut journal, &[(id, &bytes)]).unwrap();
        entries.insert(id, bytes);
    }
    for round in 0..10u64 {
        for id in [round % 3, 70_000 + round % 5] {
            let bytes = format!(
                "entry {id} round {round} {}",
                "x".repeat(round as usize * 3)
            );
            put(
                &mut journal,
                &[(id, bytes.as_bytes()), (80_000, b"each time")],
            )
            .unwrap();
            entries.insert(id, bytes.into_bytes());
        }
        put(&mut journal, &[(90_000, b"for a moment")]).unwrap();
        delete(&mut journal, 90_000).unwrap();
    }
    entries.insert(80_000, b"each time".to_vec());
    drop(journal);
    (place, entries)
}

/// Returns the segments that hold entries.
fn used(place: &Place) -> Vec<PathBuf> {
    let inspection = FileJournal::inspect(place.path(), &mut Given::default()).unwrap();
    let mut used = place.segments();
    used.retain(|path| is_used(path));
    // Free segments may precede them.
    used.split_off(used.len() - inspection.segments)
}

/// Returns every place that a recovery reported.
fn told(given: &Given, torn: Option<Damage>, gaps: Vec<Damage>) -> Vec<Damage> {
    let damaged = given.damaged.values().cloned();
    damaged.chain(torn).chain(gaps).collect()
}

/// One bit is flipped, at each place. The entries are right and the place is reported, except in unused bytes.
#[test]
fn every_flipped_bit_is_found() {
    let (place, entries) = written();
    let copy = place.copy();
    assert!(used(&place).len() >= 4);
    for (at, path) in used(&place).into_iter().enumerate() {
        let bytes = fs::read(&path).unwrap();
        let end = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1);
        for offset in 0..end {
            let mut flipped = bytes.clone();
            flipped[offset] ^= 1 << ((offset + at) % 8);
            copy.restore(&place.content());
            let file = copy.path().join(path.file_name().unwrap());
            fs::write(&file, &flipped).unwrap();
            check_flipped(&copy, &file, offset as u64, &entries);
        }
    }
}

fn check_flipped(place: &Place, file: &PathBuf, offset: u64, entries: &BTreeMap<u64, Vec<u8>>) {
    let context = format!("offset {offset} of {}", file.display());
    let names = |damage: &Damage| {
        let inside = (damage.offset..damage.offset + damage.length.max(1)).contains(&offset);
        &damage.file == file && inside
    };
    match open(small(), place.path()) {
        Ok((_, given, recovery)) => {
            // The journal was closed, so its last write is as certain as the others. If the record of the end looks
            // torn, all entries are there.
            let told = told(&given, recovery.torn, recovery.gaps);
            assert!(told.iter().any(names), "{context}: {told:?} {given:?}");
            for (id, bytes) in &given.entries {
                assert_eq!(Some(bytes), entries.get(id), "{context}: entry {id}");
            }
            let told = given.entries.len() + given.damaged.len();
            assert_eq!(told, entries.len(), "{context}");
        }
        Err(JournalError::Damaged(damage)) => {
            assert!(names(&damage), "{context}: {damage}");
            salvage(place, &context, entries);
        }
        Err(error) => panic!("{context}: {error}"),
    }
}

/// Opens the journal without the damaged part. From then on it is whole.
fn salvage(place: &Place, context: &str, entries: &BTreeMap<u64, Vec<u8>>) {
    let (mut journal, given, recovery) = open(small().salvage(true), place.path()).unwrap();
    assert!(!recovery.gaps.is_empty(), "{context}");
    for (id, bytes) in &given.entries {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let own = match id {
            80_000 | 90_000 => entries.get(id).is_none_or(|right| right == bytes),
            _ => text.starts_with(&format!("entry {id} ")),
        };
        assert!(own, "{context}: entry {id} is {text}");
    }
    put(&mut journal, &[(95_000, b"later")]).unwrap();
    drop(journal);
    assert!(!place.files("damaged-").is_empty(), "{context}");
    let (_, again, recovery) = open(small(), place.path()).unwrap();
    assert_eq!(recovery.gaps, [], "{context}");
    assert_eq!(again.entries.len(), given.entries.len() + 1, "{context}");
}

/// A segment that is gone is noticed at any position, and named.
#[test]
fn a_missing_segment_is_named() {
    let (place, _) = written();
    let used = used(&place);
    for path in &used {
        let copy = place.copy();
        let gone = copy.path().join(path.file_name().unwrap());
        fs::remove_file(&gone).unwrap();
        let refused = open(small(), copy.path()).unwrap_err();
        assert!(
            matches!(&refused, JournalError::Damaged(damage) if damage.file == gone),
            "{refused}"
        );
        let (journal, given, recovery) = open(small().salvage(true), copy.path()).unwrap();
        assert!(recovery.gaps.iter().any(|gap| gap.file == gone));
        drop(journal);
        let (_, again, recovery) = open(small(), copy.path()).unwrap();
        assert_eq!((again.entries, recovery.gaps), (given.entries, vec![]));
    }
}

/// A segment of another journal is not read as one of this journal.
#[test]
fn a_foreign_segment_is_refused() {
    let ((place, _), (other, _)) = (written(), written());
    let path = used(&place)[1].clone();
    fs::copy(&used(&other)[1], &path).unwrap();
    let refused = open(small(), place.path()).unwrap_err();
    assert!(
        matches!(&refused, JournalError::Damaged(damage) if damage.file == path),
        "{refused}"
    );
}

/// An inspection returns the entries, reports the damage, and changes no byte.
#[test]
fn inspecting_changes_nothing() {
    let (place, entries) = written();
    let snapshot = |place: &Place| -> Vec<_> {
        let files = place.files("").into_iter();
        files.map(|path| (fs::read(&path).unwrap(), path)).collect()
    };
    let before = snapshot(&place);
    let mut given = Given::default();
    let inspection = FileJournal::inspect(place.path(), &mut given).unwrap();
    assert_eq!((given.entries, inspection.in_use), (entries, false));
    assert!(before == snapshot(&place));
    let path = used(&place)[0].clone();
    let mut bytes = fs::read(&path).unwrap();
    bytes[FIRST + 8] ^= 4;
    fs::write(&path, &bytes).unwrap();
    let before = snapshot(&place);
    let inspection = FileJournal::inspect(place.path(), &mut Given::default()).unwrap();
    assert_eq!(inspection.recovery.gaps.len(), 1);
    assert_eq!(inspection.recovery.gaps[0].file, path);
    assert!(before == snapshot(&place));
}

/// A damaged entry is reported again after a move to another segment, until it is put again.
#[test]
fn a_damaged_entry_stays_so_until_it_is_put() {
    let place = Place::new();
    let (mut journal, ..) = open(small(), place.path()).unwrap();
    let mut changes = vec![(70_000, b"this one is to be damaged".to_vec())];
    changes.extend((70_001..70_006).map(|id| (id, vec![id as u8; 100])));
    for (id, bytes) in &changes {
        put(&mut journal, &[(*id, bytes)]).unwrap();
    }
    drop(journal);
    let path = place.segments()[0].clone();
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes
        .windows(9)
        .position(|bytes| bytes == b"to be dam")
        .unwrap();
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let (mut journal, given, _) = open(small(), place.path()).unwrap();
    assert_eq!(given.damaged.keys().copied().collect::<Vec<_>>(), [70_000]);
    assert_eq!(journal.stats().entries, 6);
    // Until the segment is free.
    for round in 0..100u64 {
        put(&mut journal, &[(80_000, &[round as u8; 300])]).unwrap();
        while journal.tidy().unwrap() {}
    }
    drop(journal);
    assert_ne!(used(&place)[0], path);
    let (mut journal, given, _) = open(small(), place.path()).unwrap();
    assert_eq!(given.damaged.keys().copied().collect::<Vec<_>>(), [70_000]);
    assert_ne!(given.damaged[&70_000].file, path);
    put(&mut journal, &[(70_000, b"anew")]).unwrap();
    drop(journal);
    let (_, given, _) = open(small(), place.path()).unwrap();
    assert_eq!(
        (given.damaged.len(), &*given.entries[&70_000]),
        (0, &b"anew"[..])
    );
}

/// A foreign file in place of a segment, or the rest of a cut segment, is named and never taken for an empty file. The
/// segment is the newest, the only one, or one between others.
#[test]
fn something_else_in_the_place_of_a_segment_is_named() {
    let only = Place::new();
    let (mut journal, ..) = open(FileJournal::options(), only.path()).unwrap();
    put(&mut journal, &[(70_000, b"the only one")]).unwrap();
    drop(journal);
    let (several, _) = written();
    for place in [only, several] {
        for path in used(&place) {
            let whole = fs::read(&path).unwrap();
            for other in [&b"hello, I am a file"[..], &whole[..20], &whole[..70]] {
                fs::write(&path, other).unwrap();
                let refused = open(FileJournal::options(), place.path()).err();
                let Some(JournalError::Damaged(damage)) = &refused else {
                    panic!("{} bytes in {}: {refused:?}", other.len(), path.display());
                };
                assert!(damage.file.exists(), "nothing is thrown away");
                fs::write(&path, &whole).unwrap();
            }
            open(FileJournal::options(), place.path()).unwrap();
        }
    }
}
