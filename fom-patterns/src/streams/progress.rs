//! Which requests of a numbered source have ended.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Records which requests of a numbered source have ended, such as the entries of a log. Requests end in any order. The
/// record holds the first number that has not ended, and the numbers beyond it that have. Save it, and after a restart
/// run only what has not ended.
///
/// The distance from the first number that has not ended is bounded. Beyond the bound, the source must pause: one request
/// that hangs then costs bounded memory, and bounded work after a restart.
///
/// ```
/// use fom_patterns::streams::Progress;
///
/// let mut progress = Progress::new(3);
/// progress.end(0);
/// progress.end(2);
/// assert_eq!(progress.first_open(), 1);
/// assert!(progress.may_begin(3));
/// // Number 1 is too far behind.
/// assert!(!progress.may_begin(4));
///
/// let saved = serde_json::to_string(&progress)?;
/// let restored: Progress = serde_json::from_str(&saved)?;
/// let again: Vec<u64> = (0..4).filter(|number| !restored.has_ended(*number)).collect();
/// assert_eq!(again, [1, 3]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    first_open: u64,
    ended: BTreeSet<u64>,
    gap: u64,
}

impl Progress {
    /// Returns the record of a source that begins with the number 0. A number may begin if it is less than `gap` beyond
    /// the first one that has not ended. At least 1.
    pub fn new(gap: u64) -> Self {
        Self {
            first_open: 0,
            ended: BTreeSet::new(),
            gap: gap.max(1),
        }
    }

    /// Returns the first number that has not ended. The source may forget all numbers before it.
    pub fn first_open(&self) -> u64 {
        self.first_open
    }

    /// Returns the numbers beyond the first open one that have ended.
    pub fn ended_beyond(&self) -> impl Iterator<Item = u64> {
        self.ended.iter().copied()
    }

    /// Returns whether the request with this number has ended.
    pub fn has_ended(&self, number: u64) -> bool {
        number < self.first_open || self.ended.contains(&number)
    }

    /// Returns whether the request with this number may begin. Returns `false` if it has ended, and if it is too far
    /// beyond the first open one; then the source pauses until [`end`](Self::end) returns `true`.
    pub fn may_begin(&self, number: u64) -> bool {
        !self.has_ended(number) && number - self.first_open < self.gap
    }

    /// Records that the request with this number has ended. Returns whether the first open number has moved, so further
    /// numbers may begin.
    pub fn end(&mut self, number: u64) -> bool {
        if number > self.first_open {
            self.ended.insert(number);
            return false;
        }
        if number < self.first_open {
            return false;
        }
        self.first_open += 1;
        while self.ended.remove(&self.first_open) {
            self.first_open += 1;
        }
        true
    }
}
