//! The memory that all clients together may take: what they send and what they do not read, not the data.
//!
//! As with Redis's `maxmemory-clients`, the largest client is sent away when all together are above the limit. A client that is
//! about to become large waits until those that are sent away are gone: so the limit holds, and the wait has an end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::replies::Replies;

/// What a client is told that was sent away, if it can be told.
pub(super) const EVICTED: &[u8] =
    b"-ERR all clients together are above maxmemory-clients, and this one held most\r\n";

/// The memory of all clients.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: Arc<AtomicU64>,
    /// Bytes of the clients that stay.
    used: AtomicUsize,
    /// Bytes of those that are sent away and are not gone yet. Changed under the lock of `seats`.
    leaving: AtomicUsize,
    evicted: AtomicU64,
    seats: Mutex<Seats>,
}

#[derive(Debug, Default)]
struct Seats {
    taken: BTreeMap<u64, Arc<Replies>>,
    last: u64,
    /// Those that wait for room, which there is when others are gone.
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
        // Nothing that is done under it leaves it half done.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes all clients may take.
    pub(crate) fn limit(&self) -> usize {
        usize::try_from(self.limit.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// How many bytes all clients take, also those that are being sent away.
    pub(crate) fn all(&self) -> usize {
        self.used() + self.leaving.load(Ordering::Acquire)
    }

    /// How many clients were sent away because all together were above the limit.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// The seat of a new client.
    pub(super) fn seat(self: &Arc<Self>) -> Arc<Replies> {
        let mut seats = self.seats();
        seats.last += 1;
        let id = seats.last;
        let seat = Arc::new(Replies::new(id, Arc::clone(self)));
        seats.taken.insert(id, Arc::clone(&seat));
        seat
    }

    /// The client of this seat is gone, with all that it held.
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

    /// What a client holds has changed from so many bytes to so many.
    pub(super) fn change(&self, before: usize, after: usize) {
        if after >= before {
            self.used.fetch_add(after - before, Ordering::AcqRel);
        } else {
            self.used.fetch_sub(before - after, Ordering::AcqRel);
        }
    }

    /// Sends the largest clients away, until those that stay are within the limit.
    pub(crate) fn keep_limit(&self) {
        if self.used() > self.limit() {
            self.evict(&self.seats(), None, 0);
        }
    }

    /// Ready when so many more bytes are within the limit; they are the client's then. Else others are told to go, or this client
    /// is, and the task is woken when one of them is gone.
    pub(super) fn poll_room(
        &self,
        seat: &Replies,
        more: usize,
        task: &mut Context<'_>,
    ) -> Poll<()> {
        // Under the lock, so that two clients do not take the same room.
        let mut seats = self.seats();
        self.evict(&seats, Some(seat.id), more);
        if self.all().saturating_add(more) <= self.limit() {
            seat.grow(more);
            return Poll::Ready(());
        }
        // Without those that leave it fits. Each of them takes the lock that is held here before it is gone.
        seats.waiting.insert(seat.id, task.waker().clone());
        Poll::Pending
    }

    /// Sends the largest away until `more` bytes of the client `of` are within the limit. That client counts as if it had them.
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
            if let Some(held) = largest.evict() {
                self.leaving.fetch_add(held, Ordering::AcqRel);
                self.used.fetch_sub(held, Ordering::AcqRel);
                self.evicted.fetch_add(1, Ordering::Relaxed);
            }
            if of == Some(largest.id) {
                return;
            }
        }
    }
}
