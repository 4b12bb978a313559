//! A crash-safe store of entries by number: the journal of fom.
//!
//! A [`Journal`] keeps *entries*, bytes by number. A program changes it by *groups*: a crash leaves the whole group or nothing of
//! it. A *batch* takes many groups to the disk with one sync. The package knows nothing of foms, and serves other programs alone.
//!
//! [`FileJournal`] keeps the entries in files of one directory, [`MemoryJournal`] in memory, for tests. A program can implement
//! [`Journal`] for a store of its own.
//!
//! The feature `testing` adds `conformance`, a test suite for such stores, and `disk::FaultyDisk`, a disk that fails where a test
//! says.
//!
//! The modules, from the bottom; each imports only modules before it:
//!
//! | module | contents |
//! | --- | --- |
//! | `error` | errors, and places that are damaged |
//! | `batch` | groups of changes |
//! | the root | the trait, and what a recovery reports |
//! | [`disk`] | the operations of a disk |
//! | `memory`, `file` | the stores |
//! | `conformance` | what each store must do |

mod batch;
#[cfg(feature = "testing")]
pub mod conformance;
pub mod disk;
mod error;
mod file;
mod memory;

use std::fmt;

pub use batch::{Batch, Change, Changes, Group, Groups};
pub use error::{Damage, JournalError};
#[doc(hidden)]
pub use file::read_hostile_segment;
pub use file::{FileJournal, FileJournalOptions, Inspection};
pub use memory::MemoryJournal;

/// The number of an entry. Chosen by who puts it, and never used for something else afterwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u64);

impl EntryId {
    /// Entries below this one come first in [`Journal::recover`]: they say how others are to be read.
    pub const HEAD: Self = Self(1 << 16);
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntryId({})", self.0)
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Keeps entries, so that they are there after a crash.
///
/// One thread uses a journal at a time. Other stores can implement this trait: [`conformance::check`],
/// [`conformance::check_killed`], [`conformance::check_failing`] and [`conformance::check_missing`] check that a store
/// keeps these promises.
pub trait Journal: Send + 'static {
    /// Gives every entry that is kept, each once, those below [`EntryId::HEAD`] first. Called once, before anything else.
    ///
    /// # Errors
    ///
    /// When what is kept cannot be read, or when it is not known which entries are lost. What is lost of a known entry is
    /// told by [`Recover::damaged`] and is no error.
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError>;

    /// Makes the groups of the batch durable, in their order.
    ///
    /// # Errors
    ///
    /// Then none of them is kept, as soon as a later commit has worked; that works again when the cause is gone. If the process ends
    /// before that, it is not known which are kept, if any: those before the first one that is not.
    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError>;

    /// Does a bounded part (about a millisecond) of what makes room again. `true` when there is more to do. Called between
    /// two commits and while there is nothing to commit.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit); what was committed stays.
    fn tidy(&mut self) -> Result<bool, JournalError> {
        Ok(false)
    }

    /// How many bytes an entry may have that it takes. A fom whose record is longer fails by itself, and harms nobody whose step would
    /// be in the same batch.
    fn longest(&self) -> usize {
        usize::MAX
    }

    /// How much it keeps, and what that costs.
    fn stats(&self) -> JournalStats;
}

/// Who takes in what a journal keeps.
pub trait Recover {
    /// So many entries will come, if that is known.
    fn expect(&mut self, entries: u64) {
        let _ = entries;
    }

    /// An entry.
    fn entry(&mut self, id: EntryId, bytes: &[u8]);

    /// An entry whose newest bytes are damaged. It stays as it is until it is put or deleted.
    fn damaged(&mut self, id: EntryId, damage: Damage);
}

/// What a recovery found. Another store begins with `Recovery::default()`, and sets the fields that it knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Entries that were given.
    pub entries: u64,
    /// The end of the last file, where a crash had broken off a write: nobody was told that it was done. It is cut off.
    pub torn: Option<Damage>,
    /// Places that could not be read, besides entries that were told as damaged.
    pub gaps: Vec<Damage>,
}

/// How much a journal keeps, and what that costs. Another store begins with `JournalStats::default()`, and sets the fields that it knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalStats {
    /// Entries that are kept.
    pub entries: u64,
    /// Bytes of these entries.
    pub live_bytes: u64,
    /// Bytes that the journal takes.
    pub size_bytes: u64,
    /// Bytes written since it was opened, with those of the next two.
    pub written_bytes: u64,
    /// Of these, bytes that were written again to make room.
    pub moved_bytes: u64,
    /// Of these, bytes written ahead, so that a file has its place on the disk before it is used.
    pub prepared_bytes: u64,
    /// Syncs since it was opened.
    pub syncs: u64,
}
