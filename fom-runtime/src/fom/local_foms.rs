//! What the foms of one locality share.

use crossbeam_utils::CachePadded;

use crate::fom::{
    Pools, Stocks,
    hand::{Gauges, Parcel},
};
use fom_protocol::{
    InFlight, Inbox,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// The foms of one locality: their counts, their memory and their mail. Any thread may touch it.
#[derive(Default)]
#[allow(missing_debug_implementations, reason = "hidden, for `fom-durable`")]
pub struct LocalFoms {
    /// The NUMA node that the memory of the foms is bound to. `None` if the machine has one node, or if threads are not
    /// bound either.
    pub(crate) node: Option<usize>,
    pub(crate) counts: InFlight,
    /// The memory of the foms, and their totals by operation type.
    pub(crate) pools: Pools,
    /// Memory for foms that other threads submit.
    pub(crate) outer: Mutex<Stocks>,
    /// Whether part of this memory, or of the handler's own, may be given back later.
    pub(crate) trims: Trims,
    /// The times that the adaptive phases get here.
    pub(crate) gauges: Gauges,
    /// What other threads hand to the locality.
    pub(crate) inbox: CachePadded<Inbox<Parcel>>,
    /// Number of parcels that the last look found in the inbox.
    pub(crate) arrived: AtomicUsize,
    /// Whether the locality has ended. What is posted from then on is rejected.
    pub(crate) closed: AtomicBool,
    /// Whether no fom can live in this memory any more.
    pub(crate) released: AtomicBool,
}

impl LocalFoms {
    /// Returns whether the locality has ended: nothing that is posted runs any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

/// Whether a large page was made since the handler last looked.
#[derive(Default)]
pub(crate) struct Trims(AtomicBool);

impl Trims {
    /// Asks for a look. If another thread makes the page, the handler sees the flag when it takes the fom out of its
    /// inbox.
    pub(crate) fn want(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn are_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes that the handler looks.
    pub(crate) fn begin(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
