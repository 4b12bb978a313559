//! The fom that runs on this thread, for the messages about what a phase may not do.

use std::cell::RefCell;

use fom_runtime::{extension::Run, observe::Transition};

thread_local! {
    /// The fom that runs on this thread, and its phase.
    static FOM: RefCell<Option<(String, &'static str)>> = const { RefCell::new(None) };
}

/// Notes the fom that runs on this thread.
pub(crate) fn run_begins(run: &Run<'_>) {
    let fom = format!("{} {}", run.operation(), run.id());
    FOM.set(Some((fom, run.phase())));
}

/// Notes that no fom runs on this thread.
pub(crate) fn run_ends() {
    FOM.set(None);
}

/// Notes the phase of the fom that runs on this thread.
pub(crate) fn phase_begins(transition: &Transition<'_>) {
    if let Some(to) = transition.to() {
        FOM.with_borrow_mut(|fom| {
            if let Some((_, phase)) = fom {
                *phase = to;
            }
        });
    }
}

/// Returns the fom that runs on this thread, and its phase.
pub(crate) fn current() -> Option<(String, &'static str)> {
    // The thread may end.
    let fom = FOM.try_with(|fom| fom.try_borrow().ok()?.clone());
    fom.ok().flatten()
}
