//! Batches by object, sorted within each batch.

use std::collections::BTreeMap;

use fom_runtime::{Key, time::Instant};

use super::rounds::{Batch, Rounds};
use crate::admission::{ConfigError, Next, Policy, Request, Tags};

/// Objects take turns. Each turn serves a batch of requests in ascending order of their sort keys. Requests with equal
/// keys go in the order of arrival.
///
/// Works like Lustre's object-based round-robin (ORR), for work that a disk or a remote store does best in order. A new
/// request with a lower key than the batch has reached waits until the batch has no higher key, or for the next batch.
/// Requests without an object are declined. Sheds the newest request of the object with the most requests.
#[derive(Debug)]
pub struct SortedBatches {
    rounds: Rounds<Key, Sweep>,
    name: String,
}

/// The requests of one object, and how far its batch has come.
#[derive(Debug, Default)]
struct Sweep {
    requests: BTreeMap<(u64, u64), Request>,
    reached: (u64, u64),
}

impl Batch for Sweep {
    fn put(&mut self, request: Request) {
        let place = (request.sort_key(), request.number());
        self.requests.insert(place, request);
    }

    fn take(&mut self) -> Option<Request> {
        let next = self.requests.range(self.reached..).next();
        let place = *next.or_else(|| self.requests.first_key_value())?.0;
        self.reached = place;
        self.requests.remove(&place)
    }

    fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    fn turned(&mut self) {
        self.reached = (0, 0);
    }
}

impl SortedBatches {
    /// Creates the policy, with `quantum` requests per batch. Lustre uses 256.
    ///
    /// # Errors
    ///
    /// Fails with [`ConfigError::Zero`] if `quantum` is zero.
    pub fn new(quantum: usize) -> Result<Self, ConfigError> {
        Ok(Self {
            rounds: Rounds::new(quantum)?,
            name: format!("batches quantum={quantum}"),
        })
    }
}

impl Policy for SortedBatches {
    fn name(&self) -> &str {
        &self.name
    }

    fn enqueue(&mut self, request: Request, _: Instant) -> Result<(), Request> {
        let Some(object) = request.object().cloned() else {
            return Err(request);
        };
        self.rounds.put(&object, request);
        Ok(())
    }

    fn get(&mut self, _: Instant, _: bool) -> Next {
        self.rounds.take().map_or(Next::Empty, Next::Request)
    }

    fn remove(&mut self, request: &Tags) -> Option<Request> {
        let place = (request.sort_key(), request.number());
        self.rounds
            .with(request.object()?, |sweep| sweep.requests.remove(&place))?
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Tags)) {
        for (_, sweep) in self.rounds.batches() {
            sweep.requests.values().for_each(|request| visitor(request));
        }
    }

    fn victim(&mut self) -> Option<Request> {
        let all = self.rounds.batches();
        let most = all.max_by_key(|(_, sweep)| sweep.requests.len());
        let object = most.map(|(object, _)| object.clone())?;
        self.rounds.with(&object, |sweep| {
            let newest = sweep.requests.keys().max_by_key(|(_, number)| *number);
            newest
                .copied()
                .and_then(|place| sweep.requests.remove(&place))
        })?
    }
}
