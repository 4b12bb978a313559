//! The rules for a history, over any number of kills.
//!
//! A transition is *known* to be committed once a listener heard of it or a handle was told of it. The same holds once
//! the function of the target phase did something. Each fom numbers its own transitions (`hops`, saved with the fom).
//! The rules:
//!
//! - No transition is lost. A restored fom is in the last known phase, or one transition further. That transition was
//!   committed, and the crash came before any listener heard of it. Every fom comes back unless it ended.
//! - No transition happens twice. Each number is reported once, in order. Each transition starts in the phase to which
//!   the previous one led.
//! - Each operation has one fom, and each fom one operation.
//! - Each transition is an edge of the graph. The graph of a layer is joined with the graph of the inner operation.
//! - Of operations with one key, the next begins when the last has ended, in the order of their submissions and posts
//!   ([`keys`]). Operations that share the key do not wait for each other. Operations from several localities at once
//!   begin in any order, one after the other.
//! - A visit of a phase has one step key, in all its attempts, and no other visit has it. Attempt numbers never go
//!   down, and none is skipped.
//! - An event has one step key, in every life and visit that takes it ([`bills`]). No other event and no visit has it.
//! - The outcome of an operation follows from its number: no step was made twice, or left out.
//! - An operation that was submitted with an id has one outcome, for every caller and at any time.
//! - An event that was sent durably and acknowledged is taken once, and an outcome that was told is found ([`sent`]).
//! - Operations sent by an outbox begin. Events sent by an outbox arrive once and in order.
//! - While a fom has a long lock to write, no other fom has the lock ([`locks`]). No fom gets the lock before the
//!   transition that gives it back is committed.
//! - An operation that is on disk begins, also if it waited for its turn when a process ended.
//! - A deadline passes in its time. A deadline that passed while no process ran is late at once ([`late`]).
//! - Of lazy transitions only the last ones are lost ([`lazy`]).
//! - An operation that failed is in quarantine in the next lives ([`failed`]). If it is tried again, it goes on with its
//!   id, its step key and its data, until it ends well.
//! - An operation of a series that failed has no turn. If it is tried again, it has its turn after those that wait then
//!   ([`tails`]).
//! - A copy of the journal without one of its files reports that, or has all entries.
//! - In the end all operations have ended, also those that were quarantined for a while.

mod bills;
mod failed;
mod keys;
mod late;
mod lazy;
mod locks;
mod report;
mod sent;
mod tails;
mod transitions;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
};

pub use report::{Counts, Violation};

use self::{
    bills::Bills, failed::Failed, keys::Keys, lazy::Lazy, locks::Locks, sent::Outside, tails::Tails,
};
use crate::{
    history::whole,
    work::{Fail, Feed, KINDS, Kind, Mend, Post, Speak, Story, child_of, posted},
};

/// The number of recent lines of an operation shown with a violation.
const SHOWN: usize = 14;

/// The operation type that fails for good.
const FAILS: char = Fail::LETTER;

/// The operation type that fails, and is tried again until it succeeds.
const MENDS: char = Mend::LETTER;

/// Reads a history, line by line.
#[derive(Debug, Default)]
pub struct Checker {
    life: u64,
    /// The start of this life and the current time, in microseconds.
    life_began: u64,
    now: u64,
    operations: BTreeMap<u64, Operation>,
    /// The operation of each fom.
    foms: HashMap<u64, u64>,
    /// The visit of each step key. Both are hashes, because there are millions.
    steps: HashMap<u64, u64>,
    /// The edges of the graphs, by letter, source and target.
    edges: HashSet<(char, &'static str, &'static str)>,
    keys: Keys,
    bills: Bills,
    locks: Locks,
    lazy: Lazy,
    failed: Failed,
    tails: Tails,
    outside: Outside,
    counts: Counts,
    violations: Vec<Violation>,
}

