//! What every [`Journal`] promises, as a check that any implementation can run.

use std::collections::BTreeMap;

use crate::journal::{Batch, Damage, EntryId, Journal, Recover};

/// Checks that a journal keeps the promises of the trait, as far as that can be seen without a crash.
///
/// `fresh` makes an empty place for a journal and returns what opens it, each time anew; the one that was open before is
/// dropped by then. Called from a test:
///
/// ```
/// use fom_runtime::journal::{conformance, MemoryJournal};
///
/// conformance::check(|| {
///     let kept = MemoryJournal::new();
///     move || kept.clone()
/// });
/// ```
///
/// # Panics
///
/// When a promise is not kept; the message says which.
pub fn check<J, O>(mut fresh: impl FnMut() -> O)
where
    J: Journal,
    O: FnMut() -> J,
{
    empty_is_empty(&mut fresh());
    newest_bytes_are_kept(&mut fresh());
    groups_keep_their_order(&mut fresh());
    each_entry_comes_once_and_the_first_first(&mut fresh());
    any_bytes_and_numbers_are_kept(&mut fresh());
    open_groups_are_not_committed(&mut fresh());
    tidying_changes_nothing(&mut fresh());
    random_changes_are_kept(&mut fresh());
}

/// Takes in what a journal gives.
#[derive(Default)]
struct Given {
    entries: BTreeMap<u64, Vec<u8>>,
    order: Vec<EntryId>,
    expected: Option<u64>,
}

impl Recover for Given {
    fn expect(&mut self, entries: u64) {
        assert!(self.order.is_empty(), "`expect` comes before the entries");
        self.expected = Some(entries);
    }

    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        self.order.push(id);
        let before = self.entries.insert(id.0, bytes.to_vec());
        assert_eq!(before, None, "entry {id} was given twice");
    }

    fn damaged(&mut self, id: EntryId, damage: Damage) {
        panic!("entry {id} is told to be damaged though nobody damaged it: {damage}");
    }
}

fn reopen<J: Journal>(open: &mut impl FnMut() -> J) -> (J, Given) {
    let mut journal = open();
    let mut given = Given::default();
    let recovery = match journal.recover(&mut given) {
        Ok(recovery) => recovery,
        Err(error) => panic!("a journal that was closed could not be opened again: {error}"),
    };
    let count = given.order.len() as u64;
    assert_eq!(
        recovery.entries, count,
        "`Recovery::entries` counts what was given"
    );
    assert!(
        given.expected.is_none_or(|expected| expected == count),
        "as many entries come as were told to `expect`"
    );
    assert_eq!(recovery.gaps, [], "nothing was damaged");
    assert_eq!(recovery.torn, None, "no write was broken off");
    let stats = journal.stats();
    assert_eq!(
        stats.entries, count,
        "`JournalStats::entries` counts what is kept"
    );
    let bytes = given
        .entries
        .values()
        .map(|bytes| bytes.len() as u64)
        .sum::<u64>();
    assert_eq!(
        stats.live_bytes, bytes,
        "`JournalStats::live_bytes` counts what is kept"
    );
    (journal, given)
}

fn commit(journal: &mut impl Journal, batch: &Batch) {
    if let Err(error) = journal.commit(batch) {
        panic!("a commit that nothing stood in the way of failed: {error}");
    }
}

fn tidy(journal: &mut impl Journal) {
    // An end must come, however it is cut into slices.
    for _ in 0..100_000 {
        match journal.tidy() {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => panic!("tidying failed: {error}"),
        }
    }
    panic!("tidying without a commit in between comes to no end");
}

fn put(batch: &mut Batch, id: u64, bytes: &[u8]) {
    batch.put(EntryId(id), bytes);
    batch.end_group();
}

fn empty_is_empty<J: Journal>(open: &mut impl FnMut() -> J) {
    let (mut journal, given) = reopen(open);
    assert!(given.order.is_empty(), "a fresh journal has no entries");
    commit(&mut journal, &Batch::new());
    let mut batch = Batch::new();
    batch.end_group();
    commit(&mut journal, &batch);
    drop(journal);
    let (journal, given) = reopen(open);
    assert!(given.order.is_empty(), "an empty batch leaves no entries");
    drop(journal);
}

fn newest_bytes_are_kept<J: Journal>(open: &mut impl FnMut() -> J) {
    let (mut journal, _) = reopen(open);
    let mut batch = Batch::new();
    for round in 0..5u8 {
        batch.clear();
        put(&mut batch, 70_000, &[round; 3]);
        put(&mut batch, 70_000, &[round; 2]);
        commit(&mut journal, &batch);
    }
    drop(journal);
    let (mut journal, given) = reopen(open);
    assert_eq!(
        given.entries,
        [(70_000, vec![4; 2])].into(),
        "the newest bytes of an entry are kept"
    );
    batch.clear();
    batch.delete(EntryId(70_000));
    batch.delete(EntryId(70_001));
    batch.end_group();
    commit(&mut journal, &batch);
    assert_eq!(journal.stats().entries, 0, "a deleted entry is not counted");
    drop(journal);
    let (mut journal, given) = reopen(open);
    assert!(given.order.is_empty(), "a deleted entry does not come back");
    batch.clear();
    put(&mut batch, 70_000, b"again");
    commit(&mut journal, &batch);
    drop(journal);
    let (_journal, given) = reopen(open);
    assert_eq!(
        given.entries[&70_000], b"again",
        "what was deleted can be put again"
    );
}

