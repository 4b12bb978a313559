//! Checks which operations have a key, and in which order they get it.

use std::collections::{BTreeSet, HashMap};

use super::Checker;
use crate::work::{Queued, Story, is_shared};

/// The operations that began with each key, by operation type and key.
#[derive(Debug, Default)]
pub(super) struct Keys(HashMap<(char, String), Key>);

#[derive(Debug, Default)]
struct Key {
    /// The operations that began and are not known to have ended.
    have: BTreeSet<u64>,
    /// The highest number that began, and the number of the last operation that began without sharing the key.
    last: u64,
    last_alone: u64,
}

impl Keys {
    /// Notes that the operation has its turn no more.
    pub(super) fn leave(&mut self, letter: char, key: &str, n: u64) {
        if let Some(of) = self.0.get_mut(&(letter, key.to_owned())) {
            of.have.remove(&n);
        }
    }
}

impl Checker {
    /// Operations with the same key run one after the other, in the order of their numbers. Operations that share the
    /// key run together.
    pub(super) fn in_order(&mut self, n: u64, letter: char, key: &str) {
        if key == "-" {
            return;
        }
        let shares = |n| letter == Queued::LETTER && key.contains("shared") && is_shared(n);
        let of = self.keys.0.entry((letter, key.to_owned())).or_default();
        // The foms of several senders begin in the order of the senders' commits.
        let ordered = !key.contains("feed") && !self.tails.is_retried(n);
        if ordered && (n < of.last_alone || n < of.last && !shares(n)) {
            let before = if shares(n) { of.last_alone } else { of.last };
            let what = format!("{before} came before it with the key {key}");
            self.wrong_with("order of a key", n, what);
            return;
        }
        let others: Vec<_> = of
            .have
            .iter()
            .copied()
            .filter(|other| *other != n)
            .collect();
        of.have.insert(n);
        of.last = of.last.max(n);
        if !shares(n) {
            of.last_alone = n;
        }
        for other in others {
            let ended = self
                .operations
                .get(&other)
                .is_none_or(|other| Self::may_have_ended(other) || self.may_have_failed(other));
            if !ended && shares(n) && shares(other) {
                continue;
            }
            if let Some(of) = self.keys.0.get_mut(&(letter, key.to_owned())) {
                of.have.remove(&other);
            }
            if !ended {
                let what = format!("it had not ended when {n} began with the key {key}");
                self.wrong_with("order of a key", other, what);
            }
        }
        if self.operations.get(&n).is_some_and(|of| of.ended)
            && let Some(of) = self.keys.0.get_mut(&(letter, key.to_owned()))
        {
            of.have.remove(&n);
        }
    }
}
