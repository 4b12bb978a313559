//! The payments as the provider sees them. The provider takes the money once for each key.

use std::collections::HashMap;

use super::{Checker, Words, hash};

/// The hash of the step key of each bill.
#[derive(Debug, Default)]
pub(super) struct Bills(HashMap<u64, u64>);

impl Checker {
    /// A bill has one key, in all payments and lives of its operation. Nothing else has that key.
    pub(super) fn paid(&mut self, line: &str, words: &mut Words<'_>) -> Option<()> {
        let (n, fom): (u64, u64) = (words.number()?, words.number()?);
        let (what, key) = (words.word()?, words.word()?);
        self.counts.effects += 1;
        self.operation(n, line);
        self.is_of(n, fom);
        if self.operations.get(&n).is_some_and(|of| of.ended) {
            self.wrong_with("ends once", n, "it did something after its end".into());
        }
        let (bill, step) = (hash((n, what)), hash(key));
        match self.bills.0.insert(bill, step) {
            Some(before) if before != step => {
                let what = format!("{what} was paid under {key}, and under another key before");
                self.wrong_with("an event is paid once", n, what);
            }
            Some(_) => self.counts.repeated += 1,
            None => {}
        }
        if self.steps.insert(step, bill).is_some_and(|of| of != bill) {
            let what = format!("{what} was not paid: {key} was used for something else");
            self.wrong_with("no key for two events", n, what);
        }
        Some(())
    }
}