fn groups_keep_their_order<J: Journal>(open: &mut impl FnMut() -> J) {
    let (mut journal, _) = reopen(open);
    let mut batch = Batch::new();
    put(&mut batch, 70_000, b"first");
    batch.delete(EntryId(70_000));
    batch.put(EntryId(70_001), b"a");
    batch.delete(EntryId(70_001));
    batch.put(EntryId(70_001), b"b");
    batch.put(EntryId(70_002), b"c");
    batch.end_group();
    batch.delete(EntryId(70_002));
    batch.end_group();
    commit(&mut journal, &batch);
    drop(journal);
    let (_journal, given) = reopen(open);
    let expected = [(70_001, b"b".to_vec())].into();
    assert_eq!(
        given.entries, expected,
        "changes take effect in their order"
    );
}

fn each_entry_comes_once_and_the_first_first<J: Journal>(open: &mut impl FnMut() -> J) {
    let (mut journal, _) = reopen(open);
    let mut batch = Batch::new();
    for id in (0..50).flat_map(|at| [EntryId::HEAD.0 + at * 977, at * 1_300]) {
        put(&mut batch, id, &id.to_le_bytes());
        // Without bytes, and twice in one group.
        batch.put(EntryId(id), b"");
        batch.put(EntryId(id), b"");
        batch.put(EntryId(id + 1), &id.to_le_bytes());
        batch.end_group();
    }
    commit(&mut journal, &batch);
    drop(journal);
    let (_journal, given) = reopen(open);
    assert_eq!(given.order.len(), 200);
    let first = given.order.partition_point(|id| *id < EntryId::HEAD);
    assert!(
        given.order[first..].iter().all(|id| *id >= EntryId::HEAD),
        "entries below `EntryId::HEAD` come before the others"
    );
    assert_eq!(first, 100);
}

fn any_bytes_and_numbers_are_kept<J: Journal>(open: &mut impl FnMut() -> J) {
    let (mut journal, _) = reopen(open);
    let mut batch = Batch::new();
    let ids = [
        0,
        1,
        EntryId::HEAD.0 - 1,
        EntryId::HEAD.0,
        u64::from(u32::MAX),
        u64::MAX - 1,
        u64::MAX,
    ];
    for (at, id) in ids.into_iter().enumerate() {
        put(&mut batch, id, &vec![at as u8; at * at * 1_000]);
    }
    let mut long = vec![0; 300_000];
    for (at, byte) in long.iter_mut().enumerate() {
        *byte = (at / 7) as u8;
    }
    put(&mut batch, 70_000, &long);
    put(&mut batch, 70_001, b"FOMJ\0\0\0\0");
    commit(&mut journal, &batch);
    drop(journal);
    let (_journal, given) = reopen(open);
    for (at, id) in ids.into_iter().enumerate() {
        assert_eq!(
            given.entries[&id],
            vec![at as u8; at * at * 1_000],
            "the bytes of entry {id}"
        );
    }
    assert!(given.entries[&70_000] == long, "300,000 bytes of one entry");
    assert_eq!(given.entries[&70_001], b"FOMJ\0\0\0\0");
}

fn open_groups_are_not_committed<J: Journal>(open: &mut impl FnMut() -> J) {
    let (mut journal, _) = reopen(open);
    let mut batch = Batch::new();
    put(&mut batch, 70_000, b"a");
    batch.put(EntryId(70_001), b"its group is not ended");
    commit(&mut journal, &batch);
    batch.drop_group();
    put(&mut batch, 70_002, b"c");
    commit(&mut journal, &batch);
    drop(journal);
    let (_journal, given) = reopen(open);
    let ids: Vec<_> = given.entries.keys().copied().collect();
    assert_eq!(
        ids,
        [70_000, 70_002],
        "a group that is not ended is not committed"
    );
}

fn tidying_changes_nothing<J: Journal>(open: &mut impl FnMut() -> J) {
    let (mut journal, _) = reopen(open);
    let mut batch = Batch::new();
    for id in 0..100 {
        put(&mut batch, 70_000 + id, &[id as u8; 50]);
    }
    commit(&mut journal, &batch);
    for round in 0..200u64 {
        batch.clear();
        put(&mut batch, 80_000 + round % 3, &[round as u8; 200]);
        batch.delete(EntryId(80_000 + (round + 1) % 3));
        batch.end_group();
        commit(&mut journal, &batch);
        if round % 50 == 0 {
            tidy(&mut journal);
        }
    }
    drop(journal);
    let (mut journal, given) = reopen(open);
    assert_eq!(given.entries.len(), 102);
    tidy(&mut journal);
    drop(journal);
    let (_journal, again) = reopen(open);
    assert!(given.entries == again.entries, "tidying changes no entry");
}

fn random_changes_are_kept<J: Journal>(open: &mut impl FnMut() -> J) {
    let mut model = BTreeMap::<u64, Vec<u8>>::new();
    let mut state = 7u64;
    let mut random = move |below: u64| {
        // xorshift64 (Marsaglia): the same in each run.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for _ in 0..10 {
        let (mut journal, given) = reopen(open);
        assert!(
            given.entries == model,
            "what is given is what was committed"
        );
        let mut batch = Batch::new();
        for _ in 0..random(20) {
            batch.clear();
            for _ in 0..random(10) {
                for _ in 0..random(4) {
                    let id = [0, 70_000][random(2) as usize] + random(40);
                    if random(3) == 0 {
                        batch.delete(EntryId(id));
                        model.remove(&id);
                    } else {
                        let bytes = vec![random(256) as u8; random(120) as usize];
                        batch.put(EntryId(id), &bytes);
                        model.insert(id, bytes);
                    }
                }
                batch.end_group();
            }
            commit(&mut journal, &batch);
            if random(3) == 0 {
                let _ = journal.tidy();
            }
        }
    }
}
