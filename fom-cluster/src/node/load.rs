//! A slot is claimed, and its runtime is built.

use std::sync::Arc;

use fom_durable::DurableBuilderExt as _;
use fom_journal::{Lease, log::LogJournal};
use fom_protocol::schedule::spawn;
use fom_runtime::Runtime;

use super::{Here, Node};
use crate::{
    clock::boot_time,
    commits::{Owned, SlotStore},
    engine::{Claim, EngineError},
    error::ClusterError,
    poison::{Noter, Notes, NotesRuns},
    slot::Slot,
};

impl Node {
    /// Claims a slot, and builds its runtime, on a thread of its own.
    pub(super) fn load(self: &Arc<Self>, slot: Slot, seen: u64) {
        let node = Arc::clone(self);
        let main = move || {
            // If it fails, the next heartbeat tries again.
            if node.load_here(slot, seen) {
                node.wake();
            }
        };
        if let Err(error) = spawn("fom-load", main) {
            let error = ClusterError::Thread(Arc::new(error));
            self.state.lock().not_loaded(slot, None, Some(error));
        }
    }

    /// Returns whether the runtime serves the slot.
    fn load_here(self: &Arc<Self>, slot: Slot, seen: u64) -> bool {
        let not_loaded = |owned, error| {
            self.state.lock().not_loaded(slot, owned, error);
            false
        };
        let (owned, notes) = match self.claim(slot, seen) {
            Ok(Some(claimed)) => claimed,
            // Another node was faster.
            Ok(None) => return not_loaded(None, None),
            Err(error) => return not_loaded(None, Some(ClusterError::Engine(error))),
        };
        if !self.state.lock().claimed(&owned) {
            return false;
        }
        let noter = Noter::new(Arc::clone(&self.engine), Arc::clone(&owned), notes);
        // Before a fom runs: a death that is not noted does not count.
        if !noter.write() {
            return not_loaded(Some(&owned), None);
        }
        if noter.has_notes() {
            self.state.lock().noting(&noter, boot_time());
        }
        let is_loaded = match self.build(&owned, &noter) {
            Ok(runtime) => {
                let late = self.state.lock().loaded(&owned, runtime);
                drop(late);
                true
            }
            Err(error) => {
                owned.lease.lose();
                not_loaded(Some(&owned), Some(error))
            }
        };
        self.tell();
        is_loaded
    }

    fn claim(&self, slot: Slot, seen: u64) -> Result<Option<(Arc<Owned>, Notes)>, EngineError> {
        let incarnation = self.incarnation();
        let mut claim = Claim::new(slot, seen, &incarnation, self.time.now());
        claim.reads = self.registry.versions();
        let Some(claimed) = self.engine.claim(&claim)? else {
            return Ok(None);
        };
        // The slot may have had an owner whose clock was ahead.
        self.time.is_at_least(claimed.time, boot_time());
        let until = self.state.lock().until();
        let lease = Lease::new(claimed.term, until, boot_time);
        let owned = Owned::new(slot, incarnation, lease, claimed.last);
        Ok(Some((Arc::new(owned), Notes::of(&claimed, &self.view()))))
    }

    fn build(
        self: &Arc<Self>,
        owned: &Arc<Owned>,
        noter: &Arc<Noter>,
    ) -> Result<Runtime, ClusterError> {
        let store = SlotStore {
            owned: Arc::clone(owned),
            commits: Arc::clone(&self.commits),
            engine: Arc::clone(&self.engine),
            time: Arc::clone(&self.time),
        };
        let builder = (self.set_up)(Runtime::builder().localities(1));
        let mut builder = builder
            .resource(Here::new(self, owned))
            .journal_with(LogJournal::new(store))
            .hold_back(noter.held_back());
        if noter.is_noting() {
            builder = builder.listen_to_runs(NotesRuns(Arc::clone(noter)));
        }
        builder.build().map_err(|error| ClusterError::Build {
            slot: owned.slot,
            source: Arc::new(error),
        })
    }
}
