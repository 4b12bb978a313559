//! The memory that all clients together may take: requests and unread replies, without the data.
//!
//! As with Redis's `maxmemory-clients`, the server evicts the largest client when all together are above the limit. A
//! client that needs much more room waits until the evicted clients are gone. So the limit holds, and the wait has an
//! end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::replies::Replies;

/// The last words to an evicted client.
pub(super) const EVICTED: &[u8] =
    b"-ERR all clients together are above maxmemory-clients, and this one held most\r\n";

/// The memory of all clients.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: Arc<AtomicU64>,
    /// Bytes of the clients that stay.
    used: AtomicUsize,
    /// Bytes of the evicted clients that are not gone yet. Changes only under the lock of `seats`.
    leaving: AtomicUsize,
    evicted: AtomicU64,
    seats: Mutex<Seats>,
}

#[derive(Debug, Default)]
struct Seats {
    taken: BTreeMap<u64, Arc<Replies>>,
    last: u64,
    /// The clients that wait for room.
    waiting: BTreeMap<u64, Waker>,
}

impl Memory {
    pub(crate) fn new(limit: Arc<AtomicU64>) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
            leaving: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
            seats: Mutex::default(),
        })
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        // No critical section leaves the state half changed.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many bytes all clients may take.
    pub(crate) fn limit(&self) -> usize {
        usize::try_from(self.limit.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// Returns how many bytes all clients take, with the evicted clients that are not gone yet.
    pub(crate) fn all(&self) -> usize {
        self.used() + self.leaving.load(Ordering::Acquire)
    }

    /// Returns how many clients were evicted.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Adds a client.
    pub(super) fn seat(self: &Arc<Self>) -> Arc<Replies> {
        let mut seats = self.seats();
        seats.last += 1;
        let id = seats.last;
        let seat = Arc::new(Replies::new(id, Arc::clone(self)));
        seats.taken.insert(id, Arc::clone(&seat));
        seat
    }

    /// Removes a client that has freed all its bytes.
    pub(super) fn leave(&self, seat: &Replies) {
        let mut seats = self.seats();
        seats.taken.remove(&seat.id);
        match seat.leave() {
            Ok(held) => drop(self.used.fetch_sub(held, Ordering::AcqRel)),
            Err(evicted) => drop(self.leaving.fetch_sub(evicted, Ordering::AcqRel)),
        }
        let waiting = std::mem::take(&mut seats.waiting);
        drop(seats);
        waiting.into_values().for_each(Waker::wake);
    }

    /// Notes that the bytes of a client have changed.
    pub(super) fn change(&self, before: usize, after: usize) {
        if after >= before {
            self.used.fetch_add(after - before, Ordering::AcqRel);
        } else {
            self.used.fetch_sub(before - after, Ordering::AcqRel);
        }
    }

    /// Evicts the largest clients until the others are within the limit.
    pub(crate) fn keep_limit(&self) {
        if self.used() > self.limit() {
            self.evict(&self.seats(), None, 0);
        }
    }

    /// Ready when `more` bytes are within the limit. The client then has them. Otherwise it evicts the largest clients,
    /// this one included, and wakes the task when one of them is gone.
    pub(super) fn poll_room(
        &self,
        seat: &Replies,
        more: usize,
        task: &mut Context<'_>,
    ) -> Poll<()> {
        // The lock keeps two clients from taking the same room.
        let mut seats = self.seats();
        self.evict(&seats, Some(seat.id), more);
        if self.all().saturating_add(more) <= self.limit() {
            seat.grow(more);
            return Poll::Ready(());
        }
        // There is room when the evicted clients are gone. Each of them takes this lock first, so no wake is lost.
        seats.waiting.insert(seat.id, task.waker().clone());
        Poll::Pending
    }

    /// Evicts the largest clients until `more` bytes of the client `of` are within the limit. The client counts as if
    /// it had them.
    fn evict(&self, seats: &Seats, of: Option<u64>, more: usize) {
        while self.used().saturating_add(more) > self.limit() {
            let size = |seat: &Replies| {
                let more = if of == Some(seat.id) { more } else { 0 };
                seat.held().saturating_add(more)
            };
            let stay = seats.taken.values().filter(|seat| !seat.is_evicted());
            let Some(largest) = stay.max_by_key(|seat| size(seat)) else {
                return;
            };
            if let Some((held, line)) = largest.evict() {
                self.leaving.fetch_add(line, Ordering::AcqRel);
                self.used.fetch_sub(held, Ordering::AcqRel);
                self.evicted.fetch_add(1, Ordering::Relaxed);
            }
            if of == Some(largest.id) {
                return;
            }
        }
    }
}
