//! The right of one process to run what a shared journal holds.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

/// The right of one process to run the operations of a journal that several processes can open.
///
/// A journal with such a right returns it from [`Journal::lease`](crate::Journal::lease). The store extends the lease
/// while it hears from its server. A runtime enters no phase function after the end of the lease, and goes on when the
/// lease is extended. When another process has taken the journal over, the store calls [`lose`](Self::lose), and the
/// runtime ends.
///
/// The idea is the lease of Gray and Cheriton (1989), with a fencing token, here called the *term*.
///
/// Clones share the lease.
///
/// ```
/// use fom_journal::Lease;
/// use std::time::Duration;
///
/// let now = Duration::from_secs(100);
/// let lease = Lease::new(7, Duration::from_secs(104), move || now);
/// assert!(lease.holds());
/// lease.lose();
/// assert!(!lease.holds());
/// ```
#[derive(Clone)]
pub struct Lease(Arc<Inner>);

struct Inner {
    term: AtomicU64,
    /// The end of the lease on the clock, in nanoseconds, or [`LOST`].
    until: AtomicU64,
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    watchers: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

/// The end of a lease that is lost.
const LOST: u64 = 0;

impl Lease {
    /// Creates a lease that ends at `until` on `clock`. `clock` is read at each check. It must go on while the process is
    /// stopped and while the machine sleeps, as `CLOCK_BOOTTIME` does.
    pub fn new(
        term: u64,
        until: Duration,
        clock: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            term: AtomicU64::new(term),
            until: AtomicU64::new(nanos(until)),
            clock: Box::new(clock),
            watchers: Mutex::default(),
        }))
    }

    /// Returns the fencing token. It only grows, over all processes that had the journal. A receiver of effects that
    /// keeps the highest term it has seen can refuse the effects of an earlier owner.
    pub fn term(&self) -> u64 {
        self.0.term.load(Ordering::Acquire)
    }

    /// Returns whether the lease holds at this moment. Reads the clock.
    #[inline]
    pub fn holds(&self) -> bool {
        let until = self.0.until.load(Ordering::Acquire);
        nanos((self.0.clock)()) < until
    }

    /// Moves the end of the lease to `until`, on the lease's clock. The end never goes back, and a lost lease stays
    /// lost.
    pub fn extend(&self, until: Duration) {
        let later = |before| (before != LOST).then(|| nanos(until).max(before));
        // An error means that it is lost.
        let _ = self
            .0
            .until
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
    }

    /// Sets the term, after the same process has claimed the journal again.
    pub fn set_term(&self, term: u64) {
        self.0.term.fetch_max(term, Ordering::AcqRel);
    }

    /// Ends the lease for good: another process has the journal. Calls what [`on_lost`](Self::on_lost) registered.
    pub fn lose(&self) {
        self.0.until.store(LOST, Ordering::SeqCst);
        let watchers = std::mem::take(&mut *self.0.watchers.lock());
        watchers.into_iter().for_each(|tell| tell());
    }

    /// Returns whether the lease is lost for good.
    pub fn is_lost(&self) -> bool {
        self.0.until.load(Ordering::SeqCst) == LOST
    }

    /// Calls `tell` when the lease is lost; at once, if it is lost already. `tell` runs on the thread that loses the
    /// lease, and must return soon.
    pub fn on_lost(&self, tell: impl FnOnce() + Send + 'static) {
        let mut watchers = self.0.watchers.lock();
        watchers.push(Box::new(tell));
        // Under the lock: `lose` takes the watchers after it has set the mark.
        let missed = if self.is_lost() {
            std::mem::take(&mut *watchers)
        } else {
            Vec::new()
        };
        drop(watchers);
        missed.into_iter().for_each(|tell| tell());
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("term", &self.term())
            .field("holds", &self.holds())
            .field("lost", &self.is_lost())
            .finish()
    }
}

/// Returns the time in nanoseconds: at least one, since zero is [`LOST`], and at most 584 years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn lease() -> (Lease, Arc<AtomicU64>) {
        let now = Arc::new(AtomicU64::new(10));
        let clock = Arc::clone(&now);
        let clock = move || Duration::from_secs(clock.load(Ordering::SeqCst));
        (Lease::new(1, Duration::from_secs(11), clock), now)
    }

    #[test]
    fn a_lease_ends_at_its_time_and_goes_on_when_it_is_extended() {
        let (lease, now) = lease();
        lease.extend(Duration::from_secs(12));
        lease.extend(Duration::from_secs(11));
        now.store(11, Ordering::SeqCst);
        assert!(lease.holds(), "its end never goes back");
        now.store(12, Ordering::SeqCst);
        assert!(!lease.holds());
        lease.extend(Duration::from_secs(13));
        assert!(lease.holds());
    }

    #[test]
    fn a_lost_lease_stays_lost_and_tells_each_watcher_once() {
        let (lease, told) = (lease().0, Arc::new(AtomicUsize::new(0)));
        let tell = || {
            let told = Arc::clone(&told);
            move || _ = told.fetch_add(1, Ordering::SeqCst)
        };
        lease.on_lost(tell());
        lease.extend(Duration::from_secs(20));
        lease.lose();
        lease.lose();
        lease.extend(Duration::from_secs(30));
        lease.on_lost(tell());
        assert!(!lease.holds() && lease.is_lost());
        assert_eq!(told.load(Ordering::SeqCst), 2);
    }
}
