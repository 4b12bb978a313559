//! Checks the promises of [`Journal`], for any implementation.

mod missing;

use std::{collections::BTreeMap, sync::mpsc};

pub use missing::check_missing;

use crate::{Batch, Change, Damage, EntryId, Group, Journal, JournalError, Recover, Recovery};

/// The bytes of each entry by its number.
type Entries = BTreeMap<u64, Vec<u8>>;

/// Checks that a journal keeps the promises of the trait, as far as a check without a crash can. [`check_killed`],
/// [`check_failing`] and [`check_missing`] check the rest.
///
/// `fresh` makes an empty place for a journal, and returns a closure. Each call of the closure opens the journal again,
/// after the previous one was dropped. Called from a test:
///
/// ```
/// use fom_journal::{conformance, MemoryJournal};
///
/// conformance::check(|| {
///     let kept = MemoryJournal::new();
///     move || kept.clone()
/// });
/// ```
///
/// # Panics
///
/// If the journal breaks a promise. The message names the promise.
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

/// Checks that acknowledged entries survive even if the journal was not closed, as after a kill.
///
/// `fresh` is as for [`check`], with one difference. The closure is called while the previous journal is still open. It
/// opens a copy of what that journal has on its disk at that moment. For a journal in one directory:
///
/// ```
/// use fom_journal::{conformance, MemoryJournal};
///
/// conformance::check_killed(|| {
///     let mut kept = MemoryJournal::new();
///     move || {
///         // In files: copy the directory that was opened last to a new one, and open that.
///         kept = kept.fork();
///         kept.clone()
///     }
/// });
/// ```
///
/// # Panics
///
/// If the journal breaks a promise. The message names the promise.
pub fn check_killed<J, O>(mut fresh: impl FnMut() -> O)
where
    J: Journal,
    O: FnMut() -> J,
{
    let mut open = fresh();
    let mut random = Random(11);
    let mut model = BTreeMap::new();
    let (mut journal, _) = reopen(&mut open);
    for _ in 0..40 {
        random.commit(&mut journal, &mut model);
        let (next, given) = reopen(&mut open);
        assert!(
            given.entries == model,
            "after a kill, the journal has the acknowledged entries and no others"
        );
        journal = next;
    }
}

/// Checks what a journal keeps of failed commits.
///
/// `fresh` makes an empty place and returns two closures. The first opens the journal, as for [`check`]. The second
/// makes the disk fail: after `true` all writes fail, after `false` they succeed again.
///
/// ```
/// use std::io::ErrorKind;
/// use fom_journal::{conformance, disk::{Fault, FaultyDisk, Operation, RealDisk}, FileJournal};
/// # let above = std::env::temp_dir().join(format!("fom-conformance-{}", std::process::id()));
/// # let mut number = 0;
///
/// conformance::check_failing(|| {
///     let disk = FaultyDisk::new(RealDisk);
///     let options = FileJournal::options().background(false).disk(disk.clone());
/// #   number += 1;
/// #   let directory = above.join(number.to_string());
///     let open = move || options.clone().open(&directory).unwrap();
///     let fail = move |fails| match fails {
///         true => disk.inject_from(Operation::Write, 1, Fault::Fail(ErrorKind::StorageFull)),
///         false => disk.heal(),
///     };
///     (open, fail)
/// });
/// # std::fs::remove_dir_all(&above).unwrap();
/// ```
///
/// # Panics
///
/// If the journal breaks a promise. The message names the promise.
pub fn check_failing<J, O, F>(mut fresh: impl FnMut() -> (O, F))
where
    J: Journal,
    O: FnMut() -> J,
    F: FnMut(bool),
{
    for closes in [false, true] {
        let (mut open, mut fail) = fresh();
        let mut random = Random(13);
        let mut model = BTreeMap::new();
        let (mut journal, _) = reopen(&mut open);
        for _ in 0..12 {
            let batch = random.batch(&mut model);
            commit(&mut journal, &batch);
            fail(true);
            let possible = fail_commits(&mut journal, &mut random, &model);
            if closes {
                drop(journal);
                fail(false);
                let (next, given, _) = recover(&mut open);
                let known = possible.contains(&given.entries);
                assert!(
                    known,
                    "a failed batch leaves its first groups, without a gap"
                );
                model = given.entries;
                journal = next;
            } else {
                fail(false);
            }
        }
        // The journal works again, and settles the failed commits.
        let batch = random.batch(&mut model);
        commit(&mut journal, &batch);
        let mut batch = Batch::new();
        put(&mut batch, 70_000, b"last");
        commit(&mut journal, &batch);
        model.insert(70_000, b"last".to_vec());
        drop(journal);
        let (_journal, given) = reopen(&mut open);
        assert!(
            given.entries == model,
            "a commit that succeeds discards the failed commits before it"
        );
    }
}

/// Does commits that fail. Returns the contents that they may leave: some first groups of one of them.
fn fail_commits(journal: &mut impl Journal, random: &mut Random, model: &Entries) -> Vec<Entries> {
    let entries = journal.stats().entries;
    let mut possible = vec![model.clone()];
    for _ in 0..1 + random.below(3) {
        let batch = random.batch(&mut model.clone());
        if batch.is_empty() {
            continue;
        }
        assert!(
            journal.commit(&batch).is_err(),
            "a commit that cannot be written fails"
        );
        possible.extend(prefixes(model, &batch));
        let _ = journal.tidy();
    }
    assert_eq!(
        journal.stats().entries,
        entries,
        "entries of failed commits are not counted"
    );
    possible
}

