//! Future events, in the order of time; events at one time are in the order of insertion.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use super::{Nanos, site::Fom};

pub(super) enum Event {
    /// A handler that slept runs.
    Awake { site: usize },
    /// Work at a site is done, unless its processors or threads have changed since.
    Finish { site: usize, version: u64 },
    /// Moved foms arrive.
    Deliver { to: usize, foms: Vec<Fom> },
    /// A borrowed processor is back.
    Back { lender: usize },
    /// Localities look at the share of their processors that they get.
    Look,
}

#[derive(Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<Entry>>,
    count: u64,
}

struct Entry {
    at: Nanos,
    number: u64,
    event: Event,
}

impl Events {
    pub(super) fn at(&mut self, at: Nanos, event: Event) {
        self.count += 1;
        self.heap.push(Reverse(Entry {
            at,
            number: self.count,
            event,
        }));
    }

    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|next| next.0.at)
    }

    pub(super) fn pop(&mut self) -> Option<(Nanos, Event)> {
        self.heap.pop().map(|next| (next.0.at, next.0.event))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}
