//! The gates of phases. The gate of a phase opens before the phase function runs. The fom keeps the gate until a later
//! phase takes it over or has no gate.

use std::task::{Context, Poll, Waker};

use crate::{
    fom::Header,
    gate::{Gate, GateError},
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
    pub(crate) fn poll(
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

    /// Begins a new visit. The gate of the last visit stays, and the gate of the new visit follows it.
    pub(crate) fn begin_visit(&mut self) {
        self.stage = Stage::New;
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

/// Only the thread that runs the fom calls these functions, or a thread that has the fom alone.
impl Header {
    pub(crate) fn take_gate(&self) -> Option<Box<GateState>> {
        self.cold()?.gate.lock().take()
    }

    pub(crate) fn put_gate(&self, state: Box<GateState>) {
        *self.cold_made().gate.lock() = Some(state);
    }

    /// Stops the wait for the gate, because the phase function does not run.
    pub(crate) fn stop_gate(&self) {
        if let Some(mut state) = self.take_gate() {
            self.fenced("in its gate", || state.stop());
            self.put_gate(state);
        }
        self.env().has_asked(self.id());
    }

    /// Drops the gate.
    pub(crate) fn drop_gate(&self) {
        // The drop is code of another package, or the user's. It may wake any task, so it runs without a lock.
        if let Some(state) = self.take_gate() {
            self.fenced("in its gate", || drop(state));
        }
    }

    /// Returns whether the fom has a gate that is held.
    pub(crate) fn holds_gate(&self) -> bool {
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