/// Returns the entries after each group.
fn prefixes(model: &Entries, batch: &Batch) -> Vec<Entries> {
    let mut entries = model.clone();
    let after = |group: Group<'_>| {
        for change in group.changes() {
            match change {
                Change::Put { id, bytes } => entries.insert(id.0, bytes.to_vec()),
                Change::Delete { id } => entries.remove(&id.0),
            };
        }
        entries.clone()
    };
    batch.groups().map(after).collect()
}

/// A random generator with the same numbers in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        // xorshift64 (Marsaglia).
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    /// Commits some groups, and tidies at times.
    fn commit(&mut self, journal: &mut impl Journal, model: &mut Entries) {
        let batch = self.batch(model);
        commit(journal, &batch);
        if self.below(3) == 0 {
            let _ = journal.tidy();
        }
    }

    /// Returns some groups, and applies them to the model.
    fn batch(&mut self, model: &mut Entries) -> Batch {
        let mut batch = Batch::new();
        for _ in 0..self.below(10) {
            for _ in 0..self.below(4) {
                let id = [0, 70_000][self.below(2) as usize] + self.below(40);
                if self.below(3) == 0 {
                    batch.delete(EntryId(id));
                    model.remove(&id);
                } else {
                    let bytes = vec![self.below(256) as u8; self.below(120) as usize];
                    batch.put(EntryId(id), &bytes);
                    model.insert(id, bytes);
                }
            }
            batch.end_group();
        }
        batch
    }
}

/// The entries that a journal passes to a recovery.
#[derive(Default)]
struct Given {
    entries: Entries,
    order: Vec<EntryId>,
    expected: Option<u64>,
    damaged: Vec<(EntryId, Damage)>,
}

impl Recover for Given {
    fn expect(&mut self, entries: u64) {
        assert!(self.order.is_empty(), "`expect` comes before the entries");
        self.expected = Some(entries);
    }

    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        self.order.push(id);
        let before = self.entries.insert(id.0, bytes.to_vec());
        assert_eq!(before, None, "entry {id} was passed twice");
    }

    fn damaged(&mut self, id: EntryId, damage: Damage) {
        self.damaged.push((id, damage));
    }
}

fn reopen<J: Journal>(open: &mut impl FnMut() -> J) -> (J, Given) {
    let (journal, given, recovery) = recover(open);
    assert_eq!(
        recovery.torn, None,
        "a journal that was closed has no torn end"
    );
    (journal, given)
}

fn recover<J: Journal>(open: &mut impl FnMut() -> J) -> (J, Given, Recovery) {
    let mut journal = open();
    let mut given = Given::default();
    let recovery = match journal.recover(&mut given) {
        Ok(recovery) => recovery,
        Err(error) => panic!("the journal could not be opened again: {error}"),
    };
    let count = given.order.len() as u64;
    assert_eq!(
        recovery.entries, count,
        "`Recovery::entries` is the number of entries that were passed"
    );
    assert!(
        given.expected.is_none_or(|expected| expected == count),
        "`expect` gets the number of entries that follow"
    );
    assert_eq!(recovery.gaps, [], "no gap is reported in a whole journal");
    assert_eq!(
        given.damaged,
        [],
        "no damage is reported in a whole journal"
    );
    let stats = journal.stats();
    assert_eq!(
        stats.entries, count,
        "`JournalStats::entries` is the number of entries"
    );
    let bytes = given
        .entries
        .values()
        .map(|bytes| bytes.len() as u64)
        .sum::<u64>();
    assert_eq!(
        stats.live_bytes, bytes,
        "`JournalStats::live_bytes` is the total length of the entries"
    );
    (journal, given, recovery)
}

/// Commits in both ways, if the journal has both.
fn commit(journal: &mut impl Journal, batch: &Batch) {
    let later = journal.commits_later() && batch.bytes().is_multiple_of(2);
    let begun = later.then(|| commit_later(journal, batch)).flatten();
    if let Err(error) = begun.unwrap_or_else(|| journal.commit(batch)) {
        panic!("a commit failed without a fault: {error}");
    }
}

/// Returns how a commit ended that another thread ends. Returns `None` if it has not begun.
fn commit_later(journal: &mut impl Journal, batch: &Batch) -> Option<Result<(), JournalError>> {
    let (tell, told) = mpsc::channel();
    let done = Box::new(move |result| {
        // The receiver is there, unless a promise is broken.
        let _ = tell.send(result);
    });
    if journal.commit_later(batch, done).is_some() {
        return None;
    }
    let Ok(result) = told.recv() else {
        panic!("`commit_later` dropped `done`, and did not call it");
    };
    journal.settle(result.is_ok());
    Some(result)
}

fn tidy(journal: &mut impl Journal) {
    // Tidying must end, however small its slices are.
    for _ in 0..100_000 {
        match journal.tidy() {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => panic!("tidying failed: {error}"),
        }
    }
    panic!("`tidy` returned true 100,000 times without a commit in between");
}

fn put(batch: &mut Batch, id: u64, bytes: &[u8]) {
    batch.put(EntryId(id), bytes);
    batch.end_group();
}

fn empty_is_empty<J: Journal>(open: &mut impl FnMut() -> J) {
    let (mut journal, given) = reopen(open);
    assert!(given.order.is_empty(), "a new journal has no entries");
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
        "a deleted entry can be put again"
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
    let mut model = BTreeMap::new();
    let mut random = Random(7);
    for _ in 0..10 {
        let (mut journal, given) = reopen(open);
        assert!(
            given.entries == model,
            "recovery passes the committed entries"
        );
        for _ in 0..random.below(20) {
            random.commit(&mut journal, &mut model);
        }
    }
}
