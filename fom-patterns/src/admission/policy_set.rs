//! The policies of an intake: the policy in use, the policies that are being emptied, and the first-in-first-out queue
//! behind them all.

use std::mem;

use fom_protocol::{caught, sync::atomic::Ordering};
use fom_runtime::{Runtime, observe::IncidentKind, time::Instant};

use crate::admission::{
    Fifo, Next, Nudge, Policy, PolicyStatus, Request, Tags, waiting_request::WaitingRequest,
};

pub(super) struct PolicySet {
    runtime: Runtime,
    /// The first is the policy behind all others. The last is the policy in use, if that is another one.
    slots: Vec<Slot>,
    /// The index of the next slot in turn.
    turn: usize,
    next_number: u64,
}

struct Slot {
    number: u64,
    policy: Box<dyn Policy>,
    /// The number of requests, counted here because a policy may say anything.
    queued: usize,
    started: u64,
    declined: u64,
    /// The policy has panicked, or does not give its requests.
    broken: bool,
}

impl Slot {
    fn new(number: u64, policy: Box<dyn Policy>) -> Self {
        Self {
            number,
            policy,
            queued: 0,
            started: 0,
            declined: 0,
            broken: false,
        }
    }

    /// Calls the policy, which can be user code. Returns `None` if the policy panics, or is broken.
    fn call<R>(&mut self, runtime: &Runtime, f: impl FnOnce(&mut dyn Policy) -> R) -> Option<R> {
        if self.broken {
            return None;
        }
        match caught(|| f(&mut *self.policy)) {
            Ok(done) => Some(done),
            Err(panic) => {
                self.broken = true;
                runtime.report(
                    IncidentKind::Panicked,
                    "an admission policy",
                    format!("an admission policy panicked, and was removed: {panic}"),
                );
                None
            }
        }
    }
}

