//! The replies to one client, in the order of its commands, in whatever order they are ready; and the bytes of the
//! client.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::memory::Memory;
use crate::wire::Reply;

/// The reply if a command ended without one.
pub(crate) const LOST: Reply =
    Reply::error("ERR the server is shutting down, or the command failed");

/// A reply of at least this many bytes counts while it waits. The number of commands under way limits the smaller ones.
const LARGE: usize = 4096;

/// The place where commands put their replies, and the client's fom finds them.
#[derive(Debug)]
pub(crate) struct Replies {
    pub(super) id: u64,
    state: Mutex<State>,
    /// A copy of `State::held`.
    held: AtomicUsize,
    /// True once `Memory` has evicted the client. Each command checks it first.
    evicted: AtomicBool,
    memory: Arc<Memory>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the first reply in `ready`.
    first: u64,
    ready: VecDeque<Option<Reply>>,
    waker: Option<Waker>,
    /// Bytes of the large replies in `ready`.
    large: usize,
    /// Bytes of the line.
    line: usize,
    /// The client is evicted or gone: it gets no more replies, and its bytes do not change.
    ended: bool,
}

impl State {
    fn held(&self) -> usize {
        self.large + self.line
    }
}

fn large(reply: &Reply) -> usize {
    match reply {
        Reply::Bulk(bytes) | Reply::Written(bytes) if bytes.len() < LARGE => 0,
        Reply::Status(_) | Reply::Int(_) | Reply::Null | Reply::NullArray | Reply::Error(_) => 0,
        other => other.size(),
    }
}

impl Replies {
    pub(super) fn new(id: u64, memory: Arc<Memory>) -> Self {
        Self {
            id,
            state: Mutex::default(),
            held: AtomicUsize::new(0),
            evicted: AtomicBool::new(false),
            memory,
        }
    }

    #[inline]
    fn state(&self) -> MutexGuard<'_, State> {
        // No critical section leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports the change to `Memory`. Releases the lock first, since `Memory` may look at all clients.
    fn count(&self, state: MutexGuard<'_, State>, before: usize) {
        let after = state.held();
        if after == before || state.ended {
            return;
        }
        self.held.store(after, Ordering::Release);
        self.memory.change(before, after);
        drop(state);
        if after > before {
            self.memory.keep_limit();
        }
    }

    /// Sets how many bytes the line takes.
    pub(super) fn charge(&self, line: usize) {
        let mut state = self.state();
        let before = state.held();
        state.line = line;
        self.count(state, before);
    }

    /// Adds bytes to the line.
    pub(super) fn grow(&self, more: usize) {
        let mut state = self.state();
        if !state.ended {
            let before = state.held();
            state.line += more;
            self.held.store(before + more, Ordering::Release);
            self.memory.change(before, before + more);
        }
    }

    /// Returns the memory of all clients.
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns how many bytes the client holds.
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    /// Returns whether `Memory` has evicted the client.
    pub(super) fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Acquire)
    }

    /// Ready when the line has so many more bytes.
    pub(super) fn poll_room(&self, more: usize, task: &mut Context<'_>) -> Poll<()> {
        self.memory.poll_room(self, more, task)
    }

    /// Evicts the client, drops its replies, and wakes its fom. Returns how many bytes it held, and how many of them
    /// its line holds until the fom ends. Returns `None` if the client leaves already.
    pub(super) fn evict(&self) -> Option<(usize, usize)> {
        let mut state = self.state();
        if std::mem::replace(&mut state.ended, true) {
            return None;
        }
        self.evicted.store(true, Ordering::Release);
        let (held, line) = (state.held(), state.line);
        state.large = 0;
        self.held.store(line, Ordering::Release);
        let (ready, waker) = (std::mem::take(&mut state.ready), state.waker.take());
        drop(state);
        drop(ready);
        waker.into_iter().for_each(Waker::wake);
        Some((held, line))
    }

    /// Removes the client. Returns how many bytes it held, as an error if it was evicted.
    pub(super) fn leave(&self) -> Result<usize, usize> {
        let mut state = self.state();
        let ended = std::mem::replace(&mut state.ended, true);
        let ready = std::mem::take(&mut state.ready);
        let held = self.held();
        drop(state);
        drop(ready);
        if ended { Err(held) } else { Ok(held) }
    }

    /// Puts each reply to the place with its number.
    fn put_all(&self, replies: impl IntoIterator<Item = (u64, Reply)>) {
        let mut state = self.state();
        if state.ended {
            return;
        }
        let before = state.held();
        let mut is_first = false;
        for (number, reply) in replies {
            state.large += large(&reply);
            // A slot puts its reply once, and its number is not taken yet.
            let at = number.saturating_sub(state.first) as usize;
            while state.ready.len() <= at {
                state.ready.push_back(None);
            }
            state.ready[at] = Some(reply);
            is_first |= at == 0;
        }
        let waker = if is_first { state.waker.take() } else { None };
        self.count(state, before);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Skips the numbers of commands that the line answered. They come before all that are unanswered.
    pub(super) fn skip(&self, count: u64) {
        let mut state = self.state();
        state.first += count;
        // Replies to later commands that have come already left room for them.
        let room = state.ready.len().min(count as usize);
        state.ready.drain(..room);
    }

    /// Takes the replies that can be sent. Ready with the number of replies. Pending if there are none; then it wakes
    /// the task later.
    pub(super) fn poll_take(&self, to: &mut VecDeque<Reply>, task: &mut Context<'_>) -> Poll<u64> {
        let mut state = self.state();
        let before = state.held();
        let mut taken = 0;
        while let Some(Some(_)) = state.ready.front() {
            if let Some(reply) = state.ready.pop_front().flatten() {
                state.large -= large(&reply);
                to.push_back(reply);
            }
            taken += 1;
        }
        state.first += taken;
        if taken > 0 {
            self.count(state, before);
            return Poll::Ready(taken);
        }
        match &state.waker {
            Some(waker) if waker.will_wake(task.waker()) => {}
            _ => state.waker = Some(task.waker().clone()),
        }
        Poll::Pending
    }
}

/// The place of one reply, and the reply once there is one. The client gets it when the place is dropped: [`LOST`] if there
/// is none.
#[derive(Debug)]
pub(crate) struct Slot {
    replies: Arc<Replies>,
    number: u64,
    reply: Option<Reply>,
    taken: bool,
}

impl Slot {
    /// Creates the place with this number.
    pub(super) fn new(replies: &Arc<Replies>, number: u64) -> Self {
        Self {
            replies: Arc::clone(replies),
            number,
            reply: None,
            taken: false,
        }
    }

    /// Returns whether its client is evicted. The command then does nothing.
    pub(crate) fn is_evicted(&self) -> bool {
        self.replies.is_evicted()
    }

    /// Puts the reply into its place.
    pub(crate) fn put(&mut self, reply: Reply) {
        self.reply.get_or_insert(reply);
    }

    /// Takes the reply out, for a caller that gives it to the client.
    pub(super) fn take(mut self) -> Reply {
        self.taken = true;
        self.reply.take().unwrap_or(LOST)
    }

    /// Gives all these replies to their client, which wakes once.
    pub(super) fn give_all(slots: Vec<Slot>) {
        let Some(first) = slots.first() else {
            return;
        };
        let replies = Arc::clone(&first.replies);
        replies.put_all(slots.into_iter().map(|slot| (slot.number, slot.take())));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.taken {
            let reply = self.reply.take().unwrap_or(LOST);
            self.replies.put_all([(self.number, reply)]);
        }
    }
}
