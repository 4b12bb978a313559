//! Code that the tests of journals share.
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod forgetful;

use std::{
    collections::BTreeMap,
    env, fmt, fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use fom_journal::{
    Batch, Damage, EntryId, FileJournal, FileJournalOptions, Journal, JournalError, Recover,
    Recovery,
};

/// A directory that is removed on drop.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        // In memory if possible: these tests sync thousands of times.
        let shared = Path::new("/dev/shm");
        let above = match shared.is_dir() {
            true => shared.into(),
            false => env::temp_dir(),
        };
        let path = above.join(format!("fom-journal-{}-{next}", process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the segments, oldest first.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        self.files(".log")
    }

    /// Returns the files with `part` in their names.
    pub(crate) fn files(&self, part: &str) -> Vec<PathBuf> {
        let mut paths: Vec<_> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_str().unwrap().contains(part))
            .collect();
        paths.sort();
        paths
    }

    /// Returns the file that names the segments.
    pub(crate) fn manifest(&self) -> PathBuf {
        self.0.join("MANIFEST")
    }

    /// Returns all its files with their contents.
    pub(crate) fn content(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let files = self.files("").into_iter();
        files
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect()
    }

    /// Replaces all its files by these.
    pub(crate) fn restore(&self, content: &[(PathBuf, Vec<u8>)]) {
        for file in self.files("") {
            fs::remove_file(file).unwrap();
        }
        for (path, bytes) in content {
            fs::write(self.0.join(path.file_name().unwrap()), bytes).unwrap();
        }
    }

    /// Returns a copy, as a crash at this moment would leave it.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        fs::create_dir(copy.path()).unwrap();
        for entry in fs::read_dir(&self.0).unwrap() {
            let from = entry.unwrap().path();
            fs::copy(&from, copy.0.join(from.file_name().unwrap())).unwrap();
        }
        copy
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The results of a recovery.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) entries: BTreeMap<u64, Vec<u8>>,
    pub(crate) damaged: BTreeMap<u64, Damage>,
    pub(crate) order: Vec<u64>,
    pub(crate) expected: Option<u64>,
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths = self.entries.iter().map(|(id, bytes)| (id, bytes.len()));
        f.debug_map().entries(lengths).finish()?;
        f.debug_map().entries(&self.damaged).finish()
    }
}

impl Recover for Given {
    fn expect(&mut self, entries: u64) {
        self.expected = Some(entries);
    }

    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        self.order.push(id.0);
        let before = self.entries.insert(id.0, bytes.to_vec());
        assert_eq!(before, None, "{id} was given twice");
    }

    fn damaged(&mut self, id: EntryId, damage: Damage) {
        self.order.push(id.0);
        let before = self.damaged.insert(id.0, damage);
        assert_eq!(before, None, "{id} was told twice");
    }
}

/// The offset of the first frame of a segment, and of its link before that.
pub(crate) const FIRST: usize = 96;
pub(crate) const LINK: usize = 48;

/// Returns whether a segment has data.
pub(crate) fn is_used(path: &Path) -> bool {
    fs::read(path).unwrap()[LINK..FIRST]
        .iter()
        .any(|byte| *byte != 0)
}

/// Returns options with small segments and no thread.
pub(crate) fn small() -> FileJournalOptions {
    FileJournal::options().segment_bytes(1024).background(false)
}

/// Opens and recovers.
pub(crate) fn open(
    options: FileJournalOptions,
    path: &Path,
) -> Result<(FileJournal, Given, Recovery), JournalError> {
    let mut journal = options.open(path)?;
    let mut given = Given::default();
    let recovery = journal.recover(&mut given)?;
    Ok((journal, given, recovery))
}

/// Commits one group of puts and deletes.
pub(crate) fn put(
    journal: &mut impl Journal,
    changes: &[(u64, &[u8])],
) -> Result<(), JournalError> {
    let mut batch = Batch::new();
    for (id, bytes) in changes {
        batch.put(EntryId(*id), bytes);
    }
    batch.end_group();
    journal.commit(&batch)
}

/// Deletes an entry.
pub(crate) fn delete(journal: &mut impl Journal, id: u64) -> Result<(), JournalError> {
    let mut batch = Batch::new();
    batch.delete(EntryId(id));
    batch.end_group();
    journal.commit(&batch)
}
