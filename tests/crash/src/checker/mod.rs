//! What must hold in a history, over any number of kills.
//!
//! A transition is *known* to be committed when a listener heard of it, when a handle was told of it, or when the function of
//! the phase it leads to did something. A fom's transitions are numbered by the fom itself (`hops`, saved with it). The rules:
//!
//! - none is lost: what comes back is in the phase that is known last, or one transition further (that one was committed, and
//!   the crash came before the first who would have heard of it); and it comes back unless it ended so;
//! - none is twice: each number is heard of once, in order, and each goes on from where the one before led;
//! - each operation has one fom, and each fom one operation;
//! - each goes a way that its graph has, that of a layer joined with what is inside;
//! - of operations with one key the next one begins when the last one has ended, in the order in which they were submitted or posted;
//!   operations that share it do not wait for each other, and operations from several localities at once begin in any order, one after
//!   the other ([`keys`]);
//! - a visit of a phase has one step key, in all its attempts, and no other visit has it; attempts never go down, and none is skipped;
//! - an event has one step key, in whatever life and visit it is taken, and no other event and no visit has it ([`bills`]);
//! - what an operation came to is what follows from its number: nothing was done to it twice, or not at all;
//! - an operation that was submitted with an id has one outcome, whoever asks and whenever;
//! - what was sent by an outbox begins, and events that were sent come once and in order;
//! - nobody has a long lock beside one who has it to write, and nobody gets it before the transition is committed that gives it back
//!   ([`locks`]);
//! - a deadline passes in its time, and one that passed while nothing ran is late at once ([`late`]);
//! - of lazy transitions only the last ones are lost ([`lazy`]);
//! - a copy of the journal without one of its files reports that, or has all entries;
//! - in the end all have ended, what was set aside for a while among them.

mod bills;
mod keys;
mod late;
mod lazy;
mod locks;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    fmt,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
};

use self::{bills::Bills, keys::Keys, lazy::Lazy, locks::Locks};
use crate::{
    history::whole,
    work::{Fail, Feed, KINDS, Kind, Post, Speak, Story, child_of, posted},
};

/// Lines of an operation that are shown with what is wrong with it.
const SHOWN: usize = 14;

/// The operation that is to fail.
const FAILS: char = Fail::LETTER;

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one, in a word.
    pub rule: &'static str,
    /// In which life.
    pub life: u64,
    /// What happened.
    pub what: String,
    /// The lines that say so.
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
    /// Transitions that were heard of.
    pub transitions: u64,
    /// Foms that came back.
    pub resumed: u64,
    /// Of these: one transition further than anybody had heard of.
    pub unheard: u64,
    /// Effects.
    pub effects: u64,
    /// Of these: of a visit that had one before.
    pub repeated: u64,
    /// Operations of which anything was heard.
    pub operations: u64,
    /// Of these: ended without that anybody heard of it.
    pub ended_unheard: u64,
    /// Outcomes that handles were told.
    pub outcomes: u64,
    /// Of these: of operations that were submitted again.
    pub outcomes_again: u64,
    /// Locks that were had.
    pub locks: u64,
    /// Deadlines that passed.
    pub late: u64,
    /// Of these: while nothing ran.
    pub overdue: u64,
    /// Foms that came back further behind than anybody had heard of, as lazy ones may.
    pub lost_lazily: u64,
    /// Foms that were set aside for a while.
    pub set_aside: u64,
}

/// Reads a history, line by line.
#[derive(Debug, Default)]
pub struct Checker {
    life: u64,
    /// When it began, and what time it is, in microseconds.
    life_began: u64,
    now: u64,
    operations: BTreeMap<u64, Operation>,
    /// Which operation a fom is of.
    foms: HashMap<u64, u64>,
    /// Which visit has a step key, by the hash of both: there are millions.
    steps: HashMap<u64, u64>,
    /// The ways that there are, by letter, from and to.
    edges: HashSet<(char, &'static str, &'static str)>,
    keys: Keys,
    bills: Bills,
    locks: Locks,
    lazy: Lazy,
    counts: Counts,
    violations: Vec<Violation>,
}

