//! The answer of a call as a callback in the caller's locality or strand.

use std::cell::RefCell;

use crate::service::call_state::Outcome;
use fom_protocol::sync::thread_local;
use fom_runtime::{Runtime, observe::IncidentKind};

/// The callback for the answer of a call, and its locality.
pub(super) struct Callback<A, R> {
    pub(super) function: Box<dyn FnOnce(Outcome<A, R>) + Send>,
    pub(super) locality: usize,
}

/// Runs the callback in its locality. A locality runs callbacks one at a time, in the order of their arrival. All
/// callbacks of a strand go to the same locality, so this is the order of the strand. A callback is not a fom, so no
/// limit of foms holds it back. If the runtime ends first, the callback runs on the thread that finds this out.
pub(super) fn run<A: Send + 'static, R: Send + 'static>(
    runtime: &Runtime,
    callback: Callback<A, R>,
    outcome: Outcome<A, R>,
) {
    let Callback { function, locality } = callback;
    let due = Due {
        function: Some(Box::new(move || function(outcome))),
        runtime: runtime.detached(),
    };
    // A refused job is dropped, and its drop runs the callback.
    let _ = runtime.post(locality, move |local| due.run(local.index()));
}

/// A callback with its answer. The drop runs a callback that has not run.
struct Due {
    function: Option<Box<dyn FnOnce() + Send>>,
    runtime: Runtime,
}

thread_local! {
    /// The runtime and the locality of the callback that runs on this thread.
    #[allow(clippy::missing_const_for_thread_local, reason = "shuttle has none")]
    static IN: RefCell<Option<(Runtime, usize)>> = RefCell::new(None);
}

/// Returns the locality of this runtime that has a fom or a callback running on this thread.
pub(super) fn here(runtime: &Runtime) -> Option<usize> {
    runtime.extension().current_locality().or_else(|| {
        IN.with(|at| match &*at.borrow() {
            Some((of, locality)) if of == runtime => Some(*locality),
            _ => None,
        })
    })
}

impl Due {
    fn run(mut self, locality: usize) {
        let here = Some((self.runtime.clone(), locality));
        let before = IN.with(|at| at.replace(here));
        self.finish();
        IN.with(|at| at.replace(before));
    }

    fn finish(&mut self) {
        if let Some(function) = self.function.take()
            && let Err(panic) = super::caught(function)
        {
            self.runtime.report(
                IncidentKind::Panicked,
                "a call",
                format!("the callback of a call panicked: {panic}"),
            );
        }
    }
}

impl Drop for Due {
    fn drop(&mut self) {
        self.finish();
    }
}
