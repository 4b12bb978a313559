//! The wait of a fom for the answer of a call, as a part of the graph of waits. A call that queues behind a call that
//! waits for it would wait forever.

use std::sync::{Arc, Weak};

use crate::service::entry::Entry;
use fom_runtime::extension::{Attached, Blocker, FomAddress, Hold, waits_for};

/// The kind of the wait in deadlocks.
const KIND: &str = "the answer of service";

/// The most foms to look at. A longer chain of waits counts as one that does not close.
const FAR: usize = 1000;

/// A wait of a fom for the answer of a call. It lasts until this is dropped.
pub(super) struct Awaits {
    by: FomAddress,
    call: FomAddress,
    service: Arc<Entry>,
}

impl Awaits {
    /// Makes the wait known to the graph.
    pub(super) fn new(by: FomAddress, call: FomAddress, service: &Arc<Entry>) -> Arc<Self> {
        let this = Arc::new(Self {
            by,
            call,
            service: Arc::clone(service),
        });
        this.by.attach(Arc::downgrade(&this) as Weak<dyn Attached>);
        this
    }

    /// Returns the fom that waits.
    pub(super) fn by(&self) -> &FomAddress {
        &self.by
    }

    /// Returns whether the fom waits for itself.
    pub(super) fn closes_circle(&self) -> bool {
        waits_for(&self.call, &self.by, FAR)
    }
}

impl Attached for Awaits {
    fn blockers(&self) -> Vec<Blocker> {
        vec![Blocker {
            fom: self.call.clone(),
            kind: KIND,
            subject: Some(self.service.name.clone()),
            hold: Hold::Has,
            numbers: (0, 0),
        }]
    }
}
