//! Checks the deadline of `work::Late`. Deadlines follow the time of the journal. Between two processes, that time is
//! the uptime of the machine, to a hundredth of a second.

use super::{Checker, Words};
use crate::work::{Late, Story, WITHIN};

/// The tolerance for clocks, and the tolerance for each restart during the wait, in microseconds.
const SLACK: u64 = 20_000;
const EACH: u64 = 11_000;

const TIME: u64 = WITHIN.as_micros() as u64;

/// A waiting operation. Times are in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    /// The life in which the wait began.
    life: u64,
    /// The earliest start of the wait.
    after: u64,
    /// The latest start of the wait, if a listener heard of it.
    before: Option<u64>,
}

impl Checker {
    /// Notes a transition that a listener heard of.
    pub(super) fn heard_waiting(&mut self, n: u64, to: &str, cause: &str) {
        let (life, now) = (self.life, self.now);
        let Some(operation) = self.operations.get_mut(&n) else {
            return;
        };
        if operation.letter != Some(Late::LETTER) {
            return;
        }
        match (to, cause) {
            // The function of the phase begins in the same run, or after a commit.
            ("Begin", _) => {
                operation.waits = Some(Waits {
                    life,
                    after: now,
                    before: None,
                });
            }
            ("Wait", "returned") => {
                if let Some(waits) = &mut operation.waits {
                    waits.life = life;
                    waits.before = Some(now);
                }
            }
            _ => {}
        }
    }

    pub(super) fn waits(&mut self, line: &str, words: &mut Words<'_>) -> Option<()> {
        let n: u64 = words.number()?;
        let (life, now, began) = (self.life, self.now, self.life_began);
        let Some(waits) = self.operation(n, line).waits else {
            return Some(());
        };
        let slack = SLACK + EACH * (life - waits.life);
        let overdue =
            life > waits.life && (waits.before).is_some_and(|before| before + TIME + slack < began);
        if line.starts_with('D') {
            self.counts.late += 1;
            self.counts.overdue += u64::from(overdue);
            if now + slack < waits.after + TIME {
                let early = waits.after + TIME - now;
                let what = format!("its deadline passed {early} us too early");
                self.wrong_with("a deadline passes in its time", n, what);
            }
        } else if overdue {
            let what = "its deadline had passed before this process began, and it works on".into();
            self.wrong_with("what is overdue is late at once", n, what);
        }
        Some(())
    }
}
