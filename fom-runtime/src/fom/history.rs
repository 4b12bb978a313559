//! The last visits of a fom.

use std::collections::VecDeque;

use fom_protocol::sync::Mutex;

/// The maximum history capacity that is allocated with the fom. The history grows on demand.
const HISTORY_AT_ONCE: usize = 64;

/// A line of a fom's history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) phase: u16,
    pub(crate) at: u64,
}

/// The last visits of a fom.
pub(crate) struct History(Mutex<VecDeque<Seen>>);

impl History {
    /// Creates a history of `most` lines.
    pub(super) fn new(most: usize) -> Self {
        Self(Mutex::new(VecDeque::with_capacity(
            most.min(HISTORY_AT_ONCE),
        )))
    }

    /// Returns the lines, oldest first.
    pub(crate) fn lines(&self) -> Vec<Seen> {
        self.0.lock().iter().copied().collect()
    }

    /// Adds a line to a history of `most` lines.
    #[cold]
    pub(super) fn remember(&self, index: usize, at: u64, most: usize) {
        let mut lines = self.0.lock();
        if lines.len() == most {
            lines.pop_front();
        }
        lines.push_back(Seen {
            phase: index as u16,
            at,
        });
    }
}
