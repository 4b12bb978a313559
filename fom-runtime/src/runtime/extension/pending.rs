//! Work in front of the localities, which is not a fom yet.

use fom_protocol::sync::atomic::{AtomicUsize, Ordering};

use crate::runtime::Runtime;

/// Counts work that is in flight and is not a fom yet, such as a queue in front of the localities. A drain waits for
/// this work. The drop removes what is left.
#[derive(Debug)]
pub struct PendingWork {
    runtime: Runtime,
    count: AtomicUsize,
}

impl Runtime {
    /// Returns a count of pending work, at zero.
    pub fn pending_work(&self) -> PendingWork {
        PendingWork {
            runtime: self.detached(),
            count: AtomicUsize::new(0),
        }
    }
}

impl PendingWork {
    /// Adds one piece of work. If the caller asks [`Runtime::is_accepting`] after this, a shutdown that begins
    /// meanwhile either waits for this piece, or the caller learns of the shutdown.
    pub fn enter(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.runtime.shared.queued.one_sent();
    }

    /// Removes pieces of work that have become foms, or were given up, at most as many as there are. A fom must be
    /// submitted before this call.
    pub fn leave(&self, pieces: usize) {
        let less = |count: usize| Some(count.saturating_sub(pieces));
        let order = Ordering::Relaxed;
        // The function never refuses.
        let (Ok(before) | Err(before)) = self.count.fetch_update(order, order, less);
        self.runtime.shared.queued.back(before.min(pieces) as u64);
        self.runtime.shared.tell_idle();
    }
}

impl Drop for PendingWork {
    fn drop(&mut self) {
        let left = self.count.load(Ordering::Relaxed);
        if left > 0 {
            self.leave(left);
        }
    }
}
