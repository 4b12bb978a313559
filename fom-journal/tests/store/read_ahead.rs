//! A large journal is read by another thread, ahead of what the caller does with the entries.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use fom_journal::{
    Batch, Damage, EntryId, FileJournal, FileJournalOptions, Journal, Recover, Recovery,
};

use crate::kit::{Place, open};

fn options(background: bool) -> FileJournalOptions {
    FileJournal::options()
        .segment_bytes(64 << 10)
        .background(background)
        .salvage(true)
}

/// Writes about four mebibytes. Some entries have older bytes in earlier segments.
fn written() -> Place {
    let place = Place::new();
    let (mut journal, ..) = open(options(false), place.path()).unwrap();
    let mut batch = Batch::new();
    for id in 0..4_000_u64 {
        batch.put(EntryId(70_000 + id), &[id as u8; 700]);
        batch.put(EntryId(80_000 + id % 3), &id.to_le_bytes());
        batch.end_group();
        if id % 50 == 0 {
            journal.commit(&batch).unwrap();
            batch.clear();
        }
    }
    journal.commit(&batch).unwrap();
    place
}

/// All that a recovery tells, in its order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told(Vec<Of>);

#[derive(Debug, PartialEq, Eq)]
enum Of {
    Expected(u64),
    /// The name of the file, and the offset.
    At(PathBuf, u64),
    Entry(EntryId, Vec<u8>),
    Damaged(EntryId, PathBuf, u64),
}

fn name(path: &Path) -> PathBuf {
    path.file_name().unwrap().into()
}

impl Recover for Told {
    fn expect(&mut self, entries: u64) {
        self.0.push(Of::Expected(entries));
    }

    fn place(&mut self, file: &Path, offset: u64) {
        self.0.push(Of::At(name(file), offset));
    }

    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        self.0.push(Of::Entry(id, bytes.to_vec()));
    }

    fn damaged(&mut self, id: EntryId, damage: Damage) {
        self.0
            .push(Of::Damaged(id, name(&damage.file), damage.offset));
    }
}

fn recovered(place: &Place, background: bool) -> (Told, Recovery) {
    let mut journal = options(background).open(place.path()).unwrap();
    let mut told = Told::default();
    let recovery = journal.recover(&mut told).unwrap();
    (told, recovery)
}

/// Which thread reads makes no difference: the same entries come in the same order, and the same damage is found.
#[test]
fn the_caller_learns_the_same() {
    let place = written();
    let (alone, recovery) = recovered(&place.copy(), false);
    assert_eq!(recovery.entries, 4_003);
    assert!(recovery.gaps.is_empty());
    assert_eq!((alone, recovery), recovered(&place.copy(), true));

    // The bytes of an entry in the middle, and older bytes of another.
    let segments = place.segments();
    let path = &segments[segments.len() / 2];
    let mut bytes = fs::read(path).unwrap();
    let entry = bytes.windows(700).position(|bytes| {
        let first = bytes[0];
        first != 0 && bytes.iter().all(|byte| *byte == first)
    });
    let entry = entry.expect("an entry of 700 equal bytes");
    bytes[entry + 100] ^= 1;
    bytes[entry + 700] ^= 1;
    fs::write(path, &bytes).unwrap();
    let ((alone, one), (ahead, other)) = (
        recovered(&place.copy(), false),
        recovered(&place.copy(), true),
    );
    let damaged = |told: &Told| {
        let damaged = told.0.iter().filter(|of| matches!(of, Of::Damaged(..)));
        damaged.count()
    };
    assert_eq!(damaged(&alone), 1);
    assert_eq!(one.gaps.len(), 1, "{:?}", one.gaps);
    assert_eq!(alone, ahead);
    let places = |recovery: &Recovery| -> Vec<_> {
        let gaps = recovery.gaps.iter();
        gaps.map(|gap| (name(&gap.file), gap.offset, gap.length))
            .collect()
    };
    assert_eq!(places(&one), places(&other));
}

/// A caller that panics gets its panic, and the reading thread ends.
#[test]
fn a_panic_of_the_caller_ends_the_reading() {
    struct Panics(u32);
    impl Recover for Panics {
        fn entry(&mut self, _: EntryId, _: &[u8]) {
            self.0 += 1;
            assert!(self.0 < 10, "enough");
        }
        fn damaged(&mut self, _: EntryId, _: Damage) {}
    }
    let place = written();
    let mut journal = options(true).open(place.path()).unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| journal.recover(&mut Panics(0))));
    let panic = panic.expect_err("the caller panics");
    assert_eq!(panic.downcast_ref(), Some(&"enough"));
}