#[derive(Debug, Default)]
struct Operation {
    letter: Option<char>,
    fom: Option<u64>,
    /// The last known transition and the phase it led to.
    at: Option<(u32, String)>,
    /// The last visit with an effect: its transition, its attempt, and the hash of its step key.
    effect: Option<(u32, u32, u64)>,
    ended: bool,
    outcome: Option<String>,
    told: bool,
    once: Option<char>,
    /// Whether its last commit failed. The result of its last transition is unknown until it comes back.
    stalled: bool,
    /// It cannot come back before this transition. A lazy one must be on disk by now; for others, another operation got
    /// a lock by it.
    durable: Option<u32>,
    waits: Option<late::Waits>,
    /// Whether the user was told that it is on disk.
    accepted: bool,
    /// The life of its last line.
    life: u64,
    recent: VecDeque<String>,
}

impl Operation {
    fn kind(&self) -> Option<&'static Kind> {
        self.letter.and_then(kind)
    }

    fn is_lazy(&self) -> bool {
        self.kind().is_some_and(|kind| kind.lazy)
    }
}

fn kind(letter: char) -> Option<&'static Kind> {
    static KNOWN: [Kind; KINDS.len()] = KINDS;
    KNOWN.iter().find(|kind| kind.letter == letter)
}

/// The name of a phase inside a layer begins with the name of the layer's phase.
fn is_phase(at: &str, phase: &str) -> bool {
    at == phase || at.rsplit_once('.').is_some_and(|(_, inner)| inner == phase)
}

type Hasher = BuildHasherDefault<DefaultHasher>;

fn hash(of: impl std::hash::Hash) -> u64 {
    Hasher::default().hash_one(of)
}

/// The words of a line, in order.
struct Words<'a>(std::str::Split<'a, char>);

impl<'a> Words<'a> {
    fn word(&mut self) -> Option<&'a str> {
        self.0.next()
    }
    fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.word()?.parse().ok()
    }
}

impl Checker {
    /// Creates a checker that knows nothing yet.
    pub fn new() -> Self {
        let edges = KINDS.iter().flat_map(|kind| {
            let edges = kind.graph.edges();
            edges.map(|(from, to)| (kind.letter, from.name(), to.name()))
        });
        Self {
            edges: edges.collect(),
            ..Self::default()
        }
    }

    /// Returns the violations so far.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Returns how much was checked so far.
    pub fn counts(&self) -> Counts {
        Counts {
            operations: self.operations.len() as u64,
            ..self.counts
        }
    }

    /// Returns the operations submitted with their ids: with `told`, those with an outcome that a handle reported; else
    /// the others.
    pub(crate) fn submitted_once(&self, told: bool) -> impl Iterator<Item = (char, u64)> {
        self.operations
            .iter()
            .filter(move |(_, operation)| operation.told == told)
            .filter_map(|(n, operation)| Some((operation.once?, *n)))
    }

    /// Notes a journal that lost a file or a part of one, and did not report it.
    pub(crate) fn missed(&mut self, what: String) {
        self.wrong("a missing file is told", what, Vec::new());
    }

    fn wrong(&mut self, rule: &'static str, what: String, lines: Vec<String>) {
        let life = self.life;
        self.violations.push(Violation {
            rule,
            life,
            what,
            lines,
        });
    }

    fn wrong_with(&mut self, rule: &'static str, n: u64, what: String) {
        let operation = self.operations.get(&n);
        let lines = operation.map_or(Vec::new(), |of| of.recent.iter().cloned().collect());
        self.wrong(rule, format!("operation {n}: {what}"), lines);
    }

    /// Reads a line of the history, without its line break.
    pub fn line(&mut self, line: &str) {
        let Some((time, line)) = whole(line) else {
            // The process was killed while it wrote the line, so nothing depends on the line.
            return;
        };
        self.counts.lines += 1;
        self.now = time;
        let mut words = Words(line.split(' '));
        let known = match words.word() {
            Some("L") => words.number().map(|life| self.begun(life)),
            Some("S") => self.submitted(line, &mut words),
            Some("T") => self.transition(line, &mut words),
            Some("E") => self.effect(line, &mut words),
            Some("P") => self.paid(line, &mut words),
            Some("H") => self.told(line, &mut words),
            Some("X") => {
                self.wrong("said by the child", line[1..].trim().to_owned(), Vec::new());
                Some(())
            }
            Some("G" | "V" | "U") => self.lock(line, &mut words),
            Some("W" | "D") => self.waits(line, &mut words),
            Some(begins @ ("C" | "O")) => {
                self.lazy.commit_begins(begins == "O");
                Some(())
            }
            Some("c") => {
                self.committed();
                Some(())
            }
            Some("K") => self.acknowledged(line, &mut words),
            Some("F") => self.found(line, &mut words),
            Some("Q") => self.found_failed(&mut words),
            Some("B") => self.accepted(line, &mut words),
            Some(tried @ ("M" | "N")) => self.tried_again(line, tried == "M", &mut words),
            Some("A") => {
                self.counts.quarantined += 1;
                Some(())
            }
            Some("R" | "!" | "Z") => Some(()),
            _ => None,
        };
        if known.is_none() {
            self.wrong("unreadable", line.to_owned(), Vec::new());
        }
    }

