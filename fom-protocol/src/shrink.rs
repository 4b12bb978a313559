//! Releases the memory of a table after most of its entries were removed.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::{BuildHasher, Hash},
};

/// A smaller table keeps its memory.
const SMALL: usize = 128;

/// Returns the capacity that a table keeps, if it has far more than its entries need. Many changes lie between growing
/// and shrinking, so a check after each removal costs a constant time on average.
pub fn room(len: usize, capacity: usize) -> Option<usize> {
    (capacity > SMALL && capacity / 8 > len).then(|| SMALL.max(2 * len))
}

/// Releases memory that a table no longer needs. Called after a removal.
pub trait Shrink {
    /// Releases the memory, if there is much.
    fn shrink(&mut self);
}

impl<K: Eq + Hash, V, S: BuildHasher> Shrink for HashMap<K, V, S> {
    #[inline]
    fn shrink(&mut self) {
        if let Some(room) = room(self.len(), self.capacity()) {
            self.shrink_to(room);
        }
    }
}

impl<K: Eq + Hash, S: BuildHasher> Shrink for HashSet<K, S> {
    #[inline]
    fn shrink(&mut self) {
        if let Some(room) = room(self.len(), self.capacity()) {
            self.shrink_to(room);
        }
    }
}

impl<T> Shrink for VecDeque<T> {
    #[inline]
    fn shrink(&mut self) {
        if let Some(room) = room(self.len(), self.capacity()) {
            self.shrink_to(room);
        }
    }
}

#[cfg(all(test, not(any(fom_loom, fom_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn an_emptied_table_gives_its_memory_back_and_a_full_one_does_not() {
        let mut table: VecDeque<u32> = (0..100_000).collect();
        table.shrink();
        assert!(table.capacity() >= 100_000);
        while table.pop_front().is_some() {
            table.shrink();
            assert!(table.capacity() <= SMALL.max(8 * (table.len() + 1)) || table.len() > 10_000);
        }
        assert!(table.capacity() <= 2 * SMALL);
    }
}