#[derive(Debug, Default)]
struct Operation {
    letter: Option<char>,
    fom: Option<u64>,
    /// What is known last.
    at: Option<(u32, String)>,
    /// It did something in this visit; how many attempts there were, and the hash of the step key.
    effect: Option<(u32, u32, u64)>,
    ended: bool,
    outcome: Option<String>,
    told: bool,
    once: Option<char>,
    /// It failed since the journal did: what became of its last transition is not known before it comes back.
    stalled: bool,
    /// It cannot come back before this transition: of a lazy one it must be on disk by now; of others, somebody got a lock by it.
    durable: Option<u32>,
    waits: Option<late::Waits>,
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

/// A phase inside of a layer has the layer's phase before its own name.
fn is_phase(at: &str, phase: &str) -> bool {
    at == phase || at.rsplit_once('.').is_some_and(|(_, inner)| inner == phase)
}

type Hasher = BuildHasherDefault<DefaultHasher>;

fn hash(of: impl std::hash::Hash) -> u64 {
    Hasher::default().hash_one(of)
}

/// The words of a line, one after the other.
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
    /// Nothing is known.
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

    /// What was not kept so far.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// How much was checked so far.
    pub fn counts(&self) -> Counts {
        Counts {
            operations: self.operations.len() as u64,
            ..self.counts
        }
    }

    /// Operations that were submitted with their ids: those of which nobody was told the outcome, and (`told`) the others.
    pub(crate) fn submitted_once(&self, told: bool) -> impl Iterator<Item = (char, u64)> {
        self.operations
            .iter()
            .filter(move |(_, operation)| operation.told == told)
            .filter_map(|(n, operation)| Some((operation.once?, *n)))
    }

    /// A journal lost a file or a part of it, and did not report that.
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

    /// Takes in a line of the history, without its line break.
    pub fn line(&mut self, line: &str) {
        let Some((time, line)) = whole(line) else {
            // The process was killed while it wrote it; whoever waited for that was not told.
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
            Some("A") => {
                self.counts.set_aside += 1;
                Some(())
            }
            Some("R" | "!" | "Z") => Some(()),
            _ => None,
        };
        if known.is_none() {
            self.wrong("unreadable", line.to_owned(), Vec::new());
        }
    }

    /// Another process: what was in memory is gone.
    fn begun(&mut self, life: u64) {
        self.life = life;
        self.life_began = self.now;
        self.locks = Locks::default();
        self.lazy = Lazy::default();
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

    /// An operation and its fom belong together.
    fn is_of(&mut self, n: u64, fom: u64) {
        let before = self.foms.insert(fom, n);
        let was = |other: &u64| {
            // Of what was lost with its start there is nothing; and where that was all that there was, the journal begins anew.
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
            // The runtime lets go of it; the journal does not.
            return Some(());
        }
        self.counts.transitions += 1;
        let operation = self.operations.entry(n).or_default();
        let (at, ended, stalled) = (operation.at.clone(), operation.ended, operation.stalled);
        if cause == "failed-journal" {
            // If it was to start, it may never come back, and be submitted again. What it held it has no more.
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
        let goes_on = matches!(cause, "returned" | "late" | "exhausted");
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
                // In the same process it went on, and only its last commit had failed.
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
        if operation.ended {
            operation.outcome = Some(outcome.to_owned());
            // Not needed any more, and there are many.
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
        // Names of both are those of the graph.
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
                // Made once more, as other visits.
                self.counts.lost_lazily += 1;
                operation.effect = None;
            }
            Some((last, phase)) if hops == last && to == phase => {}
            Some((last, _)) if hops == last + 1 => self.counts.unheard += 1,
            None if hops == 0 => self.counts.unheard += 1,
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

    /// Whether it may have ended since the last that was heard of it: it was in its last phase, whose function writes before it
    /// ends.
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
            // Nobody hears of a phase that stays.
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
                format!("{phase} did something, and nobody had heard of its start"),
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
        let operation = self.operation(n, line);
        if matches!(outcome, "failed-journal" | "failed-shutdown") {
            return Some(());
        }
        if outcome == "failed-unread" {
            // It ended in a newer release, whose outcome this one cannot read.
            return Some(());
        }
        let outcome = match outcome {
            "failed-error" | "failed-remembered" => "failed",
            outcome => outcome,
        };
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

    /// Nothing is in flight any more, and nothing more comes.
    pub fn finish(&mut self) {
        let operations = std::mem::take(&mut self.operations);
        for (n, operation) in &operations {
            let show = || operation.recent.iter().cloned().collect();
            match &operation.at {
                Some((hops, phase)) if !operation.ended => {
                    let never_was = operation.is_lazy() && operation.durable.is_none();
                    if Self::may_have_ended(operation) || never_was {
                        self.counts.ended_unheard += 1;
                    } else {
                        self.wrong(
                            "none lost",
                            format!("operation {n}: transition {hops} led to {phase}, and nobody heard of its end"),
                            show(),
                        );
                    }
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
                    let what = format!("operation {n} started {child}, of which nobody heard");
                    self.wrong("what was sent begins", what, show());
                }
            }
        }
        self.operations = operations;
    }
}
