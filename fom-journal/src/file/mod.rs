//! A journal in files.
//!
//! The journal is a log of *segments*: files of one size that get their space on the disk before use. A batch is one
//! write and one sync. The memory holds only the place of each entry.
//!
//! The modules, from the bottom. The last four add methods to [`FileJournal`].
//!
//! | module | contents |
//! | --- | --- |
//! | `format` | the bytes of a segment and of the manifest |
//! | `window` | reads a file piece by piece |
//! | `directory` | the names, the lock and the files |
//! | `index` | the place of each entry |
//! | `scan` | the frames of a segment; tells a torn end from damage |
//! | `manifest` | names the required segments |
//! | `preallocate` | makes the next segment |
//! | `log` | the segments with entries, and the place of the next frame |
//! | `space` | the bound of the size, and the files without entries |
//! | `contents` | reads what a directory holds |
//! | `damage` | keeps damaged bytes |
//! | `append` | writes batches |
//! | `compact` | frees space |
//! | `recover` | takes over the content, and settles what a crash left |
//! | `inspect` | reads a journal without a change |

mod append;
mod compact;
mod contents;
mod damage;
mod directory;
mod format;
mod index;
mod inspect;
mod log;
mod manifest;
mod pass;
mod preallocate;
mod recover;
mod scan;
mod space;
mod window;

use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    path::{self, Path, PathBuf},
    process,
    sync::Arc,
    thread,
};

pub use inspect::Inspection;
#[doc(hidden)]
pub use inspect::read_hostile_segment;

use self::{append::check, compact::Compaction, directory::Directory, log::Log, space::Space};
use crate::{
    Batch, Journal, JournalError, JournalStats, Recover, Recovery,
    disk::{Disk, LockGuard, RealDisk},
};

/// A journal in the files of one directory.
///
/// Committed entries survive a crash, as far as `fdatasync` keeps its promise. Only one process at a time has the journal
/// open.
///
/// The directory takes at most four segments, or `live + dead + 3 segments` if that is more. Each entry counts its bytes
/// and 44 more as `live`. `dead` is the larger of `live` and the smaller of `8 * live` and 16 segments.
///
/// ```
/// use fom_journal::{Batch, EntryId, FileJournal, Journal};
/// # struct Discard;
/// # impl fom_journal::Recover for Discard {
/// #     fn entry(&mut self, _: EntryId, _: &[u8]) {}
/// #     fn damaged(&mut self, _: EntryId, _: fom_journal::Damage) {}
/// # }
/// # let directory = std::env::temp_dir().join(format!("fom-journal-example-{}", std::process::id()));
///
/// let mut journal = FileJournal::open(&directory)?;
/// journal.recover(&mut Discard)?;
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
    salvage: bool,
    /// Whether the files were read.
    recovered: bool,
    log: Log,
    space: Space,
    compaction: Compaction,
    buffer: Vec<u8>,
    /// Whether nothing was written since the last tidy.
    is_idle: bool,
    stats: JournalStats,
    // The last field, so that the lock is released after all writes.
    owner: Owner,
}

/// The process that opened the journal. A fork of that process shares the lock, and must not write.
struct Owner {
    process: u32,
    _lock: LockGuard,
}

impl Owner {
    fn is_this_process(&self) -> bool {
        self.process == process::id()
    }
}

/// Options to open a [`FileJournal`].
#[derive(Clone)]
pub struct FileJournalOptions {
    segment_bytes: u64,
    salvage: bool,
    background: bool,
    disk: Arc<dyn Disk>,
}

