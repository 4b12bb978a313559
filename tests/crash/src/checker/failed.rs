//! Operations that failed are in quarantine after a restart.

use std::collections::{HashSet, VecDeque};

use super::{Checker, Words};

/// The number of failed foms that the journal surely keeps; see [`KEPT`](crate::KEPT).
const LAST: usize = crate::KEPT / 2;

/// The last foms of which a listener heard that they failed.
#[derive(Debug, Default)]
pub(super) struct Failed {
    /// In earlier lives.
    before: VecDeque<u64>,
    /// In this life. Its list of failed foms may have been made before they failed.
    now: Vec<u64>,
}

impl Failed {
    pub(super) fn heard(&mut self, fom: u64) {
        self.now.push(fom);
    }

    pub(super) fn life_begins(&mut self) {
        self.before.extend(self.now.drain(..));
        let old = self.before.len().saturating_sub(LAST);
        self.before.drain(..old);
    }
}

impl Failed {
    fn forget(&mut self, fom: u64) {
        self.before.retain(|other| *other != fom);
        self.now.retain(|other| *other != fom);
    }
}

impl Checker {
    /// A failed operation is about to go on, or its retry was refused. After a kill it is in quarantine or goes on.
    pub(super) fn tried_again(
        &mut self,
        line: &str,
        tried: bool,
        words: &mut Words<'_>,
    ) -> Option<()> {
        let fom: u64 = words.number()?;
        self.failed.forget(fom);
        self.counts.tried_again += u64::from(tried);
        if let Some(n) = self.foms.get(&fom).copied() {
            self.operation(n, line);
            self.goes_to_tail(n, tried);
        }
        Some(())
    }

    /// Reads which failed foms the next life found.
    pub(super) fn found_failed(&mut self, words: &mut Words<'_>) -> Option<()> {
        let count: usize = words.number()?;
        let found: HashSet<u64> = std::iter::from_fn(|| words.number()).collect();
        if found.len() != count {
            return None;
        }
        self.counts.failed += self.failed.before.len() as u64;
        let lost = self.failed.before.iter().find(|fom| !found.contains(fom));
        if let Some(fom) = lost {
            let what = format!("fom {fom} failed, and is not in quarantine");
            self.wrong("a failed operation is kept", what, Vec::new());
        }
        Some(())
    }
}
