//! Deadlines: that of `work::Late`. They go by the time of the journal, which is the machine's uptime between two processes: to a
//! hundredth of a second there.

use super::{Checker, Words};
use crate::work::{Late, Story, WITHIN};

/// What is allowed for clocks, and for each process that it has been through.
const SLACK: u64 = 20_000;
const EACH: u64 = 11_000;

const TIME: u64 = WITHIN.as_micros() as u64;

/// One that waits: times in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    /// In which life it began to wait.
    life: u64,
    /// It did not begin to wait before.
    after: u64,
    /// It had begun to wait by then, if that was heard.
    before: Option<u64>,
}

impl Checker {
    /// A transition of an operation was heard of.
    pub(super) fn heard_waiting(&mut self, n: u64, to: &str, cause: &str) {
        let (life, now) = (self.life, self.now);
        let Some(operation) = self.operations.get_mut(&n) else {
            return;
        };
        if operation.letter != Some(Late::LETTER) {
            return;
        }
        match (to, cause) {
            // Its function begins in the same run, or after a commit.
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