    /// Another process starts: everything in memory is gone.
    fn begun(&mut self, life: u64) {
        self.life = life;
        self.life_began = self.now;
        self.locks = Locks::default();
        self.lazy = Lazy::default();
        self.failed.life_begins();
        self.outside.life_begins();
    }

    fn operation(&mut self, n: u64, line: &str) -> &mut Operation {
        let life = self.life;
        let operation = self.operations.entry(n).or_default();
        operation.life = life;
        if operation.recent.len() == SHOWN {
            operation.recent.pop_front();
        }
        operation.recent.push_back(format!("[{life}] {line}"));
        operation
    }

    fn submitted(&mut self, line: &str, words: &mut Words<'_>) -> Option<()> {
        let (n, letter, once): (u64, char, _) = (words.number()?, words.number()?, words.word()?);
        let operation = self.operation(n, line);
        operation.letter = Some(letter);
        if once == "once" {
            operation.once = Some(letter);
        }
        Some(())
    }

    fn accepted(&mut self, line: &str, words: &mut Words<'_>) -> Option<()> {
        let n: u64 = words.number()?;
        let operation = self.operation(n, line);
        operation.accepted = true;
        if operation.at.is_none() {
            self.tails.accepted(n, words.word()?);
        }
        self.counts.accepted += 1;
        Some(())
    }

    /// An operation and its fom belong together.
    fn is_of(&mut self, n: u64, fom: u64) {
        let before = self.foms.insert(fom, n);
        let was = |other: &u64| {
            // An operation that was lost with its start leaves no trace. If the journal had nothing else, it starts
            // from empty.
            let other = self.operations.get(other);
            other.is_none_or(|other| !other.is_lazy() || other.durable.is_some())
        };
        if let Some(other) = before.filter(|other| *other != n && was(other)) {
            self.wrong_with(
                "an id is used again",
                n,
                format!("fom {fom} was that of operation {other}"),
            );
        }
        let operation = self.operations.entry(n).or_default();
        if let Some(other) = operation.fom.replace(fom).filter(|other| *other != fom) {
            self.wrong_with(
                "run twice",
                n,
                format!("it is fom {fom}, and was fom {other}"),
            );
        }
    }

    fn effect(&mut self, line: &str, words: &mut Words<'_>) -> Option<()> {
        let (n, fom, hops): (u64, u64, u32) = (words.number()?, words.number()?, words.number()?);
        let (phase, attempt, key) = (words.word()?, words.number::<u32>()?, words.word()?);
        self.counts.effects += 1;
        self.operation(n, line);
        self.is_of(n, fom);
        let operation = self.operations.entry(n).or_default();
        let stays = |last: u32, at: &str| hops == last + 1 && is_phase(at, phase);
        match operation.at.clone() {
            Some((last, at)) if hops == last && is_phase(&at, phase) => {}
            // Listeners do not hear of a phase that stays.
            Some((last, at)) if stays(last, &at) => operation.at = Some((hops, at)),
            Some((last, at)) => self.wrong_with(
                "none entered again",
                n,
                format!(
                    "{phase} did something after {hops} transitions, and {last} had led to {at}"
                ),
            ),
            None => self.wrong_with(
                "committed first",
                n,
                format!("{phase} did something, and its start was not reported"),
            ),
        }
        let (visit, step) = (hash((n, hops)), hash(key));
        let operation = self.operations.entry(n).or_default();
        let before = operation
            .effect
            .replace((hops, attempt, step))
            .filter(|(of, ..)| *of == hops);
        if operation.ended {
            self.wrong_with("ends once", n, "it did something after its end".into());
        }
        if let Some((_, attempts, other)) = before {
            self.counts.repeated += 1;
            if attempt < attempts {
                self.wrong_with(
                    "attempts count",
                    n,
                    format!("attempt {attempt} came after attempt {attempts}"),
                );
            }
            if attempt > attempts + 1 {
                self.wrong_with(
                    "attempts count",
                    n,
                    format!("attempt {attempt} came after attempt {attempts}: some were not made"),
                );
            }
            if other != step {
                self.wrong_with(
                    "one key for a visit",
                    n,
                    format!("{phase} used the key {key}, and another one before"),
                );
            }
        }
        if self.steps.insert(step, visit).is_some_and(|of| of != visit) {
            self.wrong_with(
                "no key for two visits",
                n,
                format!("{key} was used by another visit"),
            );
        }
        Some(())
    }

