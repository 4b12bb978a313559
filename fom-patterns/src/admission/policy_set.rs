//! The policies of an intake: the policy in use, the policies that are being emptied, and the first-in-first-out queue
//! behind them all.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use fom_protocol::{panic_message, sync::atomic::Ordering};
use fom_runtime::Runtime;

use crate::admission::{
    Fifo, Next, Nudge, Policy, PolicyStatus, Request, Tags, waiting_request::Entry,
};

pub(super) struct PolicySet {
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
        match catch_unwind(AssertUnwindSafe(|| f(&mut *self.policy))) {
            Ok(done) => Some(done),
            Err(panic) => {
                self.broken = true;
                runtime.report(format!(
                    "an admission policy panicked, and was removed: {}",
                    panic_message(panic)
                ));
                None
            }
        }
    }
}

/// The choice of all policies together.
pub(super) enum Choice {
    /// This request, from the policy with this number.
    Request(Request, u64),
    Throttled(Duration),
    Empty,
}

impl PolicySet {
    pub(super) fn new() -> Self {
        Self {
            slots: vec![Slot::new(0, Box::new(Fifo::new()))],
            turn: 0,
            next_number: 1,
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.slots.iter().map(|slot| slot.queued).sum()
    }

    /// Puts a new policy into use, for all requests from now on.
    pub(super) fn change(&mut self, runtime: &Runtime, policy: Box<dyn Policy>, nudge: Nudge) {
        let mut slot = Slot::new(self.next_number, policy);
        self.next_number += 1;
        slot.call(runtime, |policy| policy.attached(nudge));
        self.slots.push(slot);
        self.sweep(runtime);
    }

    /// Gives a request to the policy in use. A declined request goes to the policy behind all others.
    pub(super) fn enqueue(&mut self, runtime: &Runtime, request: Request, now: Duration) {
        let last = self.slots.len() - 1;
        let slot = &mut self.slots[last];
        if last > 0 {
            request.entry().slot().store(slot.number, Ordering::Relaxed);
            // Counted before the call: a request that the policy drops is subtracted when it comes back.
            slot.queued += 1;
            match slot.call(runtime, |policy| policy.enqueue(request, now)) {
                Some(Err(declined)) => {
                    slot.queued -= 1;
                    slot.declined += 1;
                    self.fall(runtime, declined, now);
                }
                Some(Ok(())) | None => self.sweep(runtime),
            }
        } else {
            self.fall(runtime, request, now);
        }
    }

    /// Puts a request into the queue behind all policies.
    fn fall(&mut self, runtime: &Runtime, request: Request, now: Duration) {
        let slot = &mut self.slots[0];
        request.entry().slot().store(slot.number, Ordering::Relaxed);
        slot.queued += 1;
        // The intake's own policy, which takes every request.
        slot.call(runtime, |policy| drop(policy.enqueue(request, now)));
    }

    /// Takes back a request that a policy has dropped.
    pub(super) fn fallen(&mut self, runtime: &Runtime, request: Request, now: Duration) {
        self.one_less(request.entry());
        self.fall(runtime, request, now);
        self.sweep(runtime);
    }

    fn index_of(&self, entry: &Arc<dyn Entry>) -> Option<usize> {
        let number = entry.slot().load(Ordering::Relaxed);
        self.slots.iter().position(|slot| slot.number == number)
    }

    pub(super) fn one_less(&mut self, entry: &Arc<dyn Entry>) {
        if let Some(index) = self.index_of(entry) {
            let queued = &mut self.slots[index].queued;
            *queued = queued.saturating_sub(1);
        }
    }

    /// Returns the next request. Policies with requests take turns.
    pub(super) fn next(&mut self, runtime: &Runtime, now: Duration, force: bool) -> Choice {
        let mut until: Option<Duration> = None;
        let count = self.slots.len();
        for index in (self.turn..count).chain(0..self.turn.min(count)) {
            let slot = &mut self.slots[index];
            if slot.queued == 0 || slot.broken {
                continue;
            }
            match slot.call(runtime, |policy| policy.get(now, force)) {
                Some(Next::Request(request)) => {
                    slot.queued -= 1;
                    slot.started += 1;
                    let number = slot.number;
                    self.turn = index + 1;
                    self.sweep(runtime);
                    return Choice::Request(request, number);
                }
                Some(Next::Throttled(at)) if !force => {
                    until = Some(until.map_or(at, |until| until.min(at)));
                }
                Some(Next::Empty) if !force => {}
                Some(_) => {
                    slot.broken = true;
                    runtime
                        .report("an admission policy did not return its requests, and was removed");
                }
                None => {}
            }
        }
        self.sweep(runtime);
        until.map_or(Choice::Empty, Choice::Throttled)
    }

    /// Removes policies that are broken, or empty and not in use. The requests that they drop come back as fallen.
    fn sweep(&mut self, runtime: &Runtime) {
        let last = self.slots.len() - 1;
        let over = |index: usize, slot: &Slot| {
            index > 0 && (slot.broken || index < last && slot.queued == 0)
        };
        if !self.slots.iter().enumerate().any(|(i, slot)| over(i, slot)) {
            return;
        }
        let (mut gone, mut kept) = (Vec::new(), Vec::new());
        for (index, slot) in mem::take(&mut self.slots).into_iter().enumerate() {
            if over(index, &slot) {
                gone.push(slot);
            } else {
                kept.push(slot);
            }
        }
        self.slots = kept;
        self.turn = 0;
        for slot in gone {
            discard(runtime, slot.policy);
        }
    }

    /// Drops all policies. Their requests come back as fallen.
    pub(super) fn clear(&mut self, runtime: &Runtime) {
        let old = mem::replace(self, Self::new());
        self.next_number = old.next_number;
        for slot in old.slots {
            discard(runtime, slot.policy);
        }
    }

    /// Takes a request out of its policy.
    pub(super) fn remove(&mut self, runtime: &Runtime, entry: &Arc<dyn Entry>) -> Option<Request> {
        let index = self.index_of(entry)?;
        let slot = &mut self.slots[index];
        let request = slot
            .call(runtime, |policy| policy.remove(entry.tags()))
            .flatten();
        if request.is_some() {
            slot.queued = slot.queued.saturating_sub(1);
        }
        self.sweep(runtime);
        request
    }

    /// Returns a request to shed, from the policy in use or from a policy that is being emptied.
    pub(super) fn victim(&mut self, runtime: &Runtime) -> Option<Request> {
        let mut found = None;
        for slot in self.slots.iter_mut().rev() {
            if slot.queued > 0 {
                found = slot.call(runtime, |policy| policy.victim()).flatten();
            }
            if found.is_some() {
                slot.queued -= 1;
                break;
            }
        }
        self.sweep(runtime);
        found
    }

    pub(super) fn promote(&mut self, runtime: &Runtime, entry: &Arc<dyn Entry>) {
        if let Some(index) = self.index_of(entry) {
            self.slots[index].call(runtime, |policy| policy.promote(entry.tags()));
            self.sweep(runtime);
        }
    }

    pub(super) fn ended(&mut self, runtime: &Runtime, number: u64, tags: &Tags) {
        let found = self.slots.iter_mut().find(|slot| slot.number == number);
        if let Some(slot) = found {
            slot.call(runtime, |policy| policy.ended(tags));
            self.sweep(runtime);
        }
    }

    /// Visits every request of every policy.
    pub(super) fn visit(&mut self, runtime: &Runtime, mut visitor: impl FnMut(&Tags)) {
        for slot in &mut self.slots {
            slot.call(runtime, |policy| policy.visit(&mut visitor));
        }
        self.sweep(runtime);
    }

    pub(super) fn status(&mut self, runtime: &Runtime) -> Vec<PolicyStatus> {
        let last = self.slots.len() - 1;
        let status = |(index, slot): (usize, &mut Slot)| PolicyStatus {
            name: slot
                .call(runtime, |policy| policy.name().to_owned())
                .unwrap_or_default(),
            queued: slot.queued,
            started: slot.started,
            declined: slot.declined,
            in_use: index == last,
        };
        let all = self.slots.iter_mut().enumerate().map(status).collect();
        self.sweep(runtime);
        all
    }
}

/// Drops a policy. The drop can be user code, too.
fn discard(runtime: &Runtime, policy: Box<dyn Policy>) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(policy))) {
        runtime.report(format!(
            "an admission policy panicked while it was dropped: {}",
            panic_message(panic)
        ));
    }
}
