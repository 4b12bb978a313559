//! Checks the turns of operations that fail, and are tried again at the tail of their series.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Checker, MENDS, Operation};

/// The series of the operations that fail.
#[derive(Debug, Default)]
pub(super) struct Tails {
    /// The operations of each series that are on disk, and have not begun.
    waiting: HashMap<String, BTreeSet<u64>>,
    /// The series of each operation that has begun.
    of: HashMap<u64, String>,
    /// The operations that were tried again.
    retried: HashSet<u64>,
    /// The operations that must begin before this one goes on.
    before: HashMap<u64, BTreeSet<u64>>,
}

impl Tails {
    /// Notes an operation that is on disk, and has not begun.
    pub(super) fn accepted(&mut self, n: u64, series: &str) {
        let waiting = self.waiting.entry(series.to_owned()).or_default();
        waiting.insert(n);
    }

    /// Whether the operation was tried again. Then operations after it may have begun before it goes on.
    pub(super) fn is_retried(&self, n: u64) -> bool {
        self.retried.contains(&n)
    }
}

impl Checker {
    /// The operation is about to be tried again, or the retry was refused.
    pub(super) fn goes_to_tail(&mut self, n: u64, tried: bool) {
        let Some(series) = self.tails.of.get(&n).cloned() else {
            return;
        };
        self.tails.before.remove(&n);
        if tried {
            let waiting = self.tails.waiting.get(&series);
            let waiting = waiting.cloned().unwrap_or_default();
            self.tails.before.insert(n, waiting);
            self.tails.retried.insert(n);
            self.keys.leave(MENDS, &series, n);
        }
    }

    /// Notes a transition of an operation that may fail.
    pub(super) fn heard_in_series(&mut self, n: u64, series: &str, cause: &str) {
        if series == "-" {
            return;
        }
        self.tails.of.insert(n, series.to_owned());
        if let Some(waiting) = self.tails.waiting.get_mut(series) {
            waiting.remove(&n);
        }
        let before = self.tails.before.remove(&n).unwrap_or_default();
        let has_begun = |n: &u64| self.operations.get(n).is_some_and(|of| of.at.is_some());
        if let Some(waits) = before.into_iter().find(|before| !has_begun(before)) {
            let what = format!("it went on, and {waits} waited when it was tried again");
            self.wrong_with("a retry goes to the tail of its series", n, what);
        }
        if cause == "failed-error" {
            self.keys.leave(MENDS, series, n);
        }
    }

    /// Whether the operation may have failed unreported, which ends its turn: its function has written its effect. The
    /// process was killed, or the commit failed.
    pub(super) fn may_have_failed(&self, operation: &Operation) -> bool {
        let Some((hops, phase)) = &operation.at else {
            return false;
        };
        let fails = operation.letter == Some(MENDS) && phase == "Work";
        let worked = operation.effect.is_some_and(|(of, ..)| of == *hops);
        fails && worked && (operation.stalled || operation.life < self.life)
    }
}
