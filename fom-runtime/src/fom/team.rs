//! A wait for the ends of several foms, with a single wake.

use std::{
    collections::VecDeque,
    task::{Poll, Waker},
};

use crate::id::FomId;
use fom_protocol::sync::Mutex;

/// The foms of one wait. Each fom tells its end here, and the end that completes the wait wakes the waiter.
#[derive(Default)]
pub(crate) struct Gathering(Mutex<State>);

#[derive(Default)]
struct State {
    members: Vec<(FomId, bool)>,
    left: usize,
    /// The members that have ended and were not returned yet.
    ended: VecDeque<usize>,
    all: bool,
    waker: Option<Waker>,
}

impl State {
    fn is_over(&self) -> bool {
        if self.all {
            self.left == 0
        } else {
            !self.ended.is_empty() || self.left == 0
        }
    }

    fn left(&self) -> Vec<FomId> {
        let left = self.members.iter().filter(|(_, ended)| !ended);
        left.map(|(member, _)| *member).collect()
    }
}

impl Gathering {
    /// Adds a member. Returns its place.
    pub(crate) fn join(&self, member: FomId) -> usize {
        let mut state = self.0.lock();
        state.members.push((member, false));
        state.left += 1;
        state.members.len() - 1
    }

    /// Records that the member at this place has ended.
    pub(crate) fn ended(&self, place: usize) {
        let waker = {
            let mut state = self.0.lock();
            if std::mem::replace(&mut state.members[place].1, true) {
                return;
            }
            state.left -= 1;
            state.ended.push_back(place);
            if state.is_over() {
                state.waker.take()
            } else {
                None
            }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, waker: &Waker, all: bool) -> Poll<()> {
        let mut state = self.0.lock();
        state.all = all;
        if state.is_over() {
            return Poll::Ready(());
        }
        let old = state.waker.replace(waker.clone());
        drop(state);
        // The old waker may run any code, so it is dropped without the lock.
        drop(old);
        Poll::Pending
    }

    /// Becomes ready when all members have ended.
    pub(crate) fn poll_all(&self, waker: &Waker) -> Poll<()> {
        self.poll(waker, true)
    }

    /// Returns the next member that has ended, in the order of the ends, or `None` if all were returned.
    pub(crate) fn poll_next(&self, waker: &Waker) -> Poll<Option<usize>> {
        self.poll(waker, false)
            .map(|()| self.0.lock().ended.pop_front())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().members.len()
    }

    /// Returns the members that have not ended.
    pub(crate) fn left(&self) -> Vec<FomId> {
        self.0.lock().left()
    }

    /// Returns the members that must end before the leader goes on. If the leader waits for the next of several
    /// members, this is empty.
    pub(crate) fn needed(&self) -> Vec<FomId> {
        let state = self.0.lock();
        if state.is_over() || !(state.all || state.left == 1) {
            return Vec::new();
        }
        state.left()
    }
}
