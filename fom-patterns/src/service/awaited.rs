//! The wait of a fom for the answer of a call, as a part of the graph of waits. A call that queues behind a call that
//! waits for it would wait forever.

use std::sync::Arc;

use crate::service::entry::Entry;
use fom_protocol::sync::atomic::{AtomicBool, Ordering};
use fom_runtime::extension::{Attached, Blocker, FomAddress, Hold, waits_for};

/// The kind of the wait in deadlocks.
const KIND: &str = "the answer of service";

/// The most foms to look at. A longer chain of waits counts as one that does not close.
const FAR: usize = 1000;

/// A wait of a fom for the answer of a call. It lasts until this is dropped.
pub(super) struct Awaits(Arc<Waiting>);

/// The wait, as the graph knows it. A search of the graph may keep this longer than the wait lasts.
struct Waiting {
    by: FomAddress,
    call: FomAddress,
    service: Arc<Entry>,
    is_over: AtomicBool,
}

impl Awaits {
    /// Makes the wait known to the graph.
    pub(super) fn new(by: FomAddress, call: FomAddress, service: &Arc<Entry>) -> Self {
        let wait = Arc::new(Waiting {
            by,
            call,
            service: Arc::clone(service),
            is_over: AtomicBool::new(false),
        });
        let part = Arc::downgrade(&wait);
        wait.by.attach(part);
        Self(wait)
    }

    /// Returns the fom that waits.
    pub(super) fn by(&self) -> &FomAddress {
        &self.0.by
    }

    /// Returns whether the fom waits for itself.
    pub(super) fn closes_cycle(&self) -> bool {
        waits_for(&self.0.call, &self.0.by, FAR)
    }
}

impl Drop for Awaits {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

impl Attached for Waiting {
    fn blockers(&self) -> Vec<Blocker> {
        if self.is_over.load(Ordering::Acquire) {
            return Vec::new();
        }
        vec![Blocker {
            fom: self.call.clone(),
            kind: KIND,
            subject: Some(self.service.name.clone()),
            hold: Hold::Has,
            numbers: (0, 0),
        }]
    }
}
