//! What names a fom for its whole life: its id, and the time of its submission.

use crate::id::FomId;
use fom_protocol::sync::atomic::{AtomicU64, Ordering};

/// The id of a fom, and the time of its submission. Written by the submission.
#[derive(Default)]
pub(crate) struct Identity {
    id: AtomicU64,
    submitted: AtomicU64,
}

impl Identity {
    /// Sets the state of a new fom.
    #[inline(always)]
    pub(super) fn reset(&self, id: FomId, submitted: u64) {
        self.id.store(id.0, Ordering::Relaxed);
        self.submitted.store(submitted, Ordering::Relaxed);
    }

    /// Sets the time of the submission of a fom that came back. The time may be before the start of the clock.
    pub(crate) fn was_submitted(&self, at: u64) {
        self.submitted.store(at, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn id(&self) -> FomId {
        FomId(self.id.load(Ordering::Relaxed))
    }

    /// Returns the time of the submission. It is negative, in two's complement, if it is before the start of the clock.
    #[inline]
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }
}
