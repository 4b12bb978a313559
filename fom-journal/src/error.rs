//! The errors of a journal.

use std::{fmt, io, path::PathBuf, sync::Arc};

use crate::EntryId;

/// A place in a file where the bytes are not those that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The offset of the place in the file, in bytes.
    pub offset: u64,
    /// The length of the place, in bytes.
    pub length: u64,
    /// What is wrong.
    pub what: &'static str,
}

impl Damage {
    /// A damaged place.
    pub fn new(file: impl Into<PathBuf>, offset: u64, length: u64, what: &'static str) -> Self {
        Self {
            file: file.into(),
            offset,
            length,
            what,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes at offset {} of {}: {}",
            self.length,
            self.offset,
            self.file.display(),
            self.what
        )
    }
}

/// A failed operation of a journal. Clones share the source.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another process, or another runtime of this process, has the journal open.
    #[error("the journal {0} is in use by another process; end that one, or use another directory")]
    Locked(PathBuf),
    /// The disk is full. The journal works again once there is room.
    #[error("no room for the journal in {path}: {source}; make room, and it goes on")]
    Full {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// The process cannot write to the journal.
    #[error(
        "the journal in {path} cannot be written to: {source}; give the process the right to write there"
    )]
    ReadOnly {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// Any other error of the system.
    #[error("the journal could not {doing} {path}: {source}")]
    Io {
        /// The action that failed, such as "sync".
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// A place is damaged, and it is not known which entries were there.
    #[error(
        "the journal is damaged: {0}; restore it from a copy, or open it with `salvage` to go on without what was there"
    )]
    Damaged(Damage),
    /// A required entry is missing, although the journal has other entries.
    #[error("the journal has entries, but not entry {entry}, {what}; restore it from a copy")]
    Missing {
        /// The missing entry.
        entry: EntryId,
        /// What the entry contains.
        what: &'static str,
    },
    /// The directory contains other files and no journal.
    #[error("{0} is no journal of fom; give the journal an empty directory of its own")]
    NotAJournal(PathBuf),
    /// A later release wrote the journal.
    #[error(
        "the journal {path} has format {found}, and this release reads up to {known}; use the release that wrote it"
    )]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
        /// The latest format that this release reads.
        known: u32,
    },
    /// An entry, a group or a batch is too long for the journal.
    #[error(
        "an entry of {length} bytes is too long for the journal, which takes {most}; keep large data elsewhere and save a reference"
    )]
    TooLong {
        /// The actual length, in bytes.
        length: usize,
        /// The greatest length that the journal takes, in bytes.
        most: usize,
    },
    /// The runtime has shut down, and its journal is closed.
    #[error("the journal is closed: the runtime has shut down")]
    Closed,
    /// Another store behind [`Journal`](crate::Journal) failed.
    #[error("the journal failed: {0}")]
    Other(Arc<dyn std::error::Error + Send + Sync>),
}

impl JournalError {
    /// Converts an error of the system to the variant that names the remedy in its message.
    pub fn io(doing: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        let (path, source) = (path.into(), Arc::new(source));
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Full { path, source }
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                Self::ReadOnly { path, source }
            }
            _ => Self::Io {
                doing,
                path,
                source,
            },
        }
    }
}
