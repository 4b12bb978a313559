//! Totals of one operation type.

use fom_protocol::{
    count,
    sync::atomic::{AtomicU64, Ordering},
};

/// The totals of one operation type in one pool.
#[derive(Default)]
pub(crate) struct Totals {
    /// Written by the owner of the stock.
    pub(crate) started: AtomicU64,
    /// Written by the handler of the pool's locality.
    here: Ends,
    /// Foms that ended in another locality, or were given up on. Written by any thread.
    elsewhere: Ends,
}

/// Counts and times of ends. The times are in nanoseconds.
#[derive(Default)]
pub(crate) struct Ends {
    pub(crate) ended: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) nanos: AtomicU64,
    pub(crate) longest: AtomicU64,
    pub(crate) untaken: AtomicU64,
}

impl Totals {
    #[inline]
    pub(crate) fn started(&self) {
        count(&self.started, 1);
    }

    /// Counts an end. Only the handler of the pool's locality calls this.
    #[inline]
    pub(crate) fn ended(&self, failed: bool, nanos: u64, untaken: usize) {
        let here = &self.here;
        count(&here.nanos, nanos);
        if nanos > here.longest.load(Ordering::Relaxed) {
            here.longest.store(nanos, Ordering::Relaxed);
        }
        if failed {
            count(&here.failed, 1);
        }
        if untaken > 0 {
            count(&here.untaken, untaken as u64);
        }
        count(&here.ended, 1);
    }

    /// Counts an end on any other thread.
    #[cold]
    pub(crate) fn ended_elsewhere(&self, failed: bool, nanos: u64, untaken: usize) {
        let elsewhere = &self.elsewhere;
        elsewhere.nanos.fetch_add(nanos, Ordering::Relaxed);
        elsewhere.longest.fetch_max(nanos, Ordering::Relaxed);
        elsewhere.failed.fetch_add(failed.into(), Ordering::Relaxed);
        self.left_behind_elsewhere(untaken);
        elsewhere.ended.fetch_add(1, Ordering::Release);
    }

    /// Counts events that no phase took, of a fom that was given up on.
    pub(crate) fn left_behind_elsewhere(&self, events: usize) {
        self.elsewhere
            .untaken
            .fetch_add(events as u64, Ordering::Relaxed);
    }

    pub(crate) fn ends(&self) -> [&Ends; 2] {
        [&self.here, &self.elsewhere]
    }
}
