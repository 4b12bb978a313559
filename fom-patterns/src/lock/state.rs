//! The holders and the queue of a lock: plain data under the lock's mutex. Nothing in here calls other code. The caller
//! gets the wakers to wake and the values to drop, and handles them without the mutex.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, hash_map},
    hash::{BuildHasherDefault, Hasher},
    task::Waker,
};

use fom_protocol::{caught, nanos};
use fom_runtime::time::Instant;

use crate::lock::{
    LockMode, LockStats,
    owner::{Owner, OwnerId},
};

/// A holder of the lock.
pub(super) struct Hold {
    pub(super) owner: Owner,
    pub(super) mode: LockMode,
    /// The number of this request for the lock.
    pub(super) ticket: u64,
    since: Instant,
    /// How long the holder waited for the lock.
    pub(super) waited: u64,
}

/// A waiter for the lock.
pub(super) struct Waiter {
    pub(super) owner: Owner,
    pub(super) mode: LockMode,
    waker: Waker,
    since: Instant,
}

/// The result of a request.
pub(super) enum Asked {
    Granted,
    /// The owner already has the lock in this mode.
    Again(LockMode),
    Busy(Owner),
}

/// Work that a change leaves to be done without the mutex, because it may run users' code.
#[derive(Default)]
#[must_use = "to be done without the mutex"]
pub(super) struct Left {
    /// Wakers to wake.
    wakers: Vec<Waker>,
    /// Values to drop.
    gone: Option<(Owner, Option<Waker>)>,
}

impl Left {
    pub(super) fn settle(self) {
        for waker in self.wakers {
            // A waker that panics is the user's. The waiters behind it are still woken, and the panic's message was
            // printed.
            let _ = caught(|| waker.wake());
        }
        let gone = self.gone;
        let _ = caught(|| drop(gone));
    }
}

#[derive(Default)]
pub(super) struct State {
    holders: Holders,
    /// By ticket, which is the order of the requests.
    queue: BTreeMap<u64, Waiter>,
    /// The tickets in the queue that ask to write, so that a search among many readers finds them.
    writers: BTreeSet<u64>,
    tickets: u64,
    stats: LockStats,
}

impl State {
    fn next_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Takes the lock, if no request waits and the holders allow it.
    pub(super) fn ask(&mut self, owner: Owner, mode: LockMode) -> Asked {
        if let Some(held) = self.holders.get(owner.id()) {
            return Asked::Again(held.mode);
        }
        if !self.queue.is_empty() || !self.holders.allow(mode) {
            return Asked::Busy(owner);
        }
        let (ticket, since) = (self.next_ticket(), owner.now());
        self.grant(owner, mode, ticket, since, 0);
        Asked::Granted
    }

    fn grant(&mut self, owner: Owner, mode: LockMode, ticket: u64, since: Instant, waited: u64) {
        match mode {
            LockMode::Read => self.stats.reads += 1,
            LockMode::Write => self.stats.writes += 1,
        }
        let hold = Hold {
            owner,
            mode,
            ticket,
            since,
            waited,
        };
        self.holders.insert(hold);
    }

    /// Queues the request behind all others. Returns its ticket, which identifies the request.
    pub(super) fn queue(&mut self, owner: Owner, mode: LockMode, waker: Waker) -> u64 {
        let ticket = self.next_ticket();
        let since = owner.now();
        let waiter = Waiter {
            owner,
            mode,
            waker,
            since,
        };
        if mode == LockMode::Write {
            self.writers.insert(ticket);
        }
        self.queue.insert(ticket, waiter);
        ticket
    }

    /// Returns the waker of this ticket, if the request still waits.
    pub(super) fn waker(&mut self, ticket: u64) -> Option<&mut Waker> {
        Some(&mut self.queue.get_mut(&ticket)?.waker)
    }

    /// Gives up a wait. Returns how long it was, or `None` if the lock was granted.
    pub(super) fn give_up(&mut self, ticket: u64, left: &mut Left) -> Option<u64> {
        let waiter = self.queue.remove(&ticket)?;
        self.writers.remove(&ticket);
        let waited = nanos(waiter.owner.now() - waiter.since);
        self.stats.waited(waited);
        self.stats.given_up += 1;
        left.gone = Some((waiter.owner, Some(waiter.waker)));
        self.grant_next(left);
        Some(waited)
    }

    /// Gives the lock back.
    pub(super) fn release(&mut self, owner: OwnerId, left: &mut Left) {
        let Some(hold) = self.holders.remove(owner) else {
            return;
        };
        self.stats.held(nanos(hold.owner.now() - hold.since));
        left.gone = Some((hold.owner, None));
        self.grant_next(left);
    }

