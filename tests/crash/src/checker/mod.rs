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
//! - An operation that failed is in quarantine in the next lives ([`failed`]).
//! - A copy of the journal without one of its files reports that, or has all entries.
//! - In the end all operations have ended, also those that were quarantined for a while.

mod bills;
mod failed;
mod keys;
mod late;
mod lazy;
mod locks;
mod sent;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    fmt,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
};

use self::{bills::Bills, failed::Failed, keys::Keys, lazy::Lazy, locks::Locks, sent::Outside};
use crate::{
    history::whole,
    work::{Fail, Feed, KINDS, Kind, Post, Speak, Story, child_of, posted},
};

/// The number of recent lines of an operation shown with a violation.
const SHOWN: usize = 14;

/// The operation type that must fail.
const FAILS: char = Fail::LETTER;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The name of the rule.
    pub rule: &'static str,
    /// The life in which it happened.
    pub life: u64,
    /// What happened.
    pub what: String,
    /// The lines of the history that show it.
    pub lines: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (life {}): {}", self.rule, self.life, self.what)?;
        self.lines
            .iter()
            .try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// How much was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines of the history.
    pub lines: u64,
    /// Transitions that listeners heard of.
    pub transitions: u64,
    /// Foms that came back.
    pub resumed: u64,
    /// Of these: foms one transition further than the last one heard of.
    pub unreported: u64,
    /// Effects.
    pub effects: u64,
    /// Of these: effects of a visit that already had one.
    pub repeated: u64,
    /// Operations heard of.
    pub operations: u64,
    /// Of these: operations that ended while no listener heard of the end.
    pub ended_unreported: u64,
    /// Outcomes that handles were told.
    pub outcomes: u64,
    /// Of these: outcomes of operations that were submitted again.
    pub outcomes_again: u64,
    /// Locks that operations held.
    pub locks: u64,
    /// Deadlines that passed.
    pub late: u64,
    /// Of these: deadlines that passed while no process ran.
    pub overdue: u64,
    /// Lazy foms that came back behind the last transition heard of, as they may.
    pub lost_lazily: u64,
    /// Foms that were quarantined for a while.
    pub quarantined: u64,
    /// How often a failed fom was looked for in quarantine.
    pub failed: u64,
    /// Durable sends that were acknowledged.
    pub sent: u64,
    /// Lookups of outcomes.
    pub found: u64,
    /// Operations of which the user was told that they are on disk.
    pub accepted: u64,
}

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
        self.operation(n, line).accepted = true;
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

    fn transition(&mut self, line: &str, words: &mut Words<'_>) -> Option<()> {
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
        // A cancel that is a transition.
        let goes_back = cause == "failed-cancelled" && to != "-";
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
            _ if goes_on || cause == "failed-error" && letter == FAILS => match at {
                Some((last, _)) if cause == "failed-error" && hops == last => {}
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
            },
            _ => self.wrong_with("ends well", n, format!("it ended with {cause}")),
        }
        let operation = self.operations.entry(n).or_default();
        operation.at = Some((hops, to.to_owned()));
        operation.ended = to == "Done" || to == "-";
        if cause == "failed-error" {
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
        self.in_order(n, letter, key);
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
    fn may_have_ended(operation: &Operation) -> bool {
        let Some((hops, phase)) = &operation.at else {
            return false;
        };
        operation.ended || phase == "Last" && operation.effect.is_some_and(|(of, ..)| of == *hops)
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
        self.operation(n, line);
        if matches!(outcome, "failed-journal" | "failed-shutdown") {
            return Some(());
        }
        if outcome == "failed-unread" {
            // The operation ended in a newer release. This release cannot read the outcome.
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
        for (n, operation) in &operations {
            let show = || operation.recent.iter().cloned().collect();
            match &operation.at {
                Some((hops, phase)) if !operation.ended => {
                    let never_was = operation.is_lazy() && operation.durable.is_none();
                    if Self::may_have_ended(operation) || never_was {
                        self.counts.ended_unreported += 1;
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
