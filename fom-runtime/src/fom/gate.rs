//! The gates of phases. The gate of a phase opens before the phase function runs. The fom keeps the gate until a later
//! phase takes it over or has no gate.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    task::{Context, Poll, Waker},
};

use crate::{
    cx::Cx,
    fom::{
        Cause, Header, Interrupt, Typed, WaitingFor,
        next::Next,
        reference,
        run::Decided,
        transition::{Instance, cause_of},
    },
    gate::{Gate, GateError},
    operation::{Entry, Operation},
};

/// The gate of a fom, and how far it is. Made when the fom first enters a phase that has a gate.
#[derive(Default)]
pub(crate) struct GateState {
    gate: Option<Box<dyn Gate>>,
    stage: Stage,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// The operation was not asked for the gate of this visit yet. The gate is that of an earlier visit.
    #[default]
    New,
    Waits,
    /// The gate does not open. It tells its error again if it is asked again.
    Failed,
    Open,
}

impl GateState {
    /// Asks the gate of this visit. `name` returns that gate.
    fn poll(
        &mut self,
        name: impl FnOnce() -> Option<Box<dyn Gate>>,
        waker: &Waker,
    ) -> Poll<Result<(), GateError>> {
        match self.stage {
            Stage::Open => return Poll::Ready(Ok(())),
            Stage::Waits | Stage::Failed => {}
            Stage::New => {
                let mut next = name();
                match (&mut next, self.gate.take()) {
                    (Some(next), Some(before)) => next.follow(before),
                    (_, before) => drop(before),
                }
                self.gate = next;
                self.stage = Stage::Waits;
            }
        }
        let Some(gate) = &mut self.gate else {
            self.stage = Stage::Open;
            return Poll::Ready(Ok(()));
        };
        let polled = gate.poll_open(&mut Context::from_waker(waker));
        match &polled {
            Poll::Pending => {}
            Poll::Ready(Ok(())) => self.stage = Stage::Open,
            Poll::Ready(Err(_)) => self.stage = Stage::Failed,
        }
        polled
    }

    fn stop(&mut self) {
        if self.stage == Stage::Waits {
            self.stage = Stage::New;
            if let Some(gate) = &mut self.gate {
                gate.stop();
            }
        }
    }
}

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
        let mut state = fom.take_gate().unwrap_or_default();
        let name = || self.operation.gate(&self.phase, &Cx::new(fom));
        let polled = catch_unwind(AssertUnwindSafe(|| state.poll(name, waker)));
        fom.put_gate(state);
        fom.env().has_asked(fom.id());
        match polled {
            Ok(polled) => {
                if polled.is_pending() && fom.waiting_for() == WaitingFor::Nothing {
                    fom.set_waiting_for(WaitingFor::Gate);
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
        fom.set_waiting_for(WaitingFor::Nothing);
        match reference::with_waker(fom, |waker| self.poll_gate(fom, waker)) {
            Poll::Ready(Ok(())) => self.interrupted(fom, Interrupt::Late, false),
            Poll::Ready(Err(cause)) => self.fails(fom, cause),
            // The fom is still late when it wakes, and reaches this place again.
            Poll::Pending => Ok(Next::Wait(fom.waiting_for())),
        }
    }

    /// Enters a phase. The gate of the last phase is kept at most until the gate of this phase takes over from it.
    pub(super) fn leave_gate(&self, fom: &Typed<O>) {
        if self.info().is_gated() {
            if let Some(mut state) = fom.take_gate() {
                state.stage = Stage::New;
                fom.put_gate(state);
            }
        } else {
            fom.drop_gate();
        }
    }
}

/// Only the thread that runs the fom calls these functions, or a thread that has the fom alone.
impl Header {
    fn take_gate(&self) -> Option<Box<GateState>> {
        self.cold()?.gate.lock().take()
    }

    fn put_gate(&self, state: Box<GateState>) {
        *self.cold_made().gate.lock() = Some(state);
    }

    /// Stops the wait for the gate, because the phase function does not run.
    pub(super) fn stop_gate(&self) {
        if let Some(mut state) = self.take_gate() {
            self.fenced("in its gate", || state.stop());
            self.put_gate(state);
        }
        self.env().has_asked(self.id());
    }

    /// Drops the gate.
    pub(super) fn drop_gate(&self) {
        // The drop is code of another package, or the user's. It may wake any task, so it runs without a lock.
        if let Some(state) = self.take_gate() {
            self.fenced("in its gate", || drop(state));
        }
    }

    /// Returns whether the fom has a gate that is held.
    pub(super) fn holds_gate(&self) -> bool {
        let Some(state) = self.take_gate() else {
            return false;
        };
        let held = self.is_held(&state);
        self.put_gate(state);
        held
    }

    /// Takes the gate of a fom that ends, for the fom that replaces it, if the gate is held.
    pub(crate) fn leave_held_gate(&self) -> Option<Box<dyn Gate>> {
        let mut state = self.take_gate()?;
        self.fenced("in its gate", || state.stop());
        if self.is_held(&state) {
            return state.gate;
        }
        self.fenced("in its gate", || drop(state));
        None
    }

    /// Returns whether the gate is held. A gate that panics counts as held, which is safe.
    fn is_held(&self, state: &GateState) -> bool {
        let mut held = state.gate.is_some();
        let ask = || held = state.gate.as_ref().is_some_and(|gate| gate.is_held());
        self.fenced("in its gate", ask);
        held
    }

    /// Gives this fom the gate of the fom that it replaces, if its phase has a gate, too. Must be called before this
    /// fom runs.
    pub(crate) fn take_over(&self, gate: Box<dyn Gate>) {
        if self.kept().is_some_and(|kept| kept.held_gate()) {
            self.put_gate(Box::new(GateState {
                gate: Some(gate),
                stage: Stage::New,
            }));
        } else {
            self.fenced("in its gate", || drop(gate));
        }
    }
}
