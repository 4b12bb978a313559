//! Earliest deadline first.

use std::{collections::BTreeMap, time::Duration};

use crate::admission::{Next, Policy, Request, Tags, text::Shown};
use fom_runtime::time::Instant;

/// Serves the earliest deadline first, and equal deadlines first in, first out. Sheds the latest deadline.
///
/// A request without a deadline gets a default deadline. So its wait is bounded, however many requests come with short
/// deadlines. Late requests are still served, before all others.
#[derive(Debug)]
pub struct DeadlineFirst {
    others: Duration,
    queue: BTreeMap<(Instant, u64), Request>,
    name: String,
}

impl DeadlineFirst {
    /// Creates the policy. `others` is the deadline of a request that has none, counted from its arrival.
    pub fn new(others: Duration) -> Self {
        Self {
            others,
            queue: BTreeMap::new(),
            name: format!("edf default={}", Shown(others)),
        }
    }

    fn place(&self, request: &Tags) -> (Instant, u64) {
        let by = request
            .deadline()
            .unwrap_or_else(|| request.since() + self.others);
        (by, request.number())
    }
}

impl Policy for DeadlineFirst {
    fn name(&self) -> &str {
        &self.name
    }

    fn enqueue(&mut self, request: Request, _: Instant) -> Result<(), Request> {
        self.queue.insert(self.place(&request), request);
        Ok(())
    }

    fn get(&mut self, _: Instant, _: bool) -> Next {
        let first = self.queue.pop_first();
        first.map_or(Next::Empty, |(_, request)| Next::Request(request))
    }

    fn remove(&mut self, request: &Tags) -> Option<Request> {
        self.queue.remove(&self.place(request))
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Tags)) {
        self.queue.values().for_each(|request| visitor(request));
    }

    fn victim(&mut self) -> Option<Request> {
        self.queue.pop_last().map(|(_, request)| request)
    }
}
