//! Counts of foms by what they have in common.

use std::{any::TypeId, collections::BTreeMap};

use crate::{
    clock::elapsed,
    fom::{Header, Pool, WaitKind, WaitingFor},
    graph::Graph,
    id::FomId,
    runtime::observe::{Group, Oldest},
};
use fom_protocol::FomState;

/// Where a fom of a pool is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) state: FomState,
    phase: u16,
    /// The code of what it [waits for](WaitingFor).
    wait: u16,
}

impl Place {
    pub(super) fn of(fom: &Header) -> Self {
        let state = fom.token.state();
        let waits_for = match state {
            FomState::Waiting | FomState::Running => fom.waiting.get(),
            _ => WaitingFor::Nothing,
        };
        // Resources are one kind of wait.
        let wait = match waits_for {
            WaitingFor::Resource(_) => WaitingFor::Resource(0),
            other => other,
        };
        Self {
            state,
            phase: fom.visit().index() as u16,
            wait: wait.encode(),
        }
    }

    /// Returns the name of the [kind](crate::observe::WaitsFor::kind) of the wait.
    pub(super) fn kind(self) -> Option<&'static str> {
        Some(match WaitingFor::decode(self.wait) {
            WaitingFor::Nothing => return None,
            WaitingFor::Event => "event",
            WaitingFor::Timer => "timer",
            WaitingFor::Retry => "next attempt",
            WaitingFor::Key => "turn",
            WaitingFor::Gate => "gate",
            WaitingFor::Fom => "fom",
            WaitingFor::Resource(_) => "resource",
            WaitingFor::Journal => "journal",
            WaitingFor::Blocking => "blocking",
            WaitingFor::Future => "future",
            WaitingFor::Kind(number) => {
                WaitKind::of_number(number).map_or("another package", WaitKind::name)
            }
        })
    }
}

/// The counts of one pool. A pool has few places, so they are searched one after the other.
pub(super) struct Counts {
    places: Vec<Place>,
    counts: Vec<Count>,
    /// The place of the last fom: neighbours in memory are often in the same place.
    last: usize,
    oldest: usize,
}

/// The number of foms in one place, and the oldest of them.
#[derive(Default)]
struct Count {
    foms: usize,
    /// By the time since which each is in the phase, the earliest first. A time before the start of the clock is
    /// negative.
    oldest: Vec<(i64, FomId)>,
}

impl Count {
    fn keep(&mut self, of: (i64, FomId), most: usize) {
        if self.oldest.len() == most {
            match self.oldest.last() {
                Some(last) if of < *last => self.oldest.pop(),
                _ => return,
            };
        }
        let place = self.oldest.partition_point(|one| *one < of);
        self.oldest.insert(place, of);
    }
}

impl Counts {
    pub(super) fn new(oldest: usize) -> Self {
        Self {
            places: Vec::new(),
            counts: Vec::new(),
            last: 0,
            oldest,
        }
    }

    pub(super) fn add(&mut self, place: Place, id: FomId, since: u64) {
        if self.places.get(self.last) != Some(&place) {
            let found = self.places.iter().position(|one| *one == place);
            self.last = found.unwrap_or_else(|| {
                self.places.push(place);
                self.counts.push(Count::default());
                self.places.len() - 1
            });
        }
        let count = &mut self.counts[self.last];
        count.foms += 1;
        count.keep((since.cast_signed(), id), self.oldest);
    }
}

/// The counts of all pools.
pub(super) struct Totals {
    groups: BTreeMap<GroupKey, (&'static Graph, Count)>,
    oldest: usize,
}

/// The operation type, the index of the phase, the state and the kind of the wait.
type GroupKey = (&'static str, TypeId, u16, FomState, Option<&'static str>);

impl Totals {
    pub(super) fn new(oldest: usize) -> Self {
        Self {
            groups: BTreeMap::new(),
            oldest,
        }
    }

    pub(super) fn add(&mut self, pool: &Pool, of: Counts) {
        for (place, count) in of.places.into_iter().zip(of.counts) {
            let key = (
                pool.graph.operation(),
                pool.type_id,
                place.phase,
                place.state,
                place.kind(),
            );
            let group = self.groups.entry(key);
            let (_, total) = group.or_insert_with(|| (pool.graph, Count::default()));
            total.foms += count.foms;
            for one in count.oldest {
                total.keep(one, self.oldest);
            }
        }
    }

    pub(super) fn finish(self, now: u64) -> Vec<Group> {
        let oldest = |(since, id): (i64, FomId)| Oldest {
            id,
            in_phase: elapsed(now, since.cast_unsigned()),
        };
        let groups = self.groups.into_iter();
        let group = |(key, (graph, count)): (GroupKey, (&Graph, Count))| {
            let (operation, _, phase, state, wait) = key;
            Group {
                operation,
                phase: graph.phases()[usize::from(phase)].name(),
                state,
                wait,
                foms: count.foms,
                oldest: count.oldest.into_iter().map(oldest).collect(),
            }
        };
        groups.map(group).collect()
    }
}
