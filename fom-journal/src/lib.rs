//! A crash-safe store of entries by number: the journal of fom.
//!
//! A [`Journal`] keeps *entries*: bytes by number. A program changes entries in *groups*: a crash leaves a whole group
//! or nothing of it. A *batch* takes many groups to the disk with one sync. The package knows nothing of foms, so other
//! programs can use it alone.
//!
//! [`FileJournal`] keeps the entries in files of one directory: a log of segments, and a manifest that names the
//! required segments. The live entries of old segments are written again, so that the log stays bounded.
//! [`MemoryJournal`] keeps the entries in memory, for tests. [`log::LogJournal`] keeps them in rows or messages of a server. A
//! program can implement [`Journal`] for its own store.
//!
//! The feature `testing` adds `conformance`, a test suite for such stores, and `disk::FaultyDisk`, a disk that fails
//! where a test says.
//!
//! # Modules
//!
//! From the bottom. Each module imports only from modules above it in this table; `tests/layout.rs` checks this.
//!
//! | module | contents | knows |
//! | --- | --- | --- |
//! | `entry` | the number of an entry | |
//! | `error` | errors, and damaged places | entries |
//! | `statement` | what a store executes with a group | |
//! | `batch` | groups of changes | entries and statements |
//! | `lease` | the right of one process to run what a shared journal holds | |
//! | `journal` | the trait, the receiver of a recovery, and what a store reports | batches, leases and errors |
//! | [`disk`] | the operations of a disk; the real disk and the faulty disk | no other module |
//! | [`log`] | the store on top of a log of bodies, such as rows of a table | the trait |
//! | `memory` | the store in memory | the trait, no disk |
//! | `file` | the store in files | the trait and the disk, not the real file system |
//! | `conformance` | the tests of a store | the trait alone, no store |
//!
//! `file` begins with a table of its own modules.

mod batch;
#[cfg(feature = "testing")]
pub mod conformance;
pub mod disk;
mod entry;
mod error;
mod file;
mod journal;
mod lease;
pub mod log;
mod memory;
mod statement;

pub use batch::{Batch, Change, Group};
pub use entry::EntryId;
pub use error::{Damage, JournalError};
#[doc(hidden)]
pub use file::read_hostile_segment;
pub use file::{FileJournal, FileJournalOptions, Inspection};
pub use journal::{Committed, Journal, JournalStats, Recover, Recovery};
pub use lease::Lease;
pub use memory::MemoryJournal;
pub use statement::Statement;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
