//! The way out of a failed phase, if it declares one with `failed(..)`.

use crate::{
    attempt::Tried,
    fom::{Cause, Entry, FailedAttempt, Header},
    graph::PhaseInfo,
    operation::Operation,
    run::{
        next::{Next, Step, next_cold},
        run_loop::Decided,
        transition::Instance,
    },
    typed::{Typed, text},
};

impl<O: Operation> Instance<O> {
    /// Handles a failure of the phase. Returns where to go, if the phase declares that.
    ///
    /// A failure from elsewhere, such as a cancel, is not a failure of the phase.
    #[cold]
    pub(super) fn fails(&mut self, fom: &Typed<O>, cause: Cause<O::Error>) -> Decided<O> {
        let decided = next_cold(Step::Failure {
            of_phase: cause.is_of_phase(),
            way_out: self.has_way_out(fom),
        });
        self.fails_unless(fom, decided, cause)
    }

    /// Returns whether the phase has a function for its failure that has not run yet.
    pub(super) fn has_way_out(&self, fom: &Typed<O>) -> bool {
        (const { O::GRAPH.needs().ways_out() })
            && fom.failure().asked() < self.visited(fom).exits.ways_out
    }

    /// Fails the fom, unless the decision is to call the function for a failure. That function gets the cause.
    #[cold]
    pub(super) fn fails_unless(
        &mut self,
        fom: &Typed<O>,
        decided: Next,
        cause: Cause<O::Error>,
    ) -> Decided<O> {
        if !const { O::GRAPH.needs().ways_out() } || decided != Next::Call(Entry::Failed) {
            if fom.env().hooks.are_heard() && cause.is_of_phase() {
                let attempt = fom.visit().failing(|| text::<O>(&cause));
                tell_attempt(fom, self.visited(fom), &attempt, &cause, None);
            }
            return Err(Box::new(cause));
        }
        // The first cause must stay known if the way out fails too.
        self.attempt_failed(fom, &cause, None);
        fom.outbox().discard();
        if let Some(timing) = fom.timing() {
            timing.failed(fom);
        }
        let turns_back = self.visited(fom).hears_cancel();
        if turns_back {
            fom.cold_made().rare_made().turn_back();
        }
        if let Some(kept) = fom.journaled() {
            kept.enter(Entry::Failed);
            if turns_back {
                kept.turn_back();
            }
        }
        fom.failure().keep(cause.name(), Box::new(cause));
        Ok(decided)
    }

    /// Keeps an attempt that failed by this cause, and tells the listeners. A cancel is no failed attempt: listeners do
    /// not hear of it. `next`: when the next attempt is due.
    #[cold]
    pub(super) fn attempt_failed(
        &self,
        fom: &Typed<O>,
        cause: &Cause<O::Error>,
        next: Option<u64>,
    ) {
        let attempt = fom.visit().failing(|| text::<O>(cause));
        if cause.is_of_phase() {
            tell_attempt(fom, self.visited(fom), &attempt, cause, next);
        }
        fom.visit().failed(attempt);
    }

    /// Like [`fails`](Self::fails), for a failure found outside the run loop. The run loop continues there.
    #[cold]
    pub(super) fn fails_outside(
        &mut self,
        fom: &Typed<O>,
        cause: Cause<O::Error>,
    ) -> Result<(), Cause<O::Error>> {
        self.fails(fom, cause).map_err(|cause| *cause)?;
        fom.failure().leave();
        Ok(())
    }
}

/// Tells the listeners of an attempt at a phase that failed.
fn tell_attempt<E>(
    fom: &Header,
    phase: &PhaseInfo,
    attempt: &Tried,
    cause: &Cause<E>,
    next: Option<u64>,
) {
    let env = fom.env();
    if let Some(hooks) = env.hooks.heard() {
        let attempt = FailedAttempt::new(fom, phase.name(), attempt, cause.name(), next);
        hooks.tell_failure(env, &attempt);
    }
}

/// Returns whether the run loop must take a way out for a failure that was found outside it.
#[inline]
pub(super) fn takes_way_out<O: Operation>(fom: &Typed<O>) -> bool {
    (const { O::GRAPH.needs().ways_out() }) && fom.failure().take_left()
}
