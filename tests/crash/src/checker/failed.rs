//! Operations that failed are in quarantine after a restart.

use std::collections::{HashSet, VecDeque};

use super::{Checker, Words};

/// The number of failed foms that the journal surely keeps; see [`KEPT`](crate::KEPT).
const LAST: usize = crate::KEPT / 2;

/// The last foms that failed and were not tried again.
#[derive(Debug, Default)]
pub(super) struct Failed {
    /// In earlier lives.
    before: VecDeque<u64>,
    /// In this life. Its list of failed foms may have been made before they failed.
    now: VecDeque<u64>,
    /// Foms that failed so long ago that the journal may have dropped them.
    old: HashSet<u64>,
}

impl Failed {
    pub(super) fn heard(&mut self, fom: u64) {
        self.now.push_back(fom);
        self.drop_old();
    }

    pub(super) fn life_begins(&mut self) {
        self.before.append(&mut self.now);
    }

    /// The journal drops the oldest at the time of a failure. What is tried again later does not bring them back.
    fn drop_old(&mut self) {
        while self.before.len() + self.now.len() > LAST {
            let oldest = self.before.pop_front().or_else(|| self.now.pop_front());
            self.old.extend(oldest);
        }
    }

    /// A fom that is found, and of whose failure no listener heard, failed in the last life.
    fn found(&mut self, fom: u64) {
        let known = self.before.contains(&fom) || self.now.contains(&fom);
        if !known && !self.old.contains(&fom) {
            self.before.push_back(fom);
        }
    }

    fn forget(&mut self, fom: u64) {
        self.before.retain(|other| *other != fom);
        self.now.retain(|other| *other != fom);
        self.old.remove(&fom);
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
        let listed: Vec<u64> = std::iter::from_fn(|| words.number()).collect();
        let found: HashSet<u64> = listed.iter().copied().collect();
        if found.len() != count {
            return None;
        }
        self.counts.failed += self.failed.before.len() as u64;
        let lost = self.failed.before.iter().find(|fom| !found.contains(fom));
        if let Some(fom) = lost {
            let what = format!("fom {fom} failed, and is not in quarantine");
            self.wrong("a failed operation is kept", what, Vec::new());
        }
        listed.into_iter().for_each(|fom| self.failed.found(fom));
        self.failed.drop_old();
        Some(())
    }
}
