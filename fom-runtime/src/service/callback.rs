//! The answer of a call as a callback in the caller's locality or strand.

use std::{cell::Cell, sync::Arc};

use crate::{
    runtime::{Runtime, World},
    service::slot::Outcome,
};
use fom_protocol::sync::thread_local;

/// The callback for the answer of a call, and its locality.
pub(super) struct Callback<A, R> {
    pub(super) function: Box<dyn FnOnce(Outcome<A, R>) + Send>,
    pub(super) locality: usize,
}

/// Runs the callback in its locality. A locality runs callbacks one at a time, in the order of their arrival. All
/// callbacks of a strand go to the same locality, so this is the order of the strand. A callback is no fom, so no limit
/// of foms holds it back. If the runtime ends first, the callback runs on the thread that finds this out.
pub(super) fn run<A: Send + 'static, R: Send + 'static>(
    world: &Arc<World>,
    callback: Callback<A, R>,
    outcome: Outcome<A, R>,
) {
    let Callback { function, locality } = callback;
    let due = Due {
        function: Some(Box::new(move || function(outcome))),
        world: Arc::clone(world),
    };
    // A refused job is dropped, and its drop runs the callback.
    let _ = Runtime::of(world).post(locality, move |local| due.run(local.index()));
}

/// A callback with its answer. The drop runs a callback that has not run.
struct Due {
    function: Option<Box<dyn FnOnce() + Send>>,
    world: Arc<World>,
}

thread_local! {
    /// The runtime (an address, to compare) and the locality of the callback that runs on this thread.
    #[allow(clippy::missing_const_for_thread_local, reason = "shuttle has none")]
    static IN: Cell<Option<(usize, usize)>> = Cell::new(None);
}

/// Returns the locality of this runtime that has a fom or a callback running on this thread.
pub(super) fn here(world: &Arc<World>) -> Option<usize> {
    let callback = || IN.with(Cell::get).filter(|at| at.0 == address(world));
    crate::locality::here_in(world).or_else(|| callback().map(|at| at.1))
}

fn address(world: &Arc<World>) -> usize {
    Arc::as_ptr(world) as usize
}

impl Due {
    fn run(mut self, locality: usize) {
        let before = IN.with(|at| at.replace(Some((address(&self.world), locality))));
        self.finish();
        IN.with(|at| at.set(before));
    }

    fn finish(&mut self) {
        if let Some(function) = self.function.take()
            && let Err(panic) = super::caught(function)
        {
            self.world
                .env
                .report(format!("the callback of a call panicked: {panic}"));
        }
    }
}

impl Drop for Due {
    fn drop(&mut self) {
        self.finish();
    }
}
