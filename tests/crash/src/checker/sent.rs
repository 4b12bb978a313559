//! Durable sends from outside, and outcomes that are looked up.

use std::collections::HashSet;

use super::{Checker, Words};

/// The events that were acknowledged, by operation and number.
#[derive(Debug, Default)]
pub(super) struct Acknowledged(HashSet<(u64, u32)>);

impl Checker {
    /// An event that was acknowledged is in the journal: no later send of it sends it again.
    pub(super) fn acknowledged(&mut self, line: &str, words: &mut Words<'_>) -> Option<()> {
        let (n, event, how): (u64, u32, _) = (words.number()?, words.number()?, words.word()?);
        self.operation(n, line);
        self.counts.sent += 1;
        let known = !self.sent.0.insert((n, event));
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

    /// An outcome that a handle was told is found.
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
        if let Some(before) = before
            && before != outcome
        {
            let what = format!("the lookup found {outcome}, and it had come to {before}");
            self.wrong_with("an outcome is found", n, what);
        }
        Some(())
    }
}
