//! The fom that runs on this thread, for the messages about what a phase may not do.

use std::cell::Cell;

use fom_runtime::{FomId, extension::Run, observe::Transition};

/// A fom and its phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Current {
    pub(crate) operation: &'static str,
    pub(crate) id: FomId,
    pub(crate) phase: &'static str,
}

thread_local! {
    static CURRENT: Cell<Option<Current>> = const { Cell::new(None) };
}

/// Notes the fom that runs on this thread.
pub(crate) fn run_begins(run: &Run<'_>) {
    CURRENT.set(Some(Current {
        operation: run.operation(),
        id: run.id(),
        phase: run.phase(),
    }));
}

/// Notes that no fom runs on this thread.
pub(crate) fn run_ends() {
    CURRENT.set(None);
}

/// Notes the phase of the fom that runs on this thread.
pub(crate) fn phase_begins(transition: &Transition<'_>) {
    if let (Some(current), Some(phase)) = (CURRENT.get(), transition.to()) {
        CURRENT.set(Some(Current { phase, ..current }));
    }
}

/// Returns the fom that runs on this thread.
pub(crate) fn current() -> Option<Current> {
    // The thread may end.
    CURRENT.try_with(Cell::get).ok().flatten()
}
