//! Which of a locality's blocking sections the patrol looks after: the number of the last one, or that it does not look.
//!
//! # Why it is right
//!
//! One word says both. Who opens a section swaps its number in, and learns by the same step whether the patrol has to be
//! woken; the patrol leaves by exchanging the number it has seen for the mark, which fails when there is a new one. So no
//! section is opened unseen. The swap comes after the core was laid into the slot: whoever sees the number sees the core
//! there, or that it has been taken since.

use std::{fmt, num::NonZeroU32};

use crate::sync::atomic::{AtomicU32, Ordering};

/// The last section, or 0: nobody looks.
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
    /// Nobody looks.
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// A section was opened. `true`: the caller wakes the patrol.
    #[inline]
    pub fn open(&self, number: NonZeroU32) -> bool {
        self.0.swap(number.get(), Ordering::AcqRel) == 0
    }

    /// The last section that was opened while, or since, somebody looked.
    pub fn last(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.0.load(Ordering::Acquire))
    }

    /// The patrol goes, unless a section was opened since it saw the last one.
    pub fn leave(&self, seen: Option<NonZeroU32>) -> bool {
        let seen = seen.map_or(0, NonZeroU32::get);
        self.0
            .compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}
