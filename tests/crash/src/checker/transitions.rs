//! The transitions of each fom: in their order, by a way of the graph, and after a restart where they were.

use super::*;

impl Checker {
    pub(super) fn transition(&mut self, line: &str, words: &mut Words<'_>) -> Option<()> {
        let (n, letter): (u64, char) = (words.number()?, words.number()?);
        let (fom, hops): (u64, u32) = (words.number()?, words.number()?);
        let (from, to, cause) = (words.word()?, words.word()?, words.word()?);
        let (key, locality, outcome) = (words.word()?, words.number::<u32>()?, words.word()?);
        let kind = kind(letter)?;
        self.operation(n, line).letter = Some(letter);
        if cause == "failed-shutdown" {
            // The runtime lets go of the fom; the journal keeps it.
            return Some(());
        }
        self.counts.transitions += 1;
        let operation = self.operations.entry(n).or_default();
        let (at, ended, stalled) = (operation.at.clone(), operation.ended, operation.stalled);
        if cause == "failed-journal" {
            // A fom that was about to start may never come back, and be submitted again. It has lost what it held.
            operation.stalled = true;
            operation.durable = None;
            self.locks.lost(n);
            return Some(());
        }
        operation.stalled = false;
        self.locks.moved(n);
        self.is_of(n, fom);
        if ended && !(kind.lazy && cause == "resumed") {
            self.wrong_with(
                "ends once",
                n,
                "something was heard of it after its end".into(),
            );
        }
        // A cancel or a failure that is a transition.
        let goes_back = matches!(cause, "failed-cancelled" | "failed-error") && to != "-";
        let goes_on = goes_back || matches!(cause, "returned" | "late" | "exhausted");
        let from_known = kind.graph.find(from);
        if goes_on && from_known.is_none_or(|from| !self.has_way(letter, from.name(), to)) {
            self.wrong_with(
                "a way that there is",
                n,
                format!("it went from {from} to {to}, which its graph does not have"),
            );
        }
        match cause {
            "started" => {
                if at.is_some() || hops != 0 {
                    self.wrong_with("none twice", n, "it started again".into());
                }
            }
            "resumed" => {
                self.counts.resumed += 1;
                self.resumed(n, at, hops, to);
            }
            _ if goes_on || cause == "failed-error" && matches!(letter, FAILS | MENDS) => {
                match at {
                    Some((last, _)) if cause == "failed-error" && to == "-" && hops == last => {}
                    Some((last, phase)) if hops == last + 1 && from == phase => {}
                    // It continued in the same process. Only its last commit had failed.
                    Some((last, _)) if stalled && hops == last + 1 => {}
                    Some((last, phase)) => self.wrong_with(
                        if hops <= last {
                            "none twice"
                        } else {
                            "none lost"
                        },
                        n,
                        format!("transition {hops} from {from}, where {last} led to {phase}"),
                    ),
                    None => self.wrong_with(
                        "none lost",
                        n,
                        format!("transition {hops} was heard of, and no earlier one"),
                    ),
                }
            }
            _ => self.wrong_with("ends well", n, format!("it ended with {cause}")),
        }
        let operation = self.operations.entry(n).or_default();
        // A retry goes on in the phase that failed.
        let mends = letter == MENDS && cause == "failed-error";
        operation.at = Some((hops, if mends { from } else { to }.to_owned()));
        operation.ended = (to == "Done" || to == "-") && !mends;
        if cause == "failed-error" && to == "-" {
            self.failed.heard(fom);
        }
        let operation = self.operations.entry(n).or_default();
        if operation.ended {
            self.outside.ended(n);
            operation.outcome = Some(outcome.to_owned());
            // No longer needed, and there are many.
            operation.effect = None;
            operation.waits = None;
            let due = (kind.due)(n);
            if outcome != due {
                self.wrong_with(
                    "it comes to what it should",
                    n,
                    format!("to {outcome}, and it is to come to {due}"),
                );
            }
        }
        self.heard_waiting(n, to, cause);
        self.heard_lazily(n, kind.lazy, hops, locality, cause);
        if letter == MENDS {
            self.heard_in_series(n, key, cause);
        }
        if cause != "failed-error" {
            self.in_order(n, letter, key);
        }
        Some(())
    }

    fn has_way(&self, letter: char, from: &'static str, to: &str) -> bool {
        // Both names come from the graph.
        let to = kind(letter).and_then(|kind| kind.graph.find(to));
        to.is_some_and(|to| self.edges.contains(&(letter, from, to.name())))
    }

    fn resumed(&mut self, n: u64, at: Option<(u32, String)>, hops: u32, to: &str) {
        let operation = self.operations.entry(n).or_default();
        let (lazy, durable) = (operation.is_lazy(), operation.durable);
        if let Some(durable) = durable.filter(|durable| hops < *durable) {
            let rule = if lazy {
                "lazy loses the last only"
            } else {
                "a lock is given back by what is committed"
            };
            let what = format!("it came back with transition {hops}, and {durable} was committed");
            self.wrong_with(rule, n, what);
            return;
        }
        match at {
            Some((last, _)) if lazy && hops < last => {
                // The lost transitions are made again, as new visits.
                self.counts.lost_lazily += 1;
                operation.effect = None;
            }
            Some((last, phase)) if hops == last && to == phase => {}
            Some((last, _)) if hops == last + 1 => self.counts.unreported += 1,
            None if hops == 0 => self.counts.unreported += 1,
            Some((last, phase)) => self.wrong_with(
                if hops <= last {
                    "none lost"
                } else {
                    "none skipped"
                },
                n,
                format!(
                    "it came back with transition {hops} in {to}, and {last} had led to {phase}"
                ),
            ),
            None => self.wrong_with(
                "none skipped",
                n,
                format!("it came back with transition {hops}, and had not started"),
            ),
        }
    }

    /// Returns whether the operation has ended, or may have ended unreported: the function of its last phase has
    /// already written its effect.
    pub(super) fn may_have_ended(operation: &Operation) -> bool {
        let Some((hops, phase)) = &operation.at else {
            return false;
        };
        operation.ended || phase == "Last" && operation.effect.is_some_and(|(of, ..)| of == *hops)
    }
}
