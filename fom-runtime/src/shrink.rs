//! What a table of a million entries has needed is not kept for the next thousand.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::{BuildHasher, Hash},
};

/// A table that is smaller than this keeps its memory.
const SMALL: usize = 128;

/// How much room is left when there is much more than what is there needs. It grows to that in steps that take their time anyway:
/// so looking after each removal costs no more than a constant for each.
pub(crate) fn room(len: usize, capacity: usize) -> Option<usize> {
    (capacity > SMALL && capacity / 8 > len).then(|| SMALL.max(2 * len))
}

/// Gives memory back that is far more than what is there needs. Called where something was removed.
pub(crate) trait Shrink {
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
