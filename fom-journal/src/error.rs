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
    /// Describes a damaged place: the file, the offset and the length in bytes, and what is wrong.
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

/// The error of a journal's operation. Clones share the source.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another process, or another runtime of this process, has the journal open.
    #[error(
        "the journal {0} is in use by another process; stop that process, or use another directory"
    )]
    Locked(PathBuf),
    /// The disk is full. The journal works again once there is space.
    #[error(
        "no room for the journal in {path}: {source}; free some space, and the journal works again"
    )]
    Full {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// The process cannot write to the journal.
    #[error(
        "cannot write to the journal in {path}: {source}; give the process the permission to write there"
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
    /// [`salvage`](crate::FileJournalOptions::salvage) opens such a journal.
    #[error(
        "the journal is damaged: {0}; restore it from a copy, or open it with `salvage` to continue without the lost entries"
    )]
    Damaged(Damage),
    /// A required entry is missing, although the journal has other entries.
    #[error("entry {entry} of the journal is missing, {what}; restore the journal from a copy")]
    Missing {
        /// The missing entry.
        entry: EntryId,
        /// What the entry contains, for the message: a clause that begins with "which".
        what: &'static str,
    },
    /// The directory contains other files and no journal.
    #[error("{0} is not a journal of fom; give the journal an empty directory of its own")]
    NotAJournal(PathBuf),
    /// A later release wrote the journal.
    #[error(
        "the journal {path} has format {found}, but this release reads formats up to {known}; use the release that wrote it"
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
        "{length} bytes are too long for the journal, which takes at most {most}; keep large data elsewhere and save a reference"
    )]
    TooLong {
        /// The actual length, in bytes.
        length: usize,
        /// The greatest length that the journal takes, in bytes.
        most: usize,
    },
    /// The store has refused a [`Statement`](crate::Statement), and has committed nothing.
    #[error("a statement that is committed with the transition failed: {source}")]
    Statement {
        /// The number of the statement, in the order of the caller. The first has number 0.
        statement: usize,
        /// The error of the store.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// Another process has taken the journal over. No later commit of this process succeeds.
    #[error(
        "another process has taken the journal over, and its operations go on there; end this runtime"
    )]
    Fenced,
    /// The runtime has shut down, and its journal is closed.
    #[error("the journal is closed: the runtime has shut down")]
    Closed,
    /// Another store behind [`Journal`](crate::Journal) failed.
    #[error("the journal failed: {0}")]
    Other(Arc<dyn std::error::Error + Send + Sync>),
}

impl JournalError {
    /// Converts an error of the system to [`Full`](Self::Full), [`ReadOnly`](Self::ReadOnly) or [`Io`](Self::Io).
    /// `doing` names the action that failed, such as "sync", for the message of `Io`.
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
