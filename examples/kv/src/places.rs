//! Which locality is the home of a key.

use std::hash::{BuildHasher as _, RandomState};

/// Which locality is the home of a key. Another one in each process, so that nobody outside can know keys that share one.
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

    /// Whether there is only one.
    pub(crate) fn is_one(&self) -> bool {
        self.localities == 1
    }

    /// The home of a key.
    pub(crate) fn home(&self, key: &[u8]) -> usize {
        if self.localities == 1 {
            return 0;
        }
        (self.hasher.hash_one(key) % self.localities as u64) as usize
    }
}
