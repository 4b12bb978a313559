//! The calls that foms wait for, as a part of the graph of waits. A call that queues behind a call that waits for it
//! would wait forever.

use std::{collections::HashMap, sync::Arc};

use crate::service::entry::Entry;
use fom_protocol::sync::Mutex;
use fom_runtime::extension::{Attached, Blocker, FomAddress, Hold, waits_for};

/// The kind of the wait in deadlocks.
const KIND: &str = "the answer of service";

/// The most foms to look at. A longer chain of waits counts as one that does not close.
const FAR: usize = 1000;

/// The foms of the calls that one fom waits for, with the services. Kept beside the fom.
#[derive(Default)]
struct AwaitedCalls(Mutex<HashMap<FomAddress, Arc<Entry>>>);

impl Attached for AwaitedCalls {
    fn blockers(&self) -> Vec<Blocker> {
        let blocker = |(fom, service): (&FomAddress, &Arc<Entry>)| Blocker {
            fom: fom.clone(),
            kind: KIND,
            subject: Some(service.name.clone()),
            hold: Hold::Has,
            numbers: (0, 0),
        };
        self.0.lock().iter().map(blocker).collect()
    }
}

/// The wait of a fom for the answer of a call. The drop ends the wait.
pub(super) struct Awaits {
    by: FomAddress,
    call: FomAddress,
    calls: Arc<AwaitedCalls>,
}

impl Awaits {
    pub(super) fn new(by: FomAddress, call: FomAddress, service: &Arc<Entry>) -> Self {
        let calls = by.attachment::<AwaitedCalls>();
        calls.0.lock().insert(call.clone(), Arc::clone(service));
        Self { by, call, calls }
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

impl Drop for Awaits {
    fn drop(&mut self) {
        let gone = self.calls.0.lock().remove(&self.call);
        drop(gone);
    }
}
