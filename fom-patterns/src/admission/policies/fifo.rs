//! First in, first out.

use crate::admission::{Line, Next, Policy, Request, Tags};
use fom_runtime::time::Instant;

/// First in, first out. The first policy of an intake by default, and the queue behind every other policy. Sheds the
/// newest request.
#[derive(Debug, Default)]
pub struct Fifo(Line);

impl Fifo {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Policy for Fifo {
    fn name(&self) -> &str {
        "fifo"
    }

    fn enqueue(&mut self, request: Request, _: Instant) -> Result<(), Request> {
        self.0.put(request);
        Ok(())
    }

    fn get(&mut self, _: Instant, _: bool) -> Next {
        self.0.take().map_or(Next::Empty, Next::Request)
    }

    fn remove(&mut self, request: &Tags) -> Option<Request> {
        self.0.remove(request.number())
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Tags)) {
        self.0.iter().for_each(visitor);
    }

    fn victim(&mut self) -> Option<Request> {
        self.0.take_last()
    }
}