impl FileJournalOptions {
    /// Sets the size of a segment in bytes, from 1 KiB to 1 GiB; values outside are clamped. Default: 16 MiB.
    ///
    /// Larger segments cause fewer but longer disk stalls, and raise the journal's minimum size. Existing segments keep
    /// their size.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes.clamp(1 << 10, 1 << 30);
        self
    }

    /// Sets whether recovery continues when it is not known which entries are lost. Default: `false`.
    ///
    /// With `true`, recovery passes on all readable entries and lists the damage in [`Recovery::gaps`]. The damaged
    /// files stay beside the journal under other names. Deleted entries may come back, and changed entries may have
    /// older bytes.
    #[must_use]
    pub fn salvage(mut self, salvage: bool) -> Self {
        self.salvage = salvage;
        self
    }

    /// Sets whether a thread makes the next segment while the current one fills, and whether a thread reads ahead during
    /// a recovery. Default: `true`.
    ///
    /// With `false`, [`tidy`](Journal::tidy) makes the segment, and the thread that uses the journal does every
    /// operation of the disk.
    #[must_use]
    pub fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// Sets the disk. Default: [`RealDisk`].
    #[must_use]
    pub fn disk(mut self, disk: impl Disk) -> Self {
        self.disk = Arc::new(disk);
        self
    }

    /// Opens the journal in a directory, and locks it. A missing directory is made for the process's user alone. New
    /// files get the default permissions of the process. [`recover`](Journal::recover) reads the entries.
    ///
    /// # Errors
    ///
    /// Fails with [`JournalError::Locked`] if another process or runtime has the journal open. Fails with
    /// [`JournalError::NotAJournal`] if the path holds something else. Also fails with errors of the system.
    pub fn open(self, path: impl AsRef<Path>) -> Result<FileJournal, JournalError> {
        let path = path.as_ref();
        // The process may change its current directory later, and the journal makes files as long as it is open.
        let absolute = path::absolute(path);
        let directory = Directory {
            disk: self.disk,
            path: absolute.map_err(|error| JournalError::io("find", path, error))?,
        };
        let lock = directory.lock()?;
        Ok(FileJournal {
            salvage: self.salvage,
            recovered: false,
            log: Log {
                next: 1,
                floor: 1,
                ..Log::default()
            },
            space: Space::new(directory.clone(), self.segment_bytes, self.background),
            compaction: Compaction::new(directory.clone()),
            directory,
            buffer: Vec::new(),
            is_idle: false,
            stats: JournalStats::default(),
            owner: Owner {
                process: process::id(),
                _lock: lock,
            },
        })
    }
}

impl FileJournal {
    /// Opens the journal in a directory, with the default options.
    ///
    /// # Errors
    ///
    /// As [`FileJournalOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, JournalError> {
        Self::options().open(path)
    }

    /// Returns the default options.
    pub fn options() -> FileJournalOptions {
        FileJournalOptions {
            segment_bytes: 16 << 20,
            salvage: false,
            background: true,
            disk: Arc::new(RealDisk),
        }
    }

    /// Returns the directory of the journal, as an absolute path.
    pub fn path(&self) -> &PathBuf {
        &self.directory.path
    }

    fn check_owner(&self) -> Result<(), JournalError> {
        match self.owner.is_this_process() {
            true => Ok(()),
            false => Err(JournalError::Locked(self.directory.path.clone())),
        }
    }
}

impl Drop for FileJournal {
    fn drop(&mut self) {
        // The lock must not be released while the thread still makes a file.
        self.space.close();
        if !thread::panicking() && self.owner.is_this_process() {
            self.write_end();
        }
    }
}

impl Journal for FileJournal {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.check_owner()?;
        self.recover_from_files(to)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let length = check(batch)?;
        self.check_owner()?;
        if !self.recovered {
            self.recover_from_files(&mut Discard)?;
        }
        if batch.is_empty() {
            return Ok(());
        }
        if !self.compaction.is_staged() && self.compaction.is_due(&self.log) {
            // A caller that never calls `tidy` must not fill the disk. `tidy` reports the errors.
            let _ = self.stage(false);
        }
        self.append(batch, length)
    }

    fn tidy(&mut self) -> Result<bool, JournalError> {
        self.check_owner()?;
        if !self.recovered {
            self.recover_from_files(&mut Discard)?;
        }
        self.tidy_slice()
    }

    fn longest(&self) -> usize {
        format::LONGEST
    }

    fn stats(&self) -> JournalStats {
        JournalStats {
            entries: self.log.index.entries(),
            live_bytes: self.log.index.bytes(),
            size_bytes: self.space.size(&self.log),
            ..self.stats
        }
    }
}

/// Discards all entries.
struct Discard;

impl Recover for Discard {
    fn entry(&mut self, _: crate::EntryId, _: &[u8]) {}
    fn damaged(&mut self, _: crate::EntryId, _: crate::Damage) {}
}

/// Returns a number that is hard to guess and almost unique. The system seeds the standard library's maps.
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
            .field("segments", &self.log.index.segments.len())
            .field("entries", &self.log.index.entries())
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
