//! Priorities with bounded preference.

use fom_runtime::{submission::Priority, time::Instant};

use crate::admission::{ConfigError, Line, Next, Policy, Request, Tags};

/// The number of priorities.
const PRIORITIES: usize = Priority::Low as usize + 1;

/// Serves higher priorities first, and each priority in the order of arrival. Preference is bounded: after a number of
/// requests in a row while lower priorities wait, the next lower priority with requests gets one. There is no other
/// aging.
///
/// A request can be [promoted](super::super::Queued::promote) to the highest priority, once. Its place there is the
/// same as if it had arrived with that priority. Sheds the newest request of the lowest priority.
#[derive(Debug)]
pub struct Priorities {
    most: usize,
    lines: [Line; PRIORITIES],
    /// For each priority, the requests given in a row while lower priorities waited.
    given: [usize; PRIORITIES],
    name: String,
}

impl Priorities {
    /// Creates the policy. At most `most` requests in a row go before a lower priority gets one.
    ///
    /// # Errors
    ///
    /// Fails with [`ConfigError::Zero`] if `most` is zero.
    pub fn new(most: usize) -> Result<Self, ConfigError> {
        if most == 0 {
            return Err(ConfigError::Zero("most"));
        }
        Ok(Self {
            most,
            lines: Default::default(),
            given: Default::default(),
            name: format!("priorities most={most}"),
        })
    }
}

impl Policy for Priorities {
    fn name(&self) -> &str {
        &self.name
    }

    fn enqueue(&mut self, request: Request, _: Instant) -> Result<(), Request> {
        self.lines[request.priority() as usize].put(request);
        Ok(())
    }

    fn get(&mut self, _: Instant, _: bool) -> Next {
        for level in 0..self.lines.len() {
            if self.lines[level].is_empty() {
                continue;
            }
            let others = self.lines[level + 1..].iter().any(|line| !line.is_empty());
            if !others {
                self.given[level] = 0;
            } else if self.given[level] >= self.most {
                // The next lower priority has its turn.
                self.given[level] = 0;
                continue;
            } else {
                self.given[level] += 1;
            }
            return self.lines[level].take().map_or(Next::Empty, Next::Request);
        }
        Next::Empty
    }

    fn remove(&mut self, request: &Tags) -> Option<Request> {
        // The request may have been promoted.
        let levels = [request.priority() as usize, Priority::High as usize];
        levels
            .into_iter()
            .find_map(|level| self.lines[level].remove(request.number()))
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Tags)) {
        for line in &self.lines {
            line.iter().for_each(&mut *visitor);
        }
    }

    fn promote(&mut self, request: &Tags) -> bool {
        let level = request.priority() as usize;
        if level == Priority::High as usize {
            return false;
        }
        let promoted = self.lines[level].remove(request.number());
        let moved = promoted.is_some();
        self.lines[Priority::High as usize].extend(promoted);
        moved
    }

    fn victim(&mut self) -> Option<Request> {
        self.lines.iter_mut().rev().find_map(Line::take_last)
    }
}
