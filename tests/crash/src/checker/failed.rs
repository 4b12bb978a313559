//! Operations that failed are in quarantine after a restart.

use std::collections::{HashSet, VecDeque};

use super::{Checker, Words};

/// The number of failed foms that the journal surely keeps; see [`KEPT`](crate::KEPT).
const LAST: usize = crate::KEPT / 2;

/// The last foms of which a listener heard that they failed.
#[derive(Debug, Default)]
pub(super) struct Failed(VecDeque<u64>);

impl Failed {
    pub(super) fn heard(&mut self, fom: u64) {
        if self.0.len() == LAST {
            self.0.pop_front();
        }
        self.0.push_back(fom);
    }
}

impl Checker {
    /// Reads which failed foms the next life found.
    pub(super) fn found_failed(&mut self, words: &mut Words<'_>) -> Option<()> {
        let count: usize = words.number()?;
        let found: HashSet<u64> = std::iter::from_fn(|| words.number()).collect();
        if found.len() != count {
            return None;
        }
        self.counts.failed += self.failed.0.len() as u64;
        let lost = self.failed.0.iter().find(|fom| !found.contains(fom));
        if let Some(fom) = lost {
            let what = format!("fom {fom} failed, and is not in quarantine");
            self.wrong("a failed operation is kept", what, Vec::new());
        }
        Some(())
    }
}
