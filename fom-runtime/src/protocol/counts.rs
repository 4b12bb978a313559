//! How many foms of a locality there are: counted where they come and where they go, and added up by whoever asks.
//!
//! # Why it is right
//!
//! All counts only grow. Who reads those of the end first, and those of the beginning after that, never sees a fom end whose
//! beginning it misses: so when the sums agree there was a moment between the two readings when no fom was in flight.
//!
//! What is written by the handler alone is written without a read-modify-write, on a cache line of its own. Others have counts of
//! their own: what is submitted from elsewhere, and what of that is refused or turned away.
//!
//! Who waits until no fom is in flight says so ([`Waiters`]) before it looks at the sums; who counted an end looks for such after
//! that. Between the two steps of each stands a fence, so that one of the two sees the other. The same between two who count the
//! last ends of two localities at once: one of them sees both.

use crossbeam_utils::CachePadded;

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// Of one locality.
#[derive(Debug, Default)]
pub struct Counts {
    own: CachePadded<Own>,
    elsewhere: CachePadded<Elsewhere>,
}

/// Written by the handler.
#[derive(Debug, Default)]
struct Own {
    /// Submitted here.
    born: AtomicU64,
    /// Out of the listing.
    left: AtomicU64,
    /// Their outcome told.
    done: AtomicU64,
}

/// Written by everybody else.
#[derive(Debug, Default)]
struct Elsewhere {
    /// Submitted.
    sent: AtomicU64,
    /// Refused after that, or turned away because the locality has ended.
    back: AtomicU64,
}

/// One more, where only one thread writes.
#[inline]
pub fn count(count: &AtomicU64, more: u64) {
    let before = count.load(Ordering::Relaxed);
    count.store(before.wrapping_add(more), Ordering::Release);
}

impl Counts {
    /// By the handler.
    #[inline]
    pub fn one_born(&self) {
        count(&self.own.born, 1);
    }

    /// By the handler.
    #[inline]
    pub fn one_left(&self) {
        count(&self.own.left, 1);
    }

    /// By the handler.
    #[inline]
    pub fn one_done(&self) {
        count(&self.own.done, 1);
    }

    /// By whoever is elsewhere.
    pub fn one_sent(&self) {
        self.elsewhere.sent.fetch_add(1, Ordering::SeqCst);
    }

    /// This many foms arrive from another thread: submitted, or moved here from another locality before they are
    /// [`given_away`](Self::given_away) there. `look` asks whether the runtime takes them, and runs after the count. So
    /// the end of the locality waits for these foms, or the caller learns of that end and counts them
    /// [`back`](Self::back).
    #[inline]
    pub fn sent<R>(&self, foms: u64, look: impl FnOnce() -> R) -> R {
        self.elsewhere.sent.fetch_add(foms, Ordering::SeqCst);
        look()
    }

    /// So many, moved to another locality, as if they had ended. By the handler.
    pub fn given_away(&self, foms: u64) {
        count(&self.own.left, foms);
        count(&self.own.done, foms);
    }

    /// By whoever is elsewhere.
    pub fn one_back(&self) {
        self.elsewhere.back.fetch_add(1, Ordering::SeqCst);
    }

    /// So many, by whoever is elsewhere.
    pub fn back(&self, foms: u64) {
        self.elsewhere.back.fetch_add(foms, Ordering::SeqCst);
    }

    fn begun(&self) -> u64 {
        self.own.born.load(Ordering::SeqCst) + self.elsewhere.sent.load(Ordering::SeqCst)
    }

    fn ended(&self, count: &AtomicU64) -> u64 {
        count.load(Ordering::SeqCst) + self.elsewhere.back.load(Ordering::SeqCst)
    }

    /// Foms that were submitted here and have not ended.
    pub fn in_flight(&self) -> usize {
        let left = self.ended(&self.own.left);
        self.begun().saturating_sub(left) as usize
    }

    /// Whether every fom that ever lived here has told its outcome.
    pub fn is_idle(&self) -> bool {
        all_idle(std::iter::once(self))
    }
}

/// Whether there was a moment, during this call, when every fom had told its outcome.
pub fn all_idle<'a>(counts: impl Iterator<Item = &'a Counts> + Clone) -> bool {
    let done: u64 = counts
        .clone()
        .map(|counts| counts.ended(&counts.own.done))
        .sum();
    let begun: u64 = counts.map(Counts::begun).sum();
    done == begun
}

/// How many wait until no fom is in flight.
#[derive(Debug, Default)]
pub struct Waiters(AtomicUsize);

impl Waiters {
    /// One more. Then it looks at the counts, before each of its sleeps.
    pub fn join(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// One less.
    pub fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether somebody is to be told, if all is idle now. After what was counted.
    #[inline]
    pub fn any(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) > 0
    }
}