    fn told(&mut self, line: &str, words: &mut Words<'_>) -> Option<()> {
        let (n, outcome): (u64, _) = (words.number()?, words.word()?);
        self.counts.outcomes += 1;
        let letter = self.operation(n, line).letter;
        if matches!(outcome, "failed-journal" | "failed-shutdown") {
            return Some(());
        }
        if outcome == "failed-unread" {
            // The operation ended in a newer release. This release cannot read the outcome.
            return Some(());
        }
        if outcome == "failed-error" && letter == Some(MENDS) {
            // It is in quarantine, and a retry goes on with it.
            return Some(());
        }
        let outcome = match outcome {
            "failed-error" | "failed-remembered" => "failed",
            outcome => outcome,
        };
        self.outside.ended(n);
        let operation = self.operations.entry(n).or_default();
        let again = std::mem::replace(&mut operation.told, true);
        let before = operation.outcome.replace(outcome.to_owned());
        operation.ended = true;
        self.counts.outcomes_again += u64::from(again);
        if let Some(before) = before.filter(|before| before != outcome) {
            self.wrong_with(
                "one outcome",
                n,
                format!("a handle was told {outcome}, and it had come to {before}"),
            );
        }
        Some(())
    }

    /// Checks the end: nothing is in flight, and no line follows.
    pub fn finish(&mut self) {
        let operations = std::mem::take(&mut self.operations);
        let dropped: HashSet<u64> = {
            let old = self.failed.old();
            old.filter_map(|fom| self.foms.get(&fom).copied()).collect()
        };
        for (n, operation) in &operations {
            let show = || operation.recent.iter().cloned().collect();
            match &operation.at {
                Some((hops, phase)) if !operation.ended => {
                    let never_was = operation.is_lazy() && operation.durable.is_none();
                    if Self::may_have_ended(operation) || never_was {
                        self.counts.ended_unreported += 1;
                    } else if dropped.contains(n) {
                        self.counts.dropped += 1;
                    } else {
                        self.wrong(
                            "none lost",
                            format!("operation {n}: transition {hops} led to {phase}, and its end was not reported"),
                            show(),
                        );
                    }
                }
                None if operation.accepted && !operation.ended => {
                    let what = format!("operation {n} was on disk, and has not begun");
                    self.wrong("what is accepted is carried out", what, show());
                }
                _ => {}
            }
            if operation.once.is_some() && !operation.told {
                self.wrong(
                    "one outcome",
                    format!("operation {n} was submitted with its id, and has none"),
                    show(),
                );
            }
            let sends = operation.ended || operation.at.as_ref().is_some_and(|at| at.0 > 0);
            let sent = match operation.letter {
                Some(Speak::LETTER | Feed::LETTER) if sends => child_of(*n)..child_of(*n) + 1,
                Some(Post::LETTER) if sends => n + 1..n + 1 + posted(*n),
                _ => 0..0,
            };
            for child in sent {
                let begun = operations.get(&child);
                if begun.is_none_or(|child| child.at.is_none()) {
                    let what = format!("operation {n} started {child}, which was never reported");
                    self.wrong("what was sent begins", what, show());
                }
            }
        }
        self.operations = operations;
    }
}