impl PolicySet {
    pub(super) fn new(runtime: &Runtime) -> Self {
        Self {
            runtime: runtime.detached(),
            slots: vec![Slot::new(0, Box::new(Fifo::new()))],
            turn: 0,
            next_number: 1,
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.slots.iter().map(|slot| slot.queued).sum()
    }

    /// Puts a new policy into use, for all requests from now on.
    pub(super) fn change(&mut self, policy: Box<dyn Policy>, nudge: Nudge) {
        let mut slot = Slot::new(self.next_number, policy);
        self.next_number += 1;
        slot.call(&self.runtime, |policy| policy.attached(nudge));
        self.slots.push(slot);
        self.sweep();
    }

    /// Gives a request to the policy in use. A declined request goes to the policy behind all others.
    pub(super) fn enqueue(&mut self, request: Request, now: Instant) {
        let last = self.slots.len() - 1;
        let slot = &mut self.slots[last];
        if last > 0 {
            request.set_policy(slot.number);
            // Counted before the call: a request that the policy drops is subtracted when it comes back.
            slot.queued += 1;
            match slot.call(&self.runtime, |policy| policy.enqueue(request, now)) {
                Some(Err(declined)) => {
                    slot.queued -= 1;
                    slot.declined += 1;
                    self.fall(declined, now);
                }
                Some(Ok(())) | None => self.sweep(),
            }
        } else {
            self.fall(request, now);
        }
    }

    /// Puts a request into the queue behind all policies.
    fn fall(&mut self, request: Request, now: Instant) {
        let slot = &mut self.slots[0];
        request.set_policy(slot.number);
        slot.queued += 1;
        // The intake's own policy, which takes every request.
        slot.call(&self.runtime, |policy| drop(policy.enqueue(request, now)));
    }

    /// Takes back a request that a policy has dropped.
    pub(super) fn fallen(&mut self, request: Request, now: Instant) {
        self.one_less(request.waiting());
        self.fall(request, now);
        self.sweep();
    }

    fn index_of(&self, request: &WaitingRequest) -> Option<usize> {
        let number = request.policy.load(Ordering::Relaxed);
        self.slots.iter().position(|slot| slot.number == number)
    }

    pub(super) fn one_less(&mut self, request: &WaitingRequest) {
        if let Some(index) = self.index_of(request) {
            let queued = &mut self.slots[index].queued;
            *queued = queued.saturating_sub(1);
        }
    }

    /// Returns the next request. Policies with requests take turns.
    pub(super) fn next(&mut self, now: Instant, force: bool) -> Next {
        let mut until: Option<Instant> = None;
        let count = self.slots.len();
        for index in (self.turn..count).chain(0..self.turn.min(count)) {
            let slot = &mut self.slots[index];
            if slot.queued == 0 || slot.broken {
                continue;
            }
            match slot.call(&self.runtime, |policy| policy.get(now, force)) {
                Some(Next::Request(request)) => {
                    slot.queued -= 1;
                    slot.started += 1;
                    request.set_policy(slot.number);
                    self.turn = index + 1;
                    self.sweep();
                    return Next::Request(request);
                }
                Some(Next::Throttled(at)) if !force => {
                    until = Some(until.map_or(at, |until| until.min(at)));
                }
                Some(Next::Empty) if !force => {}
                Some(_) => {
                    slot.broken = true;
                    self.runtime.report(
                        IncidentKind::Policy,
                        "an admission policy",
                        "an admission policy did not return its requests, and was removed",
                    );
                }
                None => {}
            }
        }
        self.sweep();
        until.map_or(Next::Empty, Next::Throttled)
    }

    /// Removes policies that are broken, or empty and not in use. The requests that they drop come back as fallen.
    fn sweep(&mut self) {
        let in_use = self.slots[self.slots.len() - 1].number;
        let is_over = |slot: &mut Slot| {
            slot.number != 0 && (slot.broken || slot.queued == 0 && slot.number != in_use)
        };
        let gone: Vec<_> = self.slots.extract_if(.., is_over).collect();
        if gone.is_empty() {
            return;
        }
        self.turn = 0;
        for slot in gone {
            discard(&self.runtime, slot.policy);
        }
    }

    /// Drops all policies. Their requests come back as fallen.
    pub(super) fn clear(&mut self) {
        let new = Self::new(&self.runtime);
        let old = mem::replace(self, new);
        self.next_number = old.next_number;
        for slot in old.slots {
            discard(&self.runtime, slot.policy);
        }
    }

    /// Takes a request out of its policy.
    pub(super) fn remove(&mut self, request: &WaitingRequest) -> Option<Request> {
        let index = self.index_of(request)?;
        let slot = &mut self.slots[index];
        let removed = slot
            .call(&self.runtime, |policy| policy.remove(&request.tags))
            .flatten();
        if removed.is_some() {
            slot.queued = slot.queued.saturating_sub(1);
        }
        self.sweep();
        removed
    }

    /// Returns a request to shed, from the policy in use or from a policy that is being emptied.
    pub(super) fn victim(&mut self) -> Option<Request> {
        let mut found = None;
        for slot in self.slots.iter_mut().rev() {
            if slot.queued > 0 {
                found = slot.call(&self.runtime, |policy| policy.victim()).flatten();
            }
            if found.is_some() {
                slot.queued -= 1;
                break;
            }
        }
        self.sweep();
        found
    }

    pub(super) fn promote(&mut self, request: &WaitingRequest) {
        if let Some(index) = self.index_of(request) {
            self.slots[index].call(&self.runtime, |policy| policy.promote(&request.tags));
            self.sweep();
        }
    }

    /// Promotes the oldest request of a client, among those that their policy can move. Returns whether there was one.
    pub(super) fn promote_client(&mut self, client: &str) -> bool {
        let is_of_client = |tags: &Tags| tags.client().is_some_and(|of| of.to_string() == client);
        let runtime = &self.runtime;
        let moved = self.slots.iter_mut().any(|slot| {
            let mut found = Vec::new();
            slot.call(runtime, |policy| {
                policy.visit(&mut |tags| {
                    if is_of_client(tags) {
                        found.push(tags.copied());
                    }
                });
            });
            found.sort_by_key(Tags::number);
            found
                .iter()
                .any(|tags| slot.call(runtime, |policy| policy.promote(tags)) == Some(true))
        });
        self.sweep();
        moved
    }

    pub(super) fn ended(&mut self, request: &WaitingRequest) {
        if let Some(index) = self.index_of(request) {
            self.slots[index].call(&self.runtime, |policy| policy.ended(&request.tags));
            self.sweep();
        }
    }

    /// Visits every request of every policy.
    pub(super) fn visit(&mut self, mut visitor: impl FnMut(&Tags)) {
        for slot in &mut self.slots {
            slot.call(&self.runtime, |policy| policy.visit(&mut visitor));
        }
        self.sweep();
    }

    pub(super) fn status(&mut self) -> Vec<PolicyStatus> {
        let last = self.slots.len() - 1;
        let status = |(index, slot): (usize, &mut Slot)| PolicyStatus {
            name: slot
                .call(&self.runtime, |policy| policy.name().to_owned())
                .unwrap_or_default(),
            queued: slot.queued,
            started: slot.started,
            declined: slot.declined,
            in_use: index == last,
        };
        let all = self.slots.iter_mut().enumerate().map(status).collect();
        self.sweep();
        all
    }
}

/// Drops a policy. The drop can be user code, too.
fn discard(runtime: &Runtime, policy: Box<dyn Policy>) {
    if let Err(panic) = caught(|| drop(policy)) {
        let incident = format!("an admission policy panicked while it was dropped: {panic}");
        runtime.report(IncidentKind::Panicked, "an admission policy", incident);
    }
}
