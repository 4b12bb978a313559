//! The visits of a fom: their number, and the last of them.

use std::collections::VecDeque;

use fom_protocol::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

/// The maximum history capacity that is allocated with the fom. The history grows on demand.
const HISTORY_AT_ONCE: usize = 64;

/// A line of a fom's history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) phase: u16,
    pub(crate) at: u64,
}

/// The visits of a fom, as far as they are remembered or counted.
#[derive(Default)]
pub(crate) struct History {
    lines: Option<Box<Mutex<VecDeque<Seen>>>>,
    /// The visits of phases since this was made, as far as they are counted. Written by the thread that runs the fom.
    visits: AtomicU64,
}

impl History {
    /// Creates a history of `most` lines.
    pub(super) fn new(most: usize) -> Self {
        Self {
            lines: (most > 0)
                .then(|| VecDeque::with_capacity(most.min(HISTORY_AT_ONCE)))
                .map(|lines| Box::new(Mutex::new(lines))),
            visits: AtomicU64::new(0),
        }
    }

    /// Returns whether the history has lines.
    pub(super) fn is_kept(&self) -> bool {
        self.lines.is_some()
    }

    /// Returns the lines, oldest first.
    pub(crate) fn lines(&self) -> Vec<Seen> {
        let lines = self.lines.as_ref();
        lines.map_or_else(Vec::new, |lines| lines.lock().iter().copied().collect())
    }

    pub(super) fn visits(&self) -> u64 {
        self.visits.load(Ordering::Relaxed)
    }

    /// Counts a visit.
    pub(super) fn count(&self) {
        fom_protocol::count(&self.visits, 1);
    }

    /// Counts a visit, and adds a line, if the fom has a history of `most` lines.
    pub(crate) fn remember(&self, index: usize, now: u64, most: usize) {
        self.count();
        if let Some(lines) = &self.lines {
            remember(lines, most, index, now);
        }
    }
}

#[cold]
fn remember(lines: &Mutex<VecDeque<Seen>>, most: usize, index: usize, at: u64) {
    let mut lines = lines.lock();
    if lines.len() == most {
        lines.pop_front();
    }
    lines.push_back(Seen {
        phase: index as u16,
        at,
    });
}
