//! A journal as a log of bodies, for stores that keep rows or messages and no entries by number.
//!
//! A [`LogJournal`] writes each commit as one *body*, and finds the newest bytes of each entry when it reads the log. It
//! writes the live entries of the oldest bodies again, so that the log stays bounded. A [`LogStore`] only appends, reads and
//! deletes bodies.

mod body;
mod index;
mod journal;
mod store;

pub use journal::LogJournal;
pub use store::LogStore;
