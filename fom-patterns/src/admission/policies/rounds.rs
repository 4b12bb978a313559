//! Rounds of batches: each member with requests gets a fixed number per round, however many the other members have.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

use fom_protocol::shrink::Shrink as _;
use fom_runtime::{Key, time::Instant};

use crate::admission::{ConfigError, Line, Next, Policy, Request, Tags};

/// The requests of one member of the rounds.
pub(super) trait Batch: Default {
    fn put(&mut self, request: Request);
    fn take(&mut self) -> Option<Request>;
    fn is_empty(&self) -> bool;
    /// Notes that the member's turn is over: the next turn begins from zero.
    fn turned(&mut self) {}
}

impl Batch for Line {
    fn put(&mut self, request: Request) {
        self.put(request);
    }
    fn take(&mut self) -> Option<Request> {
        self.take()
    }
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

/// Members take turns by (round, order of arrival in the round). A member that skipped a round joins the current round,
/// with neither credit nor debt. A member that has used up its turn of this round waits for the next, also if its queue
/// was empty meanwhile.
#[derive(Debug)]
pub(super) struct Rounds<M, B> {
    quantum: usize,
    members: HashMap<M, Member<B>>,
    /// Members that have requests.
    turns: BTreeMap<(u64, u64), M>,
    round: u64,
    next: u64,
}

#[derive(Debug, Default)]
struct Member<B> {
    batch: B,
    round: u64,
    /// The member's place in the round.
    order: u64,
    /// The used part of the quantum.
    used: usize,
}

impl<M: Clone + Eq + Hash, B: Batch> Rounds<M, B> {
    pub(super) fn new(quantum: usize) -> Result<Self, ConfigError> {
        if quantum == 0 {
            return Err(ConfigError::Zero("quantum"));
        }
        Ok(Self {
            quantum,
            members: HashMap::new(),
            turns: BTreeMap::new(),
            round: 0,
            next: 0,
        })
    }

    pub(super) fn put(&mut self, member: &M, request: Request) {
        if !self.members.contains_key(member) {
            self.members.insert(member.clone(), Member::default());
        }
        let Some(it) = self.members.get_mut(member) else {
            return;
        };
        if it.batch.is_empty() {
            if it.round < self.round {
                it.round = self.round;
                it.used = 0;
            }
            it.order = self.next;
            self.next += 1;
            self.turns.insert((it.round, it.order), member.clone());
        }
        it.batch.put(request);
    }

    pub(super) fn take(&mut self) -> Option<Request> {
        let (&turn, member) = self.turns.first_key_value()?;
        let it = self.members.get_mut(member)?;
        let request = it.batch.take();
        it.used += 1;
        let (over, empty) = (it.used >= self.quantum, it.batch.is_empty());
        if over {
            it.round += 1;
            it.used = 0;
            it.batch.turned();
        }
        if over || empty {
            let member = self.turns.remove(&turn)?;
            if !empty {
                it.order = self.next;
                self.next += 1;
                self.turns.insert((it.round, it.order), member);
            }
        }
        self.go_to(turn.0);
        request
    }

    /// Goes to this round. Forgets members that are idle and owe the round nothing.
    fn go_to(&mut self, round: u64) {
        if round > self.round {
            self.round = round;
            self.members
                .retain(|_, it| !it.batch.is_empty() || it.round >= round);
            self.members.shrink();
        }
    }

    /// Calls `f` with the batch of a member. The batch may be empty after that.
    pub(super) fn with<R>(&mut self, member: &M, f: impl FnOnce(&mut B) -> R) -> Option<R> {
        let it = self.members.get_mut(member)?;
        let done = f(&mut it.batch);
        if it.batch.is_empty() {
            self.turns.remove(&(it.round, it.order));
        }
        Some(done)
    }

    pub(super) fn batches(&self) -> impl Iterator<Item = (&M, &B)> {
        self.members.iter().map(|(member, it)| (member, &it.batch))
    }
}

/// Clients take turns, each with a quantum of requests. Each client's requests go first in, first out.
///
/// Works like Lustre's client round-robin over NIDs (CRR-N), with batches in rounds. A client that skipped rounds joins
/// the current round, and has saved nothing up. Sheds the newest request of the client with the most requests. Memory:
/// the queued requests, and the clients of one round.
#[derive(Debug)]
pub struct ClientRoundRobin {
    rounds: Rounds<Option<Key>, Line>,
    name: String,
}

impl ClientRoundRobin {
    /// Creates the policy, with `quantum` requests per turn. Lustre uses 8 (CRR-N) and 256 (by object).
    ///
    /// # Errors
    ///
    /// Fails with [`ConfigError::Zero`] if `quantum` is zero.
    pub fn new(quantum: usize) -> Result<Self, ConfigError> {
        Ok(Self {
            rounds: Rounds::new(quantum)?,
            name: format!("crr quantum={quantum}"),
        })
    }
}

impl Policy for ClientRoundRobin {
    fn name(&self) -> &str {
        &self.name
    }

    fn enqueue(&mut self, request: Request, _: Instant) -> Result<(), Request> {
        let client = request.client().cloned();
        self.rounds.put(&client, request);
        Ok(())
    }

    fn get(&mut self, _: Instant, _: bool) -> Next {
        self.rounds.take().map_or(Next::Empty, Next::Request)
    }

    fn remove(&mut self, request: &Tags) -> Option<Request> {
        let client = request.client().cloned();
        self.rounds
            .with(&client, |line| line.remove(request.number()))?
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Tags)) {
        for (_, line) in self.rounds.batches() {
            line.iter().for_each(&mut *visitor);
        }
    }

    fn victim(&mut self) -> Option<Request> {
        let most = self.rounds.batches().max_by_key(|(_, line)| line.len());
        let client = most.map(|(client, _)| client.clone())?;
        self.rounds.with(&client, Line::take_last)?
    }
}
