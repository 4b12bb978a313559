//! Checks which foms have long locks. The locks are in memory: after a restart no fom has one. A fom in a phase with
//! locks takes them again.

use std::collections::HashMap;

use super::{Checker, Words};

/// The state of one life.
#[derive(Debug, Default)]
pub(super) struct Locks {
    /// The holders by lock and fom.
    had: HashMap<u64, HashMap<u64, Had>>,
    /// The foms that were about to return from their last phase with a lock, by lock. The value has the mode, and the
    /// number of transitions once the return is committed.
    given: HashMap<u64, HashMap<u64, (bool, u32)>>,
}

#[derive(Clone, Copy, Debug)]
struct Had {
    writes: bool,
    /// Whether the function runs. If not, the fom is between two phases that both have the lock, or could not enter the
    /// second.
    runs: bool,
    /// The operation that got the lock since.
    overtaken: Option<u64>,
}

impl Locks {
    /// The last step could not be committed. The operation holds no lock, and comes back once the step is committed.
    pub(super) fn lost(&mut self, n: u64) {
        self.moved(n);
        for had in self.had.values_mut() {
            had.remove(&n);
        }
    }

    /// A listener heard of the transition, so the return is committed.
    pub(super) fn moved(&mut self, n: u64) {
        for given in self.given.values_mut() {
            given.remove(&n);
        }
    }
}

impl Checker {
    pub(super) fn lock(&mut self, line: &str, words: &mut Words<'_>) -> Option<()> {
        let (n, lock): (u64, u64) = (words.number()?, words.number()?);
        let writes = words.word()? == "w";
        self.operation(n, line);
        let what = line.chars().next()?;
        let had = self.locks.had.entry(lock).or_default();
        match what {
            'G' => return self.has_lock(n, lock, writes),
            'V' => {
                if let Some(had) = had.get_mut(&n) {
                    had.runs = false;
                }
            }
            _ => {
                had.remove(&n);
                let hops = self.operations.get(&n)?.at.as_ref()?.0 + 1;
                let given = self.locks.given.entry(lock).or_default();
                given.insert(n, (writes, hops));
            }
        }
        Some(())
    }

    fn has_lock(&mut self, n: u64, lock: u64, writes: bool) -> Option<()> {
        self.counts.locks += 1;
        let all = self.locks.had.entry(lock).or_default();
        let before = all.insert(
            n,
            Had {
                writes,
                runs: true,
                overtaken: None,
            },
        );
        let mut found = Vec::new();
        for (other, had) in all.iter_mut() {
            if *other == n || !(had.writes || writes) {
                continue;
            }
            if had.runs {
                found.push(*other);
            } else {
                had.overtaken = Some(n);
            }
        }
        found.extend(before.and_then(|had| had.overtaken));
        for other in found {
            let what = format!("it has the lock {lock}, and so has {other}");
            self.wrong_with("a lock is had by one", n, what);
        }
        // The earlier holder has given the lock back. So its transition is committed, even if no listener heard of it.
        let given = self.locks.given.entry(lock).or_default();
        for (other, (wrote, hops)) in given.iter().filter(|(other, _)| **other != n) {
            if (*wrote || writes)
                && let Some(other) = self.operations.get_mut(other)
            {
                other.durable = Some(*hops);
            }
        }
        Some(())
    }
}
