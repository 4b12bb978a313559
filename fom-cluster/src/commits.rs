//! The commits of all slots of a node. What the slots hand over while a request is under way goes with the next one. Two threads
//! take turns: while one answers the slots, the other sends the next request.

use std::{
    any::TypeId,
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fom_journal::{Committed, JournalError, Lease, Statement, log::LogStore};
use fom_protocol::{
    schedule::spawn,
    sync::{Condvar, Mutex, block_on, sleep},
};
use tokio::sync::oneshot;

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
    /// Notified when something is handed over, when a thread has sent, and when the node ends.
    todo: Condvar,
}

/// What has been handed over and not been sent.
#[derive(Default)]
struct Waiting {
    handed: Vec<Handed>,
    /// Whether a thread sends.
    is_sending: bool,
    is_closed: bool,
}

/// Bodies of one slot that were handed over.
struct Handed {
    owned: Arc<Owned>,
    bodies: Arc<Vec<(u64, Vec<u8>)>>,
    statements: Arc<Vec<(usize, Statement)>>,
    done: Committed,
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

    fn answers(self, answer: Result<(), JournalError>) {
        if matches!(answer, Err(JournalError::Fenced)) {
            self.owned.lease.lose();
        }
        (self.done)(answer);
    }
}

/// Bodies, and whether the log has them.
type Answered = (Handed, Result<(), JournalError>);

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
            todo: Condvar::default(),
        })
    }

    /// Starts the threads that commit.
    ///
    /// # Errors
    ///
    /// Fails if a thread cannot be created.
    pub(crate) fn start(self: &Arc<Self>) -> std::io::Result<()> {
        for _ in 0..2 {
            let commits = Arc::clone(self);
            spawn("fom-commits", move || commits.run()).inspect_err(|_| self.close())?;
        }
        Ok(())
    }

    /// Commits until the node ends.
    fn run(&self) {
        loop {
            let mut handed = self.next();
            if handed.is_empty() {
                return;
            }
            let mut answers = Vec::new();
            while !handed.is_empty() {
                handed = self.send(handed, &mut answers);
            }
            self.waiting.lock().is_sending = false;
            self.todo.notify_one();
            for (one, answer) in answers {
                one.answers(answer);
            }
        }
    }

    /// Waits for bodies that this thread sends. Returns none when the node has ended.
    fn next(&self) -> Vec<Handed> {
        let mut waiting = self.waiting.lock();
        while waiting.is_sending || waiting.handed.is_empty() && !waiting.is_closed {
            waiting = self.todo.wait(waiting);
        }
        waiting.is_sending = !waiting.handed.is_empty();
        mem::take(&mut waiting.handed)
    }

    /// Hands bodies over. `done` learns whether they are in the log.
    ///
    /// # Errors
    ///
    /// Returns `done` if the node has ended.
    fn hand_over(
        &self,
        owned: &Arc<Owned>,
        bodies: Vec<(u64, Vec<u8>)>,
        statements: Vec<(usize, Statement)>,
        done: Committed,
    ) -> Result<(), Committed> {
        let handed = Handed {
            owned: Arc::clone(owned),
            bodies: Arc::new(bodies),
            statements: Arc::new(statements),
            done,
        };
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return Err(handed.done);
        }
        waiting.handed.push(handed);
        drop(waiting);
        self.todo.notify_one();
        Ok(())
    }

    /// Commits bodies. Blocks until it is known whether they are in the log.
    fn commit(
        &self,
        owned: &Arc<Owned>,
        bodies: Vec<(u64, Vec<u8>)>,
        statements: Vec<(usize, Statement)>,
    ) -> Result<(), JournalError> {
        let (tell, told) = oneshot::channel();
        let done = Box::new(move |result| {
            // The receiver waits below.
            let _ = tell.send(result);
        });
        // If the node has ended, `done` is dropped here, and the wait is over.
        let _ = self.hand_over(owned, bodies, statements, done);
        block_on(told).unwrap_or(Err(JournalError::Closed))
    }

    /// Ends all commits.
    pub(crate) fn close(&self) {
        self.waiting.lock().is_closed = true;
        self.todo.notify_all();
    }

    fn is_closed(&self) -> bool {
        self.waiting.lock().is_closed
    }

    /// Sends what was handed over. Returns what must be sent again. If the engine has answered at once, adds the answers to
    /// `answers`. Otherwise it gives them.
    fn send(&self, handed: Vec<Handed>, answers: &mut Vec<Answered>) -> Vec<Handed> {
        let (over, mut handed): (Vec<_>, Vec<_>) =
            handed.into_iter().partition(|one| one.owned.is_over());
        for one in over {
            one.answers(Err(JournalError::Fenced));
        }
        let time = self.time.now();
        let appends: Vec<_> = handed.iter().map(|one| one.append(time)).collect();
        match self.engine.commit(&appends) {
            Ok(kept) => {
                for (at, one) in handed.into_iter().enumerate() {
                    let answer = match kept.get(at) {
                        Some(true) => Ok(()),
                        _ => Err(JournalError::Fenced),
                    };
                    answers.push((one, answer));
                }
                Vec::new()
            }
            Err(error @ EngineError::Refused(_)) => refuse(handed, error),
            Err(EngineError::Statement {
                slot,
                statement,
                source,
            }) => {
                let of = |one: &Handed| one.owned.slot == slot;
                let Some(place) = handed.iter().position(of) else {
                    let why = format!("it names {slot}, of which it got nothing");
                    return refuse(handed, EngineError::refused(why));
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
    fn resolve(&self, mut unknown: Vec<Handed>) -> Vec<Handed> {
        let mut gone = Vec::new();
        while !unknown.is_empty() {
            for one in mem::take(&mut unknown) {
                match self.resolve_one(&one) {
                    Ok(Resolved::Kept) => one.answers(Ok(())),
                    Ok(Resolved::Gone) => gone.push(one),
                    Ok(Resolved::Fenced) => one.answers(Err(JournalError::Fenced)),
                    Err(_) if self.is_closed() => one.answers(Err(JournalError::Closed)),
                    Err(_) => unknown.push(one),
                }
            }
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
fn refuse(handed: Vec<Handed>, error: EngineError) -> Vec<Handed> {
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

impl SlotStore {
    /// Returns the numbers of new bodies, and the bodies with them.
    fn number(&self, bodies: Vec<Vec<u8>>) -> (Vec<u64>, Vec<(u64, Vec<u8>)>) {
        let first = self.owned.used.load(Ordering::Acquire) + 1;
        let numbered: Vec<_> = (first..).zip(bodies).collect();
        let numbers: Vec<_> = numbered.iter().map(|(number, _)| *number).collect();
        if let Some(last) = numbers.last() {
            self.owned.used.store(*last, Ordering::Release);
        }
        (numbers, numbered)
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
        let (numbers, numbered) = self.number(bodies);
        if !numbers.is_empty() {
            self.commits.commit(&self.owned, numbered, statements)?;
        }
        Ok(numbers)
    }

    fn appends_later(&self) -> bool {
        true
    }

    fn append_later(
        &mut self,
        bodies: Vec<Vec<u8>>,
        statements: Vec<(usize, Statement)>,
        done: Committed,
    ) -> Result<Vec<u64>, Committed> {
        if bodies.is_empty() {
            return Err(done);
        }
        let (numbers, numbered) = self.number(bodies);
        self.commits
            .hand_over(&self.owned, numbered, statements, done)?;
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
