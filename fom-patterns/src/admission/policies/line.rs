//! Requests in the order of their arrival.

use std::collections::VecDeque;

use crate::admission::{Request, Tags};
use fom_protocol::shrink::Shrink as _;

/// Requests in the order of their arrival at the intake, whatever the order in which they are put in. A building block
/// for policies.
#[derive(Debug, Default)]
pub struct Line(VecDeque<Request>);

impl Line {
    /// Creates an empty line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a request at its place: mostly at the end, which costs nothing.
    pub fn put(&mut self, request: Request) {
        let number = request.number();
        if self.0.back().is_none_or(|last| last.number() < number) {
            self.0.push_back(request);
        } else {
            let place = self.place(number);
            self.0.insert(place, request);
        }
    }

    /// Removes and returns the oldest request.
    pub fn take(&mut self) -> Option<Request> {
        self.0.shrink();
        self.0.pop_front()
    }

    /// Removes and returns the newest request.
    pub fn take_last(&mut self) -> Option<Request> {
        self.0.shrink();
        self.0.pop_back()
    }

    /// Removes and returns the request with this number.
    pub fn remove(&mut self, number: u64) -> Option<Request> {
        let place = self.place(number);
        (self.0.get(place)?.number() == number).then_some(())?;
        self.0.remove(place)
    }

    /// Returns the index where the request is, or would be.
    fn place(&self, number: u64) -> usize {
        self.0.partition_point(|request| request.number() < number)
    }

    /// Iterates from the oldest request to the newest.
    pub fn iter(&self) -> impl Iterator<Item = &Tags> {
        self.0.iter().map(|request| &**request)
    }

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Extend<Request> for Line {
    fn extend<I: IntoIterator<Item = Request>>(&mut self, requests: I) {
        for request in requests {
            self.put(request);
        }
    }
}
