//! Checks which lazy transitions must be on disk by now. The checks use the order of the lines, not how long a step
//! took: durations mean little on a busy machine.
//!
//! A locality hands over its gathered transitions after each run, if they are older than a few milliseconds. It looks at
//! the clock once in 32 steps, so on a busy machine its time can be old for that many. So a lazy transition is handed over
//! once listeners in its locality heard of [`STEPS`] transitions of other foms, each at least [`GATHERED`] later. The second commit that begins after that contains the transition. Once a transition has waited for 50 ms and no
//! commit under way contains it, no lazy fom continues.

use std::collections::{HashMap, VecDeque};

use super::Checker;

/// The longest time for which a locality gathers, in microseconds, with some tolerance.
const GATHERED: u64 = 10_000;

/// After so many steps, a locality has looked at the clock, and has ended the run of the last one.
const STEPS: u32 = 34;

/// The age, in microseconds, at which an unsynced transition makes other foms wait too.
const BOUND: u64 = 50_000;

/// The state of one life.
#[derive(Debug, Default)]
pub(super) struct Lazy {
    localities: HashMap<u32, Locality>,
    /// The number of commits that began.
    begun: u64,
    /// Whether the last commit has only changes of a failed commit.
    again: bool,
}

#[derive(Debug, Default)]
struct Locality {
    pending: VecDeque<Pending>,
    since: Since,
}

/// A transition that may be lost.
#[derive(Clone, Copy, Debug)]
struct Pending {
    n: u64,
    hops: u32,
    at: u64,
    /// The number of transitions here, of other operations, at least [`GATHERED`] later.
    heard: u32,
    /// The number of commits that had begun when the transition was handed over.
    handed: Option<u64>,
}

/// The transitions heard in a locality since a commit began or ended, step by step, until a fom must wait.
#[derive(Clone, Copy, Debug, Default)]
enum Since {
    #[default]
    Nothing,
    /// A lazy transition, at this time.
    Heard(u64),
    /// A transition of this operation, [`GATHERED`] or more after the first. The first is handed over after this run at
    /// the latest.
    Gathered(u64),
    /// A transition of another operation, at this time. The first transition is handed over.
    Handed(u64),
    /// A transition after the bound had passed. Its fom may have asked before the bound.
    Passed,
}

impl Lazy {
    /// `again`: the commit has only changes of a failed commit. The runtime repeats those changes in commits of their
    /// own, without the lazy transitions that wait meanwhile. So such commits do not count.
    pub(super) fn commit_begins(&mut self, again: bool) {
        self.begun += u64::from(!again);
        self.again = again;
        for locality in self.localities.values_mut() {
            locality.since = Since::Nothing;
        }
    }
}

impl Checker {
    /// Notes a successful commit. Transitions handed over before it was assembled are on disk.
    pub(super) fn committed(&mut self) {
        let begun = self.lazy.begun;
        let again = self.lazy.again;
        for locality in self.lazy.localities.values_mut() {
            locality.since = Since::Nothing;
            if again {
                continue;
            }
            locality.pending.retain(|pending| {
                // The first commit that began after the hand-over may have been assembled before.
                let safe = pending.handed.is_some_and(|handed| begun >= handed + 2);
                if safe && let Some(operation) = self.operations.get_mut(&pending.n) {
                    operation.durable = operation.durable.max(Some(pending.hops));
                }
                !safe
            });
        }
    }

    pub(super) fn heard_lazily(
        &mut self,
        n: u64,
        lazy: bool,
        hops: u32,
        locality: u32,
        cause: &str,
    ) {
        let (now, begun) = (self.now, self.lazy.begun);
        let of = self.lazy.localities.entry(locality).or_default();
        for pending in &mut of.pending {
            if pending.handed.is_none() && now >= pending.at + GATHERED && pending.n != n {
                pending.heard += 1;
                if pending.heard > STEPS {
                    pending.handed = Some(begun);
                }
            }
        }
        // A resumed fom is on disk already, and is committed again.
        if !lazy || cause == "resumed" {
            return;
        }
        of.since = match of.since {
            Since::Nothing => Since::Heard(now),
            Since::Heard(at) if now >= at + GATHERED => Since::Gathered(n),
            Since::Gathered(other) if other != n => Since::Handed(now),
            Since::Handed(at) if now >= at + BOUND => Since::Passed,
            Since::Passed => {
                of.since = Since::Nothing;
                let what = "it went on, and nothing was committed for longer than it may".into();
                self.wrong_with("lazy waits for the disk", n, what);
                return;
            }
            since => since,
        };
        of.pending.push_back(Pending {
            n,
            hops,
            at: now,
            heard: 0,
            handed: None,
        });
    }
}
