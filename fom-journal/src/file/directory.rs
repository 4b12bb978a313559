//! The directory of a journal: its names, its lock and its files.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    format::{FIRST, FORMAT, Header, LINK, Link, Unreadable},
    window::Window,
};
use crate::{
    JournalError,
    disk::{Disk, DiskFile, LockGuard, read_full},
};

const MANIFEST: &str = "MANIFEST";
const SEGMENT: &str = ".log";
const UNFINISHED: &str = ".new";
/// A bound that no number ever reaches.
const HIGHEST: u64 = 1 << 62;
/// Offsets in a segment have 32 bits.
const MAX_OFFSET: u64 = u32::MAX as u64;
/// The first bytes of a file that is made ahead: its header and then zeros, whatever the file had before.
pub(super) const CLEARED: usize = 4096;

/// A directory on a disk.
#[derive(Clone)]
pub(super) struct Directory {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) path: PathBuf,
}

/// The content of the beginning of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// A segment. Without a link it has no acknowledged entry.
    Segment(Header, Option<Link>),
    Broken(&'static str),
}

/// The file of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentFile {
    pub(super) size: u64,
    pub(super) start: Start,
}

impl Directory {
    pub(super) fn segment(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:016x}{SEGMENT}"))
    }

    pub(super) fn manifest(&self) -> PathBuf {
        self.path.join(MANIFEST)
    }

    /// Returns the name of a segment while it is made.
    pub(super) fn unfinished(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:016x}{UNFINISHED}"))
    }

    /// Removes files that a crash left half made. A file that cannot be removed only takes up room.
    pub(super) fn remove_unfinished(&self) {
        let names = self.names().unwrap_or_default();
        let unfinished = names.iter().filter_map(|name| number_of(name, UNFINISHED));
        for number in unfinished {
            let _ = self.disk.remove(&self.unfinished(number));
        }
    }

    /// Locks the directory. Makes the directory if there is none.
    pub(super) fn lock(&self) -> Result<LockGuard, JournalError> {
        let path = &self.path;
        let made = self.disk.create_dir(path);
        made.map_err(|error| self.error("make", path, error))?;
        // Checked before any write, because the files may belong to another program.
        self.names()?;
        let manifest = self.manifest();
        let locked = self.disk.lock(&manifest, true);
        match locked.map_err(|error| JournalError::io("lock", manifest, error))? {
            Some(guard) => Ok(guard),
            None => Err(JournalError::Locked(path.clone())),
        }
    }

    /// Takes a shared lock, which keeps writers out. Returns false if a writer has the lock.
    pub(super) fn lock_shared(&self) -> (Option<LockGuard>, bool) {
        // Without the file, or the right to read it, there is nothing to lock.
        let locked = self.disk.lock(&self.manifest(), false);
        let is_free = !matches!(locked, Ok(None));
        (locked.ok().flatten(), is_free)
    }

    /// Returns the names in the directory. Fails if the directory is neither a journal's nor empty.
    pub(super) fn names(&self) -> Result<Vec<String>, JournalError> {
        let names = self.disk.list(&self.path);
        let names = names.map_err(|error| self.error("list", &self.path, error))?;
        let ours = |name: &String| {
            let is_segment = number_of(name, SEGMENT).or_else(|| number_of(name, UNFINISHED));
            name == MANIFEST || is_segment.is_some()
        };
        match names.is_empty() || names.iter().any(ours) {
            true => Ok(names),
            false => Err(JournalError::NotAJournal(self.path.clone())),
        }
    }

    /// Returns the segments in the directory.
    pub(super) fn segments(&self) -> Result<BTreeMap<u64, SegmentFile>, JournalError> {
        let mut found = BTreeMap::new();
        let names = self.names()?;
        for number in names.iter().filter_map(|name| number_of(name, SEGMENT)) {
            found.insert(number, self.look(number)?);
        }
        Ok(found)
    }

    pub(super) fn open(&self, number: u64, write: bool) -> Result<Box<dyn DiskFile>, JournalError> {
        let path = self.segment(number);
        let file = self.disk.open(&path, write);
        file.map_err(|error| JournalError::io("open", path, error))
    }

    /// Opens a segment to read its first `end` bytes.
    pub(super) fn window(&self, number: u64, end: u64) -> Result<Window<'static>, JournalError> {
        let file = self.open(number, false)?;
        Window::new(file, self.segment(number), end.min(MAX_OFFSET))
    }

    pub(super) fn remove(&self, number: u64) -> Result<(), JournalError> {
        let path = self.segment(number);
        let removed = self.disk.remove(&path);
        removed.map_err(|error| JournalError::io("remove", path, error))
    }

    pub(super) fn sync(&self) -> Result<(), JournalError> {
        let synced = self.disk.sync_dir(&self.path);
        synced.map_err(|error| JournalError::io("sync", self.path.clone(), error))
    }

    fn error(&self, doing: &'static str, path: &Path, error: io::Error) -> JournalError {
        match error.kind() {
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                JournalError::NotAJournal(path.into())
            }
            _ => JournalError::io(doing, path, error),
        }
    }

    fn look(&self, number: u64) -> Result<SegmentFile, JournalError> {
        let path = self.segment(number);
        let mut bytes = [0; FIRST];
        let read = self.disk.open(&path, false).and_then(|file| {
            let size = file.length()?;
            Ok((size, read_full(&*file, &mut bytes, 0)?))
        });
        let (size, read) = read.map_err(|error| JournalError::io("read", &path, error))?;
        let (header, link) = bytes[..read].split_at(read.min(LINK));
        let start = match Header::decode(header) {
            Ok(header) if header.number == number => {
                Start::Segment(header, Link::decode(link, &header))
            }
            Ok(_) => Start::Broken("the file belongs to another segment"),
            Err(Unreadable::Newer(found)) => {
                return Err(JournalError::NewerFormat {
                    path,
                    found,
                    known: FORMAT,
                });
            }
            Err(Unreadable::Blank) => Start::Broken("the header is missing"),
            Err(Unreadable::Broken) if read < LINK => {
                Start::Broken("the file is too short to be a segment")
            }
            Err(Unreadable::Broken) => Start::Broken("the header's checksum does not match"),
        };
        Ok(SegmentFile { size, start })
    }
}

/// Returns the number of the segment with this name.
fn number_of(name: &str, ending: &str) -> Option<u64> {
    let digits = name.strip_suffix(ending)?;
    let lower = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    let number = digits.len() == 16 && digits.bytes().all(lower);
    let number = number.then(|| u64::from_str_radix(digits, 16).ok())?;
    number.filter(|number| (1..HIGHEST).contains(number))
}
