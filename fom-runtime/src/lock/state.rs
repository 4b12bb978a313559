//! Who has a lock and who is next: plain data under the lock's mutex. Nothing in here calls anybody: who is to be woken, and what
//! is to be dropped, is handed to the caller, who does it without the mutex.

use std::{
    collections::{BTreeMap, HashMap, hash_map},
    hash::{BuildHasherDefault, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
    task::Waker,
};

use crate::lock::{
    LockMode, LockStats,
    owner::{Owner, OwnerId},
};

/// One who has it.
pub(super) struct Hold {
    pub(super) owner: Owner,
    pub(super) mode: LockMode,
    /// The number of this taking of the lock.
    pub(super) ticket: u64,
    since: u64,
    /// How long it waited before.
    pub(super) waited: u64,
}

/// One who waits for it.
pub(super) struct Waiter {
    pub(super) owner: Owner,
    pub(super) mode: LockMode,
    waker: Waker,
    since: u64,
}

/// What came of asking for it.
pub(super) enum Asked {
    Granted,
    /// It has it in this way already.
    Again(LockMode),
    Busy(Owner),
}

/// What a change leaves to be done without the mutex: all of it may be users' code.
#[derive(Default)]
#[must_use = "to be done without the mutex"]
pub(super) struct Left {
    /// To be woken.
    wakers: Vec<Waker>,
    /// To be dropped.
    gone: Option<(Owner, Option<Waker>)>,
}

impl Left {
    pub(super) fn settle(self) {
        for waker in self.wakers {
            // A waker that panics is one of the user's; those behind it are woken, and the panic's message was printed.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                crate::fom::panic_message(panic);
            }
        }
        let gone = self.gone;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(gone))) {
            crate::fom::panic_message(panic);
        }
    }
}

#[derive(Default)]
pub(super) struct State {
    holders: Holders,
    /// By their tickets, which is the order in which they came.
    queue: BTreeMap<u64, Waiter>,
    tickets: u64,
    stats: LockStats,
}

impl State {
    fn next_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Takes it, if nobody waits and those who have it allow that.
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

    fn grant(&mut self, owner: Owner, mode: LockMode, ticket: u64, since: u64, waited: u64) {
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

    /// Behind everybody who waits. The number to ask and to leave by.
    pub(super) fn queue(&mut self, owner: Owner, mode: LockMode, waker: Waker) -> u64 {
        let ticket = self.next_ticket();
        let since = owner.now();
        let waiter = Waiter {
            owner,
            mode,
            waker,
            since,
        };
        self.queue.insert(ticket, waiter);
        ticket
    }

    /// What wakes the one with this number, if it still waits.
    pub(super) fn waker(&mut self, ticket: u64) -> Option<&mut Waker> {
        Some(&mut self.queue.get_mut(&ticket)?.waker)
    }

    /// Gives up on waiting. None: it was granted.
    pub(super) fn give_up(&mut self, ticket: u64, left: &mut Left) -> Option<u64> {
        let waiter = self.queue.remove(&ticket)?;
        let waited = waiter.owner.now().saturating_sub(waiter.since);
        self.stats.waited(waited);
        self.stats.given_up += 1;
        left.gone = Some((waiter.owner, Some(waiter.waker)));
        self.grant_next(left);
        Some(waited)
    }

    /// Gives it back.
    pub(super) fn release(&mut self, owner: OwnerId, left: &mut Left) {
        let Some(hold) = self.holders.remove(owner) else {
            return;
        };
        self.stats.held(hold.owner.now().saturating_sub(hold.since));
        left.gone = Some((hold.owner, None));
        self.grant_next(left);
    }

    /// Another one has it in the place of this one. Who had it: to be dropped without the mutex.
    pub(super) fn hand_over(&mut self, from: OwnerId, to: Owner) -> Option<Owner> {
        let mut hold = self.holders.remove(from)?;
        let before = std::mem::replace(&mut hold.owner, to);
        self.holders.insert(hold);
        Some(before)
    }

    /// Grants it to those in front, as long as they can have it together.
    fn grant_next(&mut self, left: &mut Left) {
        while let Some(next) = self.queue.first_entry()
            && self.holders.allow(next.get().mode)
        {
            let (ticket, waiter) = next.remove_entry();
            let now = waiter.owner.now();
            let waited = now.saturating_sub(waiter.since);
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

    /// The one with this number, if it still waits.
    pub(super) fn waiter(&self, ticket: u64) -> Option<&Waiter> {
        self.queue.get(&ticket)
    }

    /// All who wait, the next first, with their numbers.
    pub(super) fn waiters(&self) -> impl Iterator<Item = (u64, &Waiter)> {
        self.queue.iter().map(|(ticket, waiter)| (*ticket, waiter))
    }

    /// Those who wait in front of it, the next first.
    pub(super) fn before(&self, ticket: u64) -> impl Iterator<Item = &Waiter> {
        self.queue.range(..ticket).map(|(_, waiter)| waiter)
    }

    pub(super) fn stats(&self) -> LockStats {
        LockStats {
            holders: self.holders.count(),
            waiters: self.queue.len(),
            ..self.stats
        }
    }
}

/// Who has it: a writer alone, or readers. One is the usual case and needs no table.
#[derive(Default)]
struct Holders {
    first: Option<Hold>,
    others: HashMap<OwnerId, Hold, BuildHasherDefault<ByAddress>>,
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

/// Owners are told apart by numbers that nobody outside can choose: spreading their bits is enough.
#[derive(Default)]
struct ByAddress(u64);

impl Hasher for ByAddress {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, number: usize) {
        let spread = (self.0 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }
}