    /// Gives the hold of one owner to another owner. Returns the previous owner, which must be dropped without the
    /// mutex.
    pub(super) fn hand_over(&mut self, from: OwnerId, to: Owner) -> Option<Owner> {
        let mut hold = self.holders.remove(from)?;
        let before = std::mem::replace(&mut hold.owner, to);
        self.holders.insert(hold);
        Some(before)
    }

    /// Grants the lock to the front of the queue, to as many as can have it together.
    fn grant_next(&mut self, left: &mut Left) {
        while let Some(next) = self.queue.first_entry()
            && self.holders.allow(next.get().mode)
        {
            let (ticket, waiter) = next.remove_entry();
            self.writers.remove(&ticket);
            let now = waiter.owner.now();
            let waited = nanos(now - waiter.since);
            self.stats.waited(waited);
            self.grant(waiter.owner, waiter.mode, ticket, now, waited);
            left.wakers.push(waiter.waker);
        }
    }

    pub(super) fn holder(&self, owner: OwnerId) -> Option<&Hold> {
        self.holders.get(owner)
    }

    pub(super) fn holders(&self) -> impl Iterator<Item = &Hold> {
        self.holders.all()
    }

    /// Returns the holders that keep a waiter in this mode from the lock. All holders have the same mode, so either all
    /// of them conflict or none.
    pub(super) fn conflicting(&self, mode: LockMode) -> impl Iterator<Item = &Hold> {
        self.holders()
            .take_while(move |hold| mode.conflicts(hold.mode))
    }

    /// Returns the nearest waiter in front of this ticket that asks to write, with its ticket.
    pub(super) fn writer_before(&self, ticket: u64) -> Option<(u64, &Waiter)> {
        let writer = *self.writers.range(..ticket).next_back()?;
        Some((writer, self.queue.get(&writer)?))
    }

    /// Returns the waiter with this ticket, if it still waits.
    pub(super) fn waiter(&self, ticket: u64) -> Option<&Waiter> {
        self.queue.get(&ticket)
    }

    /// Returns the waiters in front of this ticket with their tickets, the next first.
    pub(super) fn before(&self, ticket: u64) -> impl DoubleEndedIterator<Item = (u64, &Waiter)> {
        let before = self.queue.range(..ticket);
        before.map(|(ticket, waiter)| (*ticket, waiter))
    }

    /// Returns the statistics, with the waits and holds of now.
    pub(super) fn stats(&self) -> LockStats {
        let mut stats = self.stats;
        for waiter in self.queue.values() {
            stats.waited(nanos(waiter.owner.now() - waiter.since));
        }
        for hold in self.holders() {
            stats.held(nanos(hold.owner.now() - hold.since));
        }
        stats.holders = self.holders.count();
        stats.waiters = self.queue.len();
        stats
    }
}

/// The holders: a writer alone, or readers. A single holder is the usual case and needs no table.
#[derive(Default)]
struct Holders {
    first: Option<Hold>,
    others: HashMap<OwnerId, Hold, BuildHasherDefault<ByNumber>>,
}

impl Holders {
    fn allow(&self, mode: LockMode) -> bool {
        let any = self.all().next();
        match mode {
            LockMode::Read => any.is_none_or(|hold| hold.mode == LockMode::Read),
            LockMode::Write => any.is_none(),
        }
    }

    fn get(&self, owner: OwnerId) -> Option<&Hold> {
        match &self.first {
            Some(first) if first.owner.id() == owner => Some(first),
            _ if self.others.is_empty() => None,
            _ => self.others.get(&owner),
        }
    }

    fn insert(&mut self, hold: Hold) {
        if self.first.is_none() {
            self.first = Some(hold);
        } else {
            self.others.insert(hold.owner.id(), hold);
        }
    }

    fn remove(&mut self, owner: OwnerId) -> Option<Hold> {
        match &self.first {
            Some(first) if first.owner.id() == owner => self.first.take(),
            _ => self.others.remove(&owner),
        }
    }

    fn count(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    fn all(&self) -> impl Iterator<Item = &Hold> {
        let others: hash_map::Values<'_, _, _> = self.others.values();
        self.first.iter().chain(others)
    }
}

/// Hashes owner ids. No code outside can choose these numbers, so it is enough to spread their bits.
#[derive(Default)]
struct ByNumber(u64);

impl Hasher for ByNumber {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        let spread = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }
}
