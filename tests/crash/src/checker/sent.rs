//! Durable sends from outside, and outcomes that are looked up.

use std::collections::HashSet;

use super::{Checker, Words};

/// What users outside were told.
#[derive(Debug, Default)]
pub(super) struct Outside {
    /// The events that were acknowledged, by operation and number.
    acknowledged: HashSet<(u64, u32)>,
    /// The operations that ended in this life. A lookup may have been made before.
    ended_now: HashSet<u64>,
}

impl Outside {
    pub(super) fn life_begins(&mut self) {
        self.ended_now.clear();
    }

    pub(super) fn ended(&mut self, n: u64) {
        self.ended_now.insert(n);
    }
}

impl Checker {
    /// An event that was acknowledged is in the journal: no later send of it sends it again.
    pub(super) fn acknowledged(&mut self, line: &str, words: &mut Words<'_>) -> Option<()> {
        let (n, event, how): (u64, u32, _) = (words.number()?, words.number()?, words.word()?);
        self.operation(n, line);
        self.counts.sent += 1;
        let known = !self.outside.acknowledged.insert((n, event));
        match how {
            "before" => {}
            "now" if !known => {}
            "now" => {
                let what = format!("event {event} was acknowledged, and was sent again");
                self.wrong_with("an acknowledged event is sent once", n, what);
            }
            _ => return None,
        }
        Some(())
    }

    /// An outcome that a handle or a listener was told in an earlier life is found.
    pub(super) fn found(&mut self, line: &str, words: &mut Words<'_>) -> Option<()> {
        let (n, outcome): (u64, _) = (words.number()?, words.word()?);
        self.counts.found += 1;
        let operation = self.operation(n, line);
        let before = operation.outcome.clone();
        let is_ended = !matches!(outcome, "unknown" | "in-flight");
        if is_ended {
            operation.ended = true;
            operation.outcome = Some(outcome.to_owned());
        }
        let is_new = !is_ended && self.outside.ended_now.contains(&n);
        if let Some(before) = before
            && before != outcome
            && !is_new
        {
            let what = format!("the lookup found {outcome}, and it had come to {before}");
            self.wrong_with("an outcome is found", n, what);
        }
        Some(())
    }
}
