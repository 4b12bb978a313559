//! Lazy transitions: which of them must be on disk by now. None of this goes by how long something took, which says little on a
//! machine that is busy, but by what came after what.
//!
//! A locality hands over what it has gathered after each run, if that is older than a few milliseconds. So a transition of a lazy fom
//! that was heard of in a locality was handed over when two others were heard of there, [`GATHERED`] later. The second commit that
//! begins after that has it. And once something has waited for 50 ms that no commit under way has taken with it, no lazy fom gets on.

use std::collections::{HashMap, VecDeque};

use super::Checker;

/// How long a locality gathers at most, in microseconds, and then some.
const GATHERED: u64 = 10_000;

/// How old something may become that is not on disk, before others wait for it, too.
const BOUND: u64 = 50_000;

/// In one life.
#[derive(Debug, Default)]
pub(super) struct Lazy {
    localities: HashMap<u32, Locality>,
    /// How many commits began.
    begun: u64,
    /// The last commit has only changes of a failed one.
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
    /// Which one was heard of in the locality, late enough.
    heard: Option<u64>,
    /// How many commits had begun when it was handed over.
    handed: Option<u64>,
}

/// What was heard of in a locality since a commit began or ended, step by step: until a fom should have waited.
#[derive(Clone, Copy, Debug, Default)]
enum Since {
    #[default]
    Nothing,
    /// A lazy transition, at this time.
    Heard(u64),
    /// Another one, of this operation, so late that the first was handed over after it at the latest.
    Gathered(u64),
    /// One of another operation, at this time: the first is handed over.
    Handed(u64),
    /// One that came when the bound had passed. It may have asked before.
    Passed,
}

impl Lazy {
    /// `again`: the commit has only changes of a failed one. The runtime repeats those in commits of their own, without
    /// the lazy transitions that wait meanwhile, so such commits do not count.
    pub(super) fn commit_begins(&mut self, again: bool) {
        self.begun += u64::from(!again);
        self.again = again;
        for locality in self.localities.values_mut() {
            locality.since = Since::Nothing;
        }
    }
}

impl Checker {
    /// A commit went well: those that began before it and were handed over before that are on disk.
    pub(super) fn committed(&mut self) {
        let begun = self.lazy.begun;
        let again = self.lazy.again;
        for locality in self.lazy.localities.values_mut() {
            locality.since = Since::Nothing;
            if again {
                continue;
            }
            locality.pending.retain(|pending| {
                // The first that began since may have been made up before.
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
                // Another one: so that was another run.
                match pending.heard {
                    None => pending.heard = Some(n),
                    Some(first) if first != n => pending.handed = Some(begun),
                    Some(_) => {}
                }
            }
        }
        // What comes back is on disk, and is committed once more.
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
            heard: None,
            handed: None,
        });
    }
}
