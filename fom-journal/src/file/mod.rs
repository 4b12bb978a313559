//! A journal in files.
//!
//! A log in *segments*, files of one size that have their place on the disk before they are written to. A batch is one
//! write and one sync. The memory holds only the place of each entry. See `format` for the bytes and `manifest` for the
//! required segments. `scan` tells a torn end from damage, `append` writes, and `compact` makes room.

mod ahead;
mod append;
mod compact;
mod directory;
mod format;
mod index;
mod inspect;
mod manifest;
mod recovery;
mod scan;
mod window;

use std::{
    collections::BTreeSet,
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    path::{self, Path, PathBuf},
    process,
    sync::Arc,
    thread,
};

use parking_lot::Mutex;

pub use inspect::Inspection;
#[doc(hidden)]
pub use inspect::read_hostile_segment;

use self::{
    ahead::Ahead,
    append::{Active, check},
    compact::{Cursor, Moves},
    directory::Directory,
    index::Index,
    manifest::Manifest,
};
use crate::{
    Batch, Journal, JournalError, JournalStats, Recover, Recovery,
    disk::{Disk, LockGuard, RealDisk},
};

/// A journal in the files of one directory.
///
/// What was committed is there after a crash, as far as `fdatasync` keeps its promise. The directory grows to about twice what is
/// live, or to four segments, whichever is more: at most `max(4 segments, 2 * live + 3 segments)`, where an entry counts with
/// its bytes and 44 more. One process at a time has it open.
///
/// ```
/// use fom_journal::{Batch, EntryId, FileJournal, Journal};
/// # struct Nobody;
/// # impl fom_journal::Recover for Nobody {
/// #     fn entry(&mut self, _: EntryId, _: &[u8]) {}
/// #     fn damaged(&mut self, _: EntryId, _: fom_journal::Damage) {}
/// # }
/// # let directory = std::env::temp_dir().join(format!("fom-journal-example-{}", std::process::id()));
///
/// let mut journal = FileJournal::open(&directory)?;
/// journal.recover(&mut Nobody)?;
/// let mut batch = Batch::new();
/// batch.put(EntryId(70_000), b"ringing");
/// batch.end_group();
/// journal.commit(&batch)?;
/// assert_eq!(journal.stats().entries, 1);
/// # drop(journal);
/// # std::fs::remove_dir_all(&directory).unwrap();
/// # Ok::<(), fom_journal::JournalError>(())
/// ```
pub struct FileJournal {
    directory: Directory,
    /// Shared with the thread that makes segments ahead.
    manifest: Arc<Mutex<Manifest>>,
    segment_bytes: u64,
    salvage: bool,
    background: bool,
    /// Whether what is there was read.
    recovered: bool,
    index: Index,
    journal: u64,
    next: u64,
    floor: u64,
    highest: u64,
    active: Option<Active>,
    ahead: Ahead,
    /// Segments with a failed first write, and their sizes. The manifest names such a segment until it names the next
    /// one.
    failed: Vec<(u64, u64)>,
    /// Files to be used again.
    spares: Vec<u64>,
    /// Segments to be kept when they are not needed any more, since they are damaged.
    aside: BTreeSet<u64>,
    moves: Moves,
    cursor: Option<Cursor>,
    /// Bytes that are to be moved for what was written.
    owed: u64,
    buffer: Vec<u8>,
    /// Nothing was written since the last tidy.
    rests: bool,
    stats: JournalStats,
    /// The process that opened it. A fork of it has the lock, too, and must not write.
    process: u32,
    // Last, so that it is given back when nobody writes any more.
    _lock: LockGuard,
}

/// How a [`FileJournal`] is opened.
#[derive(Clone)]
pub struct FileJournalOptions {
    segment_bytes: u64,
    salvage: bool,
    background: bool,
    disk: Arc<dyn Disk>,
}

