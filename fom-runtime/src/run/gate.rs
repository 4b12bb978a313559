//! The gates of phases, in the run of a fom.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    task::{Poll, Waker},
};

use crate::{
    fom::{Cause, Entry, Interrupt, RunningFom, WaitingFor, reference},
    operation::Operation,
    run::{
        next::Next,
        run_loop::Decided,
        transition::{Instance, cause_of},
    },
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
            Err(panic) => Poll::Ready(Err(cause_of(panic))),
        }
    }

    /// Waits for the gate again for a late fom that held its gate when the runtime ended. The late function runs when
    /// the gate is open, as it does without a restart.
    #[cold]
    pub(super) fn open_again(&mut self, fom: &Typed<O>) -> Decided<O> {
        // The fom may know its gate only after its resume.
        if let Some(failed) = self.resume_again(fom, Entry::Late) {
            return failed;
        }
        fom.waiting.set(WaitingFor::Nothing);
        match reference::with_waker(fom, |waker| self.poll_gate(fom, waker)) {
            Poll::Ready(Ok(())) => self.interrupted(fom, Interrupt::Late, false),
            Poll::Ready(Err(cause)) => self.fails(fom, cause),
            // The fom is still late when it wakes, and reaches this place again.
            Poll::Pending => Ok(Next::Wait(fom.waiting.get())),
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
