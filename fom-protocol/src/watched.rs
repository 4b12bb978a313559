//! The blocking section of a locality that the watcher watches: the number of the last section, or a mark that the
//! watcher is not watching.
//!
//! # Why it is right
//!
//! One word holds both. A thread that opens a section swaps its number in, and the same swap tells the thread whether
//! to wake the watcher. To leave, the watcher exchanges the number that it has seen for the mark, which fails if there
//! is a newer number. So the watcher misses no section. The swap comes after the core was put into the slot. A watcher
//! that sees the number finds the core there, unless another thread has taken the core since.

use std::{fmt, num::NonZeroU32};

use crate::sync::atomic::{AtomicU32, Ordering};

/// The last section, or 0 while the watcher is not watching.
pub struct Watched(AtomicU32);

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

impl Default for Watched {
    fn default() -> Self {
        Self::new()
    }
}

impl Watched {
    /// Creates the word. The watcher is not watching.
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Announces an open section. On `true` the caller must wake the watcher.
    #[inline]
    pub fn open(&self, number: NonZeroU32) -> bool {
        self.0.swap(number.get(), Ordering::AcqRel) == 0
    }

    /// Returns the last section opened since the watcher last left.
    #[inline]
    pub fn last(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.0.load(Ordering::Acquire))
    }

    /// Lets the watcher leave. Returns `false` if a section was opened since the watcher saw `seen`.
    #[inline]
    pub fn leave(&self, seen: Option<NonZeroU32>) -> bool {
        let seen = seen.map_or(0, NonZeroU32::get);
        self.0
            .compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}
