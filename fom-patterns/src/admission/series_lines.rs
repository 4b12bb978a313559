//! The lines of series: of the requests of one series, one runs at a time, and the others hold no permit.

use std::collections::{HashMap, VecDeque};

use fom_protocol::shrink::Shrink as _;
use fom_runtime::Key;

use crate::admission::{Request, Tags, waiting_request::WaitingRequest};

/// Requests that the policies chose, and whose series has a request that runs.
#[derive(Default)]
pub(super) struct SeriesLines {
    /// The requests behind the one that runs, by series. A series without an entry is free.
    busy: HashMap<Key, VecDeque<Request>>,
    /// The requests that have their turn and wait for a permit. Each keeps its series busy.
    ready: VecDeque<Request>,
    /// The number of requests in all lines.
    len: usize,
}

impl SeriesLines {
    /// Returns the request if its series is free, and keeps it otherwise.
    pub(super) fn admit(&mut self, request: Request) -> Option<Request> {
        let Some(series) = request.series() else {
            return Some(request);
        };
        if let Some(line) = self.busy.get_mut(series) {
            line.push_back(request);
            self.len += 1;
            return None;
        }
        self.busy.insert(series.clone(), VecDeque::new());
        Some(request)
    }

    /// Returns a kept request whose turn has come.
    pub(super) fn next(&mut self) -> Option<Request> {
        let next = self.ready.pop_front()?;
        self.len -= 1;
        Some(next)
    }

    /// Returns the number of kept requests.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Notes that a request no longer needs its series: the next one of the series has its turn.
    pub(super) fn release(&mut self, tags: &Tags) {
        let Some(series) = tags.series() else { return };
        match self.busy.get_mut(series).and_then(VecDeque::pop_front) {
            Some(next) => self.ready.push_back(next),
            None => {
                self.busy.remove(series);
                self.busy.shrink();
            }
        }
    }

    /// Takes out a kept request.
    pub(super) fn remove(&mut self, request: &WaitingRequest) -> Option<Request> {
        let number = request.tags.number();
        let take = |line: &mut VecDeque<Request>| {
            let place = line.iter().position(|kept| kept.number() == number)?;
            line.remove(place)
        };
        let taken = match take(&mut self.ready) {
            Some(request) => {
                self.release(&request);
                request
            }
            None => take(self.busy.get_mut(request.tags.series()?)?)?,
        };
        self.len -= 1;
        Some(taken)
    }

    /// Takes out all kept requests.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Request> {
        self.len = 0;
        let lines = self.busy.drain().flat_map(|(_, line)| line);
        self.ready.drain(..).chain(lines)
    }

    /// Returns the kept requests.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.ready.iter().chain(self.busy.values().flatten())
    }
}
