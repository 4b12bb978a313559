//! The number of foms in a locality: counted as foms begin and end, and added up on demand.
//!
//! # Why it is right
//!
//! All counts only grow. Read the end counts before the start counts: then every end you see has a start you see. So
//! if the sums are equal, there was a moment between the two reads with no fom in flight.
//!
//! The handler writes its own counts without a read-modify-write, on a cache line of their own. Other threads have
//! separate counts: one for submissions, and one for submissions that were refused or turned away.
//!
//! A thread that waits until no fom is in flight registers in [`Waiters`] before it reads the sums. A thread that
//! counts an end checks [`Waiters`] after the count. Each has a fence between its two steps, so at least one of the
//! two sees the other. Likewise, if two threads count the last ends of two localities at once, at least one of them
//! sees both ends.

use crossbeam_utils::CachePadded;

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// The counts of one locality.
#[derive(Debug, Default)]
pub struct InFlight {
    own: CachePadded<Own>,
    elsewhere: CachePadded<Elsewhere>,
}

/// The counts that only the handler writes.
#[derive(Debug, Default)]
struct Own {
    /// Foms submitted on the handler's thread.
    born: AtomicU64,
    /// Foms that are no longer listed.
    left: AtomicU64,
    /// Foms that have told their outcome.
    done: AtomicU64,
}

/// The counts that other threads write.
#[derive(Debug, Default)]
struct Elsewhere {
    /// Foms submitted or moved here.
    sent: AtomicU64,
    /// Foms among those sent that were refused, or turned away because the locality has ended.
    back: AtomicU64,
}

/// Adds `more` to a count that only one thread writes.
#[inline]
pub fn count(count: &AtomicU64, more: u64) {
    let before = count.load(Ordering::Relaxed);
    count.store(before.wrapping_add(more), Ordering::Release);
}

impl InFlight {
    /// Counts a fom submitted by the handler. Only the handler calls this.
    #[inline]
    pub fn one_born(&self) {
        count(&self.own.born, 1);
    }

    /// Counts a fom that is no longer listed. Only the handler calls this.
    #[inline]
    pub fn one_left(&self) {
        count(&self.own.left, 1);
    }

    /// Counts a fom that has told its outcome. Only the handler calls this.
    #[inline]
    pub fn one_done(&self) {
        count(&self.own.done, 1);
    }

    /// Counts a fom that arrives from another thread.
    #[inline]
    pub fn one_sent(&self) {
        self.elsewhere.sent.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts `foms` that arrive from another thread. They are submitted, or move here before their old locality
    /// counts them as [`given_away`](Self::given_away). After the count, `look` checks whether the runtime takes
    /// them. So either the end of the locality waits for these foms, or the caller learns of the end and counts them
    /// [`back`](Self::back).
    #[inline]
    pub fn sent<R>(&self, foms: u64, look: impl FnOnce() -> R) -> R {
        self.elsewhere.sent.fetch_add(foms, Ordering::SeqCst);
        look()
    }

    /// Counts foms that moved to another locality, as if they had ended. Only the handler calls this.
    #[inline]
    pub fn given_away(&self, foms: u64) {
        count(&self.own.left, foms);
        count(&self.own.done, foms);
    }

    /// Counts a fom that was refused or turned away. Other threads call this.
    #[inline]
    pub fn one_back(&self) {
        self.elsewhere.back.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts `foms` that were refused or turned away. Other threads call this.
    #[inline]
    pub fn back(&self, foms: u64) {
        self.elsewhere.back.fetch_add(foms, Ordering::SeqCst);
    }

    fn begun(&self) -> u64 {
        self.own.born.load(Ordering::SeqCst) + self.elsewhere.sent.load(Ordering::SeqCst)
    }

    fn ended(&self, count: &AtomicU64) -> u64 {
        count.load(Ordering::SeqCst) + self.elsewhere.back.load(Ordering::SeqCst)
    }

    /// Returns the number of foms that were submitted here and have not ended.
    #[inline]
    pub fn in_flight(&self) -> usize {
        let left = self.ended(&self.own.left);
        self.begun().saturating_sub(left) as usize
    }

    /// Returns whether every fom that ever lived here has told its outcome.
    #[inline]
    pub fn is_idle(&self) -> bool {
        all_idle(std::iter::once(self))
    }
}

/// Returns whether, at some moment during this call, every fom had told its outcome.
pub fn all_idle<'a>(counts: impl Iterator<Item = &'a InFlight> + Clone) -> bool {
    let done: u64 = counts
        .clone()
        .map(|counts| counts.ended(&counts.own.done))
        .sum();
    let begun: u64 = counts.map(InFlight::begun).sum();
    done == begun
}

/// The number of callers that wait until no fom is in flight.
#[derive(Debug, Default)]
pub struct Waiters(AtomicUsize);

impl Waiters {
    /// Adds a waiter. After this call, the waiter reads the counts before each sleep.
    #[inline]
    pub fn join(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Removes a waiter.
    #[inline]
    pub fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether there are waiters to tell if all is idle now. The caller has counted the end before this call.
    #[inline]
    pub fn any(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) > 0
    }
}
