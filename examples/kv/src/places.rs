//! The home locality of each key.

use std::hash::{BuildHasher as _, RandomState};

/// Maps a key to its home. The map differs in each process, so that no client can know which keys share a locality.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    hasher: RandomState,
    localities: usize,
}

impl Places {
    pub(crate) fn new(localities: usize) -> Self {
        Self {
            hasher: RandomState::new(),
            localities,
        }
    }

    /// Returns whether there is only one locality.
    pub(crate) fn is_one(&self) -> bool {
        self.localities == 1
    }

    /// Returns the home of a key.
    pub(crate) fn home(&self, key: &[u8]) -> usize {
        if self.localities == 1 {
            return 0;
        }
        (self.hasher.hash_one(key) % self.localities as u64) as usize
    }
}