impl FileJournalOptions {
    /// How large a segment is, between 1 KiB and 1 GiB; 16 MiB unless it is said. More makes fewer and longer pauses of the
    /// disk, and a larger least size of the journal. Segments that are there keep their size.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes.clamp(1 << 10, 1 << 30);
        self
    }

    /// Goes on where it is not known which entries are lost: what can be read is given, the rest is in [`Recovery::gaps`], and the
    /// damaged files stay beside the journal under another name. What was deleted may come back, and what was changed may be
    /// as it was before.
    #[must_use]
    pub fn salvage(mut self, salvage: bool) -> Self {
        self.salvage = salvage;
        self
    }

    /// Whether a thread makes the next segment while the last one fills, which is so unless it is said. Otherwise
    /// [`tidy`](Journal::tidy) makes it, and every operation of the disk comes from the thread that uses the journal.
    #[must_use]
    pub fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// The disk; that of the system unless it is said.
    #[must_use]
    pub fn disk(mut self, disk: impl Disk) -> Self {
        self.disk = Arc::new(disk);
        self
    }

    /// Opens the journal in a directory, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// [`JournalError::Locked`] when somebody has it open, [`JournalError::NotAJournal`] when there is something else in that place,
    /// and what the system says.
    pub fn open(self, path: impl AsRef<Path>) -> Result<FileJournal, JournalError> {
        let path = path.as_ref();
        // The process may go to another directory, and files are made as long as it runs.
        let absolute = path::absolute(path);
        let directory = Directory {
            disk: self.disk,
            path: absolute.map_err(|error| JournalError::io("find", path, error))?,
        };
        let lock = directory.lock()?;
        Ok(FileJournal {
            manifest: Arc::new(Mutex::new(Manifest::new(directory.clone()))),
            directory,
            segment_bytes: self.segment_bytes,
            salvage: self.salvage,
            background: self.background,
            recovered: false,
            index: Index::default(),
            journal: 0,
            next: 1,
            floor: 1,
            highest: 0,
            active: None,
            ahead: Ahead::None,
            failed: Vec::new(),
            spares: Vec::new(),
            aside: BTreeSet::new(),
            moves: Moves::default(),
            cursor: None,
            owed: 0,
            buffer: Vec::new(),
            rests: false,
            stats: JournalStats::default(),
            process: process::id(),
            _lock: lock,
        })
    }
}

impl FileJournal {
    /// Opens the journal in a directory, which is made if it is not there, for the process's user alone; the files in it have the
    /// rights that the process gives to new ones. What is in it is read by [`recover`](Journal::recover).
    ///
    /// # Errors
    ///
    /// As [`FileJournalOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, JournalError> {
        Self::options().open(path)
    }

    /// How it is to be opened.
    pub fn options() -> FileJournalOptions {
        FileJournalOptions {
            segment_bytes: 16 << 20,
            salvage: false,
            background: true,
            disk: Arc::new(RealDisk),
        }
    }

    /// The directory.
    pub fn path(&self) -> &PathBuf {
        &self.directory.path
    }

    fn is_ours(&self) -> bool {
        self.process == process::id()
    }

    fn check_ours(&self) -> Result<(), JournalError> {
        match self.is_ours() {
            true => Ok(()),
            false => Err(JournalError::Locked(self.directory.path.clone())),
        }
    }
}

impl Drop for FileJournal {
    fn drop(&mut self) {
        // The lock must not be given back while a thread still makes a file.
        drop(self.ahead.take());
        if !thread::panicking() && self.is_ours() {
            self.write_end();
        }
    }
}

impl Journal for FileJournal {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.check_ours()?;
        self.recover_from_files(to)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let length = check(batch)?;
        self.check_ours()?;
        if !self.recovered {
            self.recover_from_files(&mut Nobody)?;
        }
        if batch.is_empty() {
            return Ok(());
        }
        if self.moves.is_empty() && (self.owed > 0 || self.is_oldest_dead()) {
            // Who never tidies must not fill the disk. What cannot be moved is told by `tidy`.
            let _ = self.stage(false);
        }
        self.append(batch, length)
    }

    fn tidy(&mut self) -> Result<bool, JournalError> {
        self.check_ours()?;
        if !self.recovered {
            self.recover_from_files(&mut Nobody)?;
        }
        self.tidy_slice()
    }

    fn longest(&self) -> usize {
        format::LONGEST
    }

    fn stats(&self) -> JournalStats {
        JournalStats {
            entries: self.index.entries(),
            live_bytes: self.index.bytes(),
            size_bytes: self.size(),
            ..self.stats
        }
    }
}

/// Takes nothing in.
struct Nobody;

impl Recover for Nobody {
    fn entry(&mut self, _: crate::EntryId, _: &[u8]) {}
    fn damaged(&mut self, _: crate::EntryId, _: crate::Damage) {}
}

/// A number that nobody guesses and that hardly ever comes twice. The standard library's maps get theirs from the system.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn salt() -> u32 {
    random() as u32
}

impl fmt::Debug for FileJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileJournal")
            .field("path", &self.directory.path)
            .field("segments", &self.index.segments.len())
            .field("entries", &self.index.entries())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for FileJournalOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileJournalOptions")
            .field("segment_bytes", &self.segment_bytes)
            .field("salvage", &self.salvage)
            .field("background", &self.background)
            .finish_non_exhaustive()
    }
}
