//! The answer of a call as a function that is run with it, in the caller's locality or strand.

use std::{cell::Cell, sync::Arc};

use crate::{
    runtime::{Runtime, World},
    service::slot::Outcome,
    sync::thread_local,
};

/// What is to be run with the answer of a call, and in which locality.
pub(super) struct Callback<A, R> {
    pub(super) function: Box<dyn FnOnce(Outcome<A, R>) + Send>,
    pub(super) locality: usize,
}

/// Runs it there. A locality runs one at a time, those that came first before the others: that is the order of a strand, whose
/// callbacks all go to the same one. It is no fom, so no limit of foms keeps it from being run; one that the end of the runtime
/// leaves over is run where that is found out.
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
    // Refused, it is run by being dropped.
    let _ = Runtime::of(world).post(locality, move |local| due.run(local.index()));
}

/// A callback with its answer. Dropped before it was run, it is run.
struct Due {
    function: Option<Box<dyn FnOnce() + Send>>,
    world: Arc<World>,
}

thread_local! {
    /// In which locality of which runtime (an address, to compare) a callback runs on this thread.
    #[allow(clippy::missing_const_for_thread_local, reason = "shuttle has none")]
    static IN: Cell<Option<(usize, usize)>> = Cell::new(None);
}

/// The locality of this runtime that this thread runs something of: a fom, or a callback.
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
                .incident(format!("the callback of a call panicked: {panic}"));
        }
    }
}

impl Drop for Due {
    fn drop(&mut self) {
        self.finish();
    }
}
