//! What the foms of one locality share.

use crate::fom::{Pools, Stocks};
use fom_protocol::{
    InFlight,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// The foms of one locality: their counts and their memory. Any thread may touch it.
#[derive(Default)]
pub(crate) struct LocalFoms {
    pub(crate) counts: InFlight,
    /// The memory of the foms, and their totals by operation type.
    pub(crate) pools: Pools,
    /// Memory for foms that other threads submit.
    pub(crate) outer: Mutex<Stocks>,
    /// Whether part of this memory, or of the handler's own, may be given back later.
    pub(crate) trims: Trims,
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
