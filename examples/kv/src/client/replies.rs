//! The replies to one client, in the order of its commands, whichever is ready first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::wire::Reply;

/// What a client is told whose command came to nothing.
pub(crate) const LOST: Reply =
    Reply::error("ERR the server is shutting down, or the command failed");

/// Where commands put their replies, and the client's fom finds them.
#[derive(Debug, Default)]
pub(crate) struct Replies(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The number of the first in `ready`.
    first: u64,
    ready: VecDeque<Option<Reply>>,
    waker: Option<Waker>,
}

impl Replies {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under it leaves it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, number: u64, reply: Reply) {
        let waker = {
            let mut state = self.state();
            // It is told once, and the number is one that was not taken yet.
            let at = number.saturating_sub(state.first) as usize;
            while state.ready.len() <= at {
                state.ready.push_back(None);
            }
            state.ready[at] = Some(reply);
            if at == 0 { state.waker.take() } else { None }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next number is of a command that was answered without this; there are no others that are not answered.
    pub(super) fn skip(&self) {
        self.state().first += 1;
    }

    /// Takes what can be sent. How many there were; none, and the task is woken when there are.
    pub(super) fn poll_take(&self, to: &mut VecDeque<Reply>, task: &mut Context<'_>) -> Poll<u64> {
        let mut state = self.state();
        let mut taken = 0;
        while let Some(Some(_)) = state.ready.front() {
            to.extend(state.ready.pop_front().flatten());
            taken += 1;
        }
        state.first += taken;
        if taken > 0 {
            return Poll::Ready(taken);
        }
        match &state.waker {
            Some(waker) if waker.will_wake(task.waker()) => {}
            _ => state.waker = Some(task.waker().clone()),
        }
        Poll::Pending
    }
}

/// The place of one reply. Dropped without one, it tells the client that.
#[derive(Debug)]
pub(crate) struct Slot {
    replies: Arc<Replies>,
    number: u64,
    put: bool,
}

impl Slot {
    /// The place with this number.
    pub(super) fn new(replies: &Arc<Replies>, number: u64) -> Self {
        Self {
            replies: Arc::clone(replies),
            number,
            put: false,
        }
    }

    /// Puts the reply there.
    pub(crate) fn put(&mut self, reply: Reply) {
        if !std::mem::replace(&mut self.put, true) {
            self.replies.put(self.number, reply);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.put {
            self.put(LOST);
        }
    }
}
