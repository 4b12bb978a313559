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

/// The gate of this fom.
#[derive(Clone, Copy)]
pub(crate) struct FomGate<'a>(pub(super) &'a Header);

/// Only the thread that runs the fom calls these functions, or a thread that has the fom alone.
impl FomGate<'_> {
    pub(crate) fn take(self) -> Option<Box<GateState>> {
        self.0.cold()?.ties()?.gate.lock().take()
    }

    pub(crate) fn put(self, state: Box<GateState>) {
        *self.0.cold_made().ties_made().gate.lock() = Some(state);
    }

    /// Stops the wait for the gate, because the phase function does not run.
    pub(crate) fn stop(self) {
        if let Some(mut state) = self.take() {
            self.0.fenced("in its gate", || state.stop());
            self.put(state);
        }
        self.0.env().has_asked(self.0.id());
    }

    /// Drops the gate.
    pub(crate) fn discard(self) {
        // The drop is code of another package, or the user's. It may wake any task, so it runs without a lock.
        if let Some(state) = self.take() {
            self.0.fenced("in its gate", || drop(state));
        }
    }

    /// Returns whether the fom has a gate that is held.
    pub(crate) fn is_held(self) -> bool {
        let Some(state) = self.take() else {
            return false;
        };
        let held = self.is_held_in(&state);
        self.put(state);
        held
    }

    /// Takes the gate of a fom that ends, for the fom that replaces it, if the gate is held.
    pub(crate) fn leave_held(self) -> Option<Box<dyn Gate>> {
        let mut state = self.take()?;
        self.0.fenced("in its gate", || state.stop());
        if self.is_held_in(&state) {
            return state.gate;
        }
        self.0.fenced("in its gate", || drop(state));
        None
    }

    /// Returns whether the gate is held. A gate that panics counts as held, which is safe.
    fn is_held_in(self, state: &GateState) -> bool {
        let mut held = state.gate.is_some();
        let ask = || held = state.gate.as_ref().is_some_and(|gate| gate.is_held());
        self.0.fenced("in its gate", ask);
        held
    }

    /// Gives this fom the gate of the fom that it replaces, if its phase has a gate, too. Must be called before this
    /// fom runs.
    pub(crate) fn take_over(self, gate: Box<dyn Gate>) {
        if self.0.kept().is_some_and(|kept| kept.held_gate()) {
            self.put(Box::new(GateState {
                gate: Some(gate),
                stage: Stage::New,
            }));
        } else {
            self.0.fenced("in its gate", || drop(gate));
        }
    }
}
