//! Hands elements to waiting pops, first come first served.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use fom_runtime::submission::EventSender;

use super::{Shard, Side};
use crate::pop::Told;

const OPEN: u8 = 0;
const TAKEN: u8 = 1;
const CLOSED: u8 = 2;

/// Ensures that a pop that waits at several lists gets only one element: the list that hands one over takes the claim
/// first.
#[derive(Debug, Default)]
pub(crate) struct Claim(AtomicU8);

impl Claim {
    /// Takes the claim for a hand-over. Returns `false` if the pop is served already or gone.
    pub(crate) fn take(&self) -> bool {
        self.change(TAKEN)
    }

    /// Closes the claim, for a pop that no longer wants an element. Returns `false` if an element is on its way
    /// already.
    pub(crate) fn close(&self) -> bool {
        self.change(CLOSED)
    }

    fn change(&self, to: u8) -> bool {
        self.0
            .compare_exchange(OPEN, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire) == OPEN
    }
}

/// A pop that waits for an element of a list.
#[derive(Debug)]
pub(crate) struct Popper {
    pub(crate) claim: Arc<Claim>,
    pub(crate) side: Side,
    pub(crate) tell: EventSender<Told>,
    /// True at the last of the lists where the pop waits.
    pub(crate) last: bool,
}

/// An element for a waiting pop.
#[derive(Debug)]
pub(crate) struct Handed {
    pub(crate) key: Bytes,
    pub(crate) value: Bytes,
    pub(crate) side: Side,
    /// The ticket up to which the log must have saved.
    pub(crate) ticket: Option<u64>,
}

/// An element on its way.
pub(super) struct OnItsWay(EventSender<Told>, Handed);

impl OnItsWay {
    pub(super) fn send(self, ticket: Option<u64>) {
        let handed = Handed { ticket, ..self.1 };
        // The pop waits until its claim is closed, and the claim was taken. So the pop is there, unless the runtime
        // ends.
        let _ = self.0.send(Told::Handed(handed));
    }
}

impl Shard {
    /// Takes an element for a pop, or queues the pop here. Earlier waiters go first.
    pub(crate) fn pop_or_wait(
        &mut self,
        key: &[u8],
        popper: Popper,
    ) -> Result<Option<Handed>, crate::wire::Reply> {
        let queue = self.poppers.get(key);
        let others = queue.is_some_and(|queue| queue.iter().any(|other| other.claim.is_open()));
        let empty = self.list(key)?.is_none();
        if empty || others || self.is_locked(key) {
            self.poppers
                .entry(key.into())
                .or_default()
                .push_back(popper);
            return Ok(None);
        }
        if !popper.claim.take() {
            // Another list had an element for it meanwhile.
            return Ok(None);
        }
        let side = popper.side;
        let value = self.pop(key, side)?;
        let ticket = self.settle();
        let key = Bytes::copy_from_slice(key);
        Ok(value.map(|value| Handed {
            key,
            value,
            side,
            ticket,
        }))
    }

    /// Removes the pop with this claim from the queue.
    pub(crate) fn leave(&mut self, key: &[u8], claim: &Arc<Claim>) {
        if let Some(queue) = self.poppers.get_mut(key) {
            queue.retain(|popper| !Arc::ptr_eq(&popper.claim, claim));
            if queue.is_empty() {
                self.poppers.remove(key);
            }
        }
    }

    /// Returns how many pops wait, each counted at the last of its lists.
    pub(crate) fn waiting(&self) -> usize {
        let queues = self.poppers.values().flatten();
        queues.filter(|popper| popper.last).count()
    }

    /// Hands the pushed elements to the waiting pops.
    pub(super) fn hand_over(&mut self) -> Vec<OnItsWay> {
        let mut handed = Vec::new();
        for key in std::mem::take(&mut self.pushed) {
            if self.is_locked(&key) {
                // `unwant` looks at the key again when the transaction is over.
                continue;
            }
            while let Some(popper) = self.next_popper(&key) {
                // There is an element in a list: `next_popper` checked both.
                if let Ok(Some(value)) = self.pop(&key, popper.side) {
                    let handing = Handed {
                        key: Bytes::copy_from_slice(&key),
                        value,
                        side: popper.side,
                        ticket: None,
                    };
                    handed.push(OnItsWay(popper.tell, handing));
                }
            }
        }
        handed
    }

    /// Takes the first pop with an open claim, and its claim, if the list has an element.
    fn next_popper(&mut self, key: &[u8]) -> Option<Popper> {
        if !matches!(self.list(key), Ok(Some(_))) {
            return None;
        }
        let queue = self.poppers.get_mut(key)?;
        let mut next = None;
        while next.is_none()
            && let Some(popper) = queue.pop_front()
        {
            next = popper.claim.take().then_some(popper);
        }
        if queue.is_empty() {
            self.poppers.remove(key);
        }
        next
    }

    /// Takes back an element from a pop after its client has gone.
    pub(crate) fn give_back(&mut self, handed: &Handed) {
        let value = std::iter::once(&handed.value[..]);
        if self.push(&handed.key, handed.side, value).is_err() {
            // The key holds another kind of value by now, so the element has no list to go back to.
            return;
        }
        self.settle();
    }
}
