//! Operations that failed are in quarantine after a restart.

use std::collections::{HashSet, VecDeque};

use super::{Checker, Words};

/// The number of failed foms that the journal surely keeps; see [`KEPT`](crate::KEPT).
const LAST: usize = crate::KEPT / 2;

/// The last foms that failed and were not tried again, oldest first.
#[derive(Debug, Default)]
pub(super) struct Failed {
    last: VecDeque<(u64, Heard)>,
    /// Foms that failed so long ago that the journal may have dropped them.
    old: HashSet<u64>,
    /// Foms that were old when they were tried again. If the retry is refused, the journal dropped them just before.
    tried: HashSet<u64>,
}

/// When a listener heard of the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// In an earlier life.
    Before,
    /// In this life. Its list of failed foms may have been made before they failed.
    Now,
    /// Not yet. The fom is in the list, and its failure may not be on disk.
    Not,
}

impl Failed {
    pub(super) fn heard(&mut self, fom: u64) {
        self.forget(fom);
        self.tried.remove(&fom);
        self.last.push_back((fom, Heard::Now));
        self.drop_old();
    }

    pub(super) fn life_begins(&mut self) {
        let heard = self.last.iter_mut().filter(|(_, when)| *when == Heard::Now);
        heard.for_each(|(_, when)| *when = Heard::Before);
    }

    /// Returns the foms that the journal must have.
    fn kept(&self) -> impl Iterator<Item = u64> {
        let before = self.last.iter().filter(|(_, when)| *when == Heard::Before);
        before.map(|(fom, _)| *fom)
    }

    /// Notes a fom that is in the list. It takes the place of another one also if no listener heard of it.
    fn found(&mut self, fom: u64) {
        let known = self.last.iter().any(|(other, _)| *other == fom);
        if !known && !self.old.contains(&fom) {
            self.last.push_back((fom, Heard::Not));
            self.drop_old();
        }
    }

    /// The journal drops the oldest at the time of a failure. What is tried again later does not bring them back.
    fn drop_old(&mut self) {
        while self.last.len() > LAST {
            let oldest = self.last.pop_front();
            self.old.extend(oldest.map(|(fom, _)| fom));
        }
    }

    /// Returns the foms that the journal may have dropped.
    pub(super) fn old(&self) -> impl Iterator<Item = u64> {
        self.old.iter().copied()
    }

    fn tried_again(&mut self, fom: u64) {
        if self.forget(fom) {
            self.tried.insert(fom);
        }
    }

    /// Returns whether the journal may have dropped the fom.
    fn forget(&mut self, fom: u64) -> bool {
        self.last.retain(|(other, _)| *other != fom);
        self.old.remove(&fom)
    }

    fn refused(&mut self, fom: u64) {
        if self.tried.remove(&fom) {
            self.old.insert(fom);
        }
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
        match tried {
            true => self.failed.tried_again(fom),
            false => self.failed.refused(fom),
        }
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
        self.counts.failed += self.failed.kept().count() as u64;
        let lost = self.failed.kept().find(|fom| !found.contains(fom));
        if let Some(fom) = lost {
            let what = format!("fom {fom} failed, and is not in quarantine");
            self.wrong("a failed operation is kept", what, Vec::new());
        }
        listed.into_iter().for_each(|fom| self.failed.found(fom));
        Some(())
    }
}
