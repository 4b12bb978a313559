//! Earliest deadline first.

use std::{collections::BTreeMap, time::Duration};

use crate::admission::{Next, Policy, Request, Tags, text::Shown};

/// The earliest deadline first, and first in, first out among equal ones. Sheds the latest.
///
/// One that has none counts as if it had this one; so it waits for a bounded time, however many come with short deadlines. What
/// is late is served all the same, before all others.
#[derive(Debug)]
pub struct DeadlineFirst {
    others: Duration,
    queue: BTreeMap<(Duration, u64), Request>,
    name: String,
}

impl DeadlineFirst {
    /// With the deadline, from its arrival on, of a request that has none.
    pub fn new(others: Duration) -> Self {
        Self {
            others,
            queue: BTreeMap::new(),
            name: format!("edf default={}", Shown(others)),
        }
    }

    fn place(&self, request: &Tags) -> (Duration, u64) {
        let by = request
            .deadline()
            .unwrap_or_else(|| request.since().saturating_add(self.others));
        (by, request.number())
    }
}

impl Policy for DeadlineFirst {
    fn name(&self) -> &str {
        &self.name
    }

    fn enqueue(&mut self, request: Request, _: Duration) -> Result<(), Request> {
        self.queue.insert(self.place(&request), request);
        Ok(())
    }

    fn get(&mut self, _: Duration, _: bool) -> Next {
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
