//! The commits of all slots of a node. What the slots hand over while a request is under way goes with the next one: the thread
//! that comes first leads, and sends for the others. When its own bodies are answered, the next one leads.

use std::{
    any::TypeId,
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fom_journal::{JournalError, Lease, Statement, log::LogStore};
use fom_protocol::sync::{Condvar, Mutex, sleep};

use crate::{
    engine::{Append, Claim, Engine, EngineError},
    slot::Slot,
    time::ClusterTime,
};

/// The time between two attempts of a request without an answer.
pub(crate) const AGAIN: Duration = Duration::from_millis(250);

/// The longest body.
const LONGEST: usize = 512 << 20;

/// Commits what the slots of a node hand over.
pub(crate) struct Commits {
    engine: Arc<dyn Engine>,
    time: Arc<ClusterTime>,
    waiting: Mutex<Waiting>,
}

/// What has been handed over and not been sent.
#[derive(Default)]
struct Waiting {
    handed: Vec<Arc<Handed>>,
    /// Whether a thread leads.
    is_led: bool,
    is_closed: bool,
}

/// Bodies of one slot that were handed over.
#[derive(Debug)]
struct Handed {
    owned: Arc<Owned>,
    bodies: Arc<Vec<(u64, Vec<u8>)>>,
    statements: Arc<Vec<(usize, Statement)>>,
    state: Mutex<Turn>,
    changed: Condvar,
}

/// What a thread waits for that has handed bodies over.
#[derive(Debug)]
enum Turn {
    Waits,
    /// It leads now.
    Leads,
    Answered(Result<(), JournalError>),
}

impl Handed {
    /// The number of the last body.
    fn last(&self) -> u64 {
        self.bodies.last().map_or(0, |(number, _)| *number)
    }

    fn append(&self, time: Duration) -> Append {
        Append {
            slot: self.owned.slot,
            term: self.owned.term(),
            time,
            bodies: Arc::clone(&self.bodies),
            statements: Arc::clone(&self.statements),
        }
    }

    fn answers(&self, answer: Result<(), JournalError>) {
        if matches!(answer, Err(JournalError::Fenced)) {
            self.owned.lease.lose();
        }
        self.turn(Turn::Answered(answer));
    }

    fn turn(&self, turn: Turn) {
        *self.state.lock() = turn;
        self.changed.notify_all();
    }

    /// Waits until it leads, or is answered.
    fn wait(&self) -> Turn {
        let mut state = self.state.lock();
        loop {
            match mem::replace(&mut *state, Turn::Waits) {
                Turn::Waits => state = self.changed.wait(state),
                turn => return turn,
            }
        }
    }
}

/// A slot that this node has claimed.
#[derive(Debug)]
pub(crate) struct Owned {
    pub(crate) slot: Slot,
    /// The incarnation that has claimed it.
    incarnation: Arc<str>,
    pub(crate) lease: Lease,
    /// The number of the last body when the slot was claimed.
    last: u64,
    /// The greatest number that the engine may have given to a body.
    used: AtomicU64,
    /// Whether the node gives the slot up: nothing is written any more.
    ended: AtomicBool,
    /// Whether the runtime has dropped its journal.
    closed: Mutex<bool>,
    closes: Condvar,
}

impl Owned {
    pub(crate) fn new(slot: Slot, incarnation: Arc<str>, lease: Lease, last: u64) -> Self {
        Self {
            slot,
            incarnation,
            lease,
            last,
            used: AtomicU64::new(last),
            ended: AtomicBool::new(false),
            closed: Mutex::default(),
            closes: Condvar::default(),
        }
    }

    /// Whether this incarnation has claimed it.
    pub(crate) fn is_of(&self, incarnation: &str) -> bool {
        *self.incarnation == *incarnation
    }

    pub(crate) fn term(&self) -> u64 {
        self.lease.term()
    }

    /// Ends all writes of the slot.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Waits until the runtime has dropped its journal, for this time at most.
    pub(crate) fn wait_for_close(&self, time: Duration) {
        let mut closed = self.closed.lock();
        while !*closed {
            let (again, is_over) = self.closes.wait_for(closed, time);
            closed = again;
            if is_over {
                return;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.lease.is_lost() || self.ended.load(Ordering::Acquire)
    }
}

impl Commits {
    pub(crate) fn new(engine: Arc<dyn Engine>, time: Arc<ClusterTime>) -> Arc<Self> {
        Arc::new(Self {
            engine,
            time,
            waiting: Mutex::default(),
        })
    }

    /// Commits bodies. Blocks until it is known whether they are in the log.
    fn commit(
        &self,
        owned: &Arc<Owned>,
        bodies: Vec<(u64, Vec<u8>)>,
        statements: Vec<(usize, Statement)>,
    ) -> Result<(), JournalError> {
        let handed = Arc::new(Handed {
            owned: Arc::clone(owned),
            bodies: Arc::new(bodies),
            statements: Arc::new(statements),
            state: Mutex::new(Turn::Waits),
            changed: Condvar::default(),
        });
        let leads = {
            let mut waiting = self.waiting.lock();
            if waiting.is_closed {
                return Err(JournalError::Closed);
            }
            waiting.handed.push(Arc::clone(&handed));
            !mem::replace(&mut waiting.is_led, true)
        };
        if leads {
            self.lead();
        }
        loop {
            match handed.wait() {
                Turn::Answered(answer) => return answer,
                Turn::Leads | Turn::Waits => self.lead(),
            }
        }
    }

    /// Sends all that was handed over, with the own bodies, and lets the next thread lead.
    fn lead(&self) {
        let mut handed = mem::take(&mut self.waiting.lock().handed);
        while !handed.is_empty() {
            handed = self.send(handed);
        }
        let mut waiting = self.waiting.lock();
        match waiting.handed.first() {
            Some(next) => next.turn(Turn::Leads),
            None => waiting.is_led = false,
        }
    }

    /// Ends all commits.
    pub(crate) fn close(&self) {
        self.waiting.lock().is_closed = true;
    }

    fn is_closed(&self) -> bool {
        self.waiting.lock().is_closed
    }

    /// Sends what was handed over. Returns what must be sent again.
    fn send(&self, handed: Vec<Arc<Handed>>) -> Vec<Arc<Handed>> {
        let (over, mut handed): (Vec<_>, Vec<_>) =
            handed.into_iter().partition(|one| one.owned.is_over());
        for one in over {
            one.answers(Err(JournalError::Fenced));
        }
        let time = self.time.now();
        let appends: Vec<_> = handed.iter().map(|one| one.append(time)).collect();
        match self.engine.commit(&appends) {
            Ok(kept) => {
                for (at, one) in handed.iter().enumerate() {
                    one.answers(match kept.get(at) {
                        Some(true) => Ok(()),
                        _ => Err(JournalError::Fenced),
                    });
                }
                Vec::new()
            }
            Err(error @ EngineError::Refused(_)) => refuse(&handed, error),
            Err(EngineError::Statement {
                slot,
                statement,
                source,
            }) => {
                let of = |one: &Arc<Handed>| one.owned.slot == slot;
                let Some(place) = handed.iter().position(of) else {
                    let why = format!("it names {slot}, of which it got nothing");
                    return refuse(&handed, EngineError::refused(why));
                };
                let failed = handed.remove(place);
                failed.answers(Err(JournalError::Statement { statement, source }));
                handed
            }
            Err(EngineError::Unknown(_)) => self.resolve(handed),
        }
    }

    /// Finds out what is in the logs, by a write: from the acknowledgment of a claim on, no earlier request can change the log,
    /// and all that it has is durable. A read would prove nothing. Returns what is not in the logs.
    fn resolve(&self, mut unknown: Vec<Arc<Handed>>) -> Vec<Arc<Handed>> {
        let mut gone = Vec::new();
        while !unknown.is_empty() {
            unknown.retain(|one| match self.resolve_one(one) {
                Ok(Resolved::Kept) => {
                    one.answers(Ok(()));
                    false
                }
                Ok(Resolved::Gone) => {
                    gone.push(Arc::clone(one));
                    false
                }
                Ok(Resolved::Fenced) => {
                    one.answers(Err(JournalError::Fenced));
                    false
                }
                Err(_) if self.is_closed() => {
                    one.answers(Err(JournalError::Closed));
                    false
                }
                Err(_) => true,
            });
            if !unknown.is_empty() {
                sleep(AGAIN);
            }
        }
        gone
    }

    fn resolve_one(&self, one: &Handed) -> Result<Resolved, EngineError> {
        let owned = &one.owned;
        if owned.is_over() {
            return Ok(Resolved::Fenced);
        }
        let time = self.time.now();
        // The slot holds what this node can write since the first claim.
        let claim = Claim::new(owned.slot, owned.term(), &owned.incarnation, time);
        let Some(claimed) = self.engine.claim(&claim)? else {
            return Ok(Resolved::Fenced);
        };
        owned.lease.set_term(claimed.term);
        Ok(match claimed.last >= one.last() {
            true => Resolved::Kept,
            false => Resolved::Gone,
        })
    }
}

/// Nothing is sent again.
fn refuse(handed: &[Arc<Handed>], error: EngineError) -> Vec<Arc<Handed>> {
    let error = JournalError::Other(Arc::new(error));
    for one in handed {
        one.answers(Err(error.clone()));
    }
    Vec::new()
}

enum Resolved {
    /// The bodies are in the log.
    Kept,
    /// The bodies are not in the log, and never will be.
    Gone,
    /// Another node has the slot.
    Fenced,
}

/// The log of a slot.
pub(crate) struct SlotStore {
    pub(crate) owned: Arc<Owned>,
    pub(crate) commits: Arc<Commits>,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) time: Arc<ClusterTime>,
}

impl Drop for SlotStore {
    fn drop(&mut self) {
        *self.owned.closed.lock() = true;
        self.owned.closes.notify_all();
    }
}

impl LogStore for SlotStore {
    fn last(&self) -> u64 {
        self.owned.last
    }

    fn append(
        &mut self,
        bodies: Vec<Vec<u8>>,
        statements: Vec<(usize, Statement)>,
    ) -> Result<Vec<u64>, JournalError> {
        let first = self.owned.used.load(Ordering::Acquire) + 1;
        let numbered: Vec<_> = (first..).zip(bodies).collect();
        let numbers: Vec<_> = numbered.iter().map(|(number, _)| *number).collect();
        let Some(last) = numbers.last() else {
            return Ok(numbers);
        };
        self.owned.used.store(*last, Ordering::Release);
        self.commits.commit(&self.owned, numbered, statements)?;
        Ok(numbers)
    }

    fn load(&mut self, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, JournalError> {
        let loaded = self.engine.load(self.owned.slot, from, to);
        loaded.map_err(|error| JournalError::Other(Arc::new(error)))
    }

    fn delete_until(&mut self, last: u64) -> Result<(), JournalError> {
        let deleted = self
            .engine
            .delete_until(self.owned.slot, self.owned.term(), last);
        deleted.map_err(|error| JournalError::Other(Arc::new(error)))
    }

    fn longest(&self) -> usize {
        LONGEST
    }

    fn damaged(&self, number: u64, what: &'static str) -> JournalError {
        let slot = self.owned.slot;
        let text =
            format!("body {number} of {slot} is damaged: {what}; restore the engine from a backup");
        JournalError::Other(Arc::new(EngineError::refused(text)))
    }

    fn executes(&self) -> Option<TypeId> {
        self.engine.executes()
    }

    fn lease(&self) -> Option<Lease> {
        Some(self.owned.lease.clone())
    }

    fn time(&self) -> Option<Duration> {
        Some(self.time.now())
    }
}
