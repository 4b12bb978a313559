//! Foms that held the gates of their phases when the last run of the runtime ended. After a restart they ask for their
//! gates before any other fom runs. So no other fom gets in between two phases that hold the same thing.

use std::{collections::HashSet, time::Duration};

use fom_protocol::{
    shrink::Shrink as _,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
        now,
    },
};
use fom_runtime::{__durability::Resident, FomId};

/// The foms that have not asked yet.
#[derive(Default)]
pub(crate) struct GateRecovery {
    left: AtomicUsize,
    foms: Mutex<HashSet<FomId>>,
    asked: Condvar,
}

impl GateRecovery {
    /// Adds foms that must ask for their gates. Must be called before they run.
    pub(crate) fn expect(&self, foms: impl Iterator<Item = FomId>) {
        let mut left = self.foms.lock();
        left.extend(foms);
        self.left.store(left.len(), Ordering::SeqCst);
    }

    /// Records that the fom has asked for its gate, or will not ask. A fom that has asked stands before all foms that
    /// ask later.
    #[inline]
    pub(crate) fn has_asked(&self, fom: FomId) {
        if self.left.load(Ordering::Relaxed) > 0 {
            self.strike_out(fom);
        }
    }

    #[cold]
    fn strike_out(&self, fom: FomId) {
        let mut left = self.foms.lock();
        left.remove(&fom);
        left.shrink();
        self.left.store(left.len(), Ordering::SeqCst);
        if left.is_empty() {
            self.asked.notify_all();
        }
    }

    /// Blocks until all foms have asked, at most for this time. The limit is needed because what a fom opens again
    /// before it asks may wait for others. Returns the number of foms that have not asked.
    pub(crate) fn wait(&self, most: Duration) -> usize {
        let by = now() + most;
        let foms = self.foms.lock();
        let (mut left, _) = self.asked.wait_until(foms, by, |foms| foms.is_empty());
        let late = left.len();
        left.clear();
        self.left.store(0, Ordering::SeqCst);
        late
    }
}

/// Returns whether the fom held the gate of its phase.
pub(crate) fn held_gate(fom: &Resident) -> bool {
    fom.kept().is_some_and(|kept| kept.held_gate())
}
