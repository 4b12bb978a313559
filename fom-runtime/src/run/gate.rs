//! The gates of phases, in the run of a fom.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    task::{Poll, Waker},
};

use crate::{
    fom::{Cause, RunningFom, WaitingFor},
    operation::Operation,
    run::transition::{Instance, cause_of},
    typed::Typed,
};

impl<O: Operation> Instance<O> {
    /// Waits for the gate of the current phase. The phase function runs only when this is ready. Any other wake leads
    /// back to this function.
    pub(super) fn poll_gate(
        &mut self,
        fom: &Typed<O>,
        waker: &Waker,
    ) -> Poll<Result<(), Cause<O::Error>>> {
        if !self.info().is_gated() {
            return Poll::Ready(Ok(()));
        }
        // Taken out, because the gate is code of another package, or the user's.
        let mut state = fom.gate().take().unwrap_or_default();
        let name = || self.operation.gate(&self.phase, RunningFom::new(fom));
        let polled = catch_unwind(AssertUnwindSafe(|| state.poll(name, waker)));
        fom.gate().put(state);
        fom.env().has_asked(fom.id());
        match polled {
            Ok(polled) => {
                if polled.is_pending() && fom.waiting.get() == WaitingFor::Nothing {
                    fom.waiting.set(WaitingFor::Gate);
                }
                polled.map_err(Cause::Gate)
            }
            Err(panic) => Poll::Ready(Err(cause_of(fom, panic))),
        }
    }

    /// Enters a phase. The gate of the last phase is kept at most until the gate of this phase takes over from it.
    pub(super) fn leave_gate(&self, fom: &Typed<O>) {
        if self.info().is_gated() {
            if let Some(mut state) = fom.gate().take() {
                state.begin_visit();
                fom.gate().put(state);
            }
        } else {
            fom.gate().discard();
        }
    }
}
