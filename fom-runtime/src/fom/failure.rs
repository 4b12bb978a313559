//! The way out of a failed phase, if it declares one with `failed(..)`.

use std::any::Any;

use crate::{
    fom::{
        Cause, ColdRare, Header, Typed,
        next::{Next, Step, next_cold},
        run::Decided,
        transition::Instance,
    },
    operation::{Entry, Operation},
};

/// The failure of a visit, kept beside the fom.
#[derive(Default)]
pub(crate) struct Failing {
    /// The number of `failed` functions that have run: those of the phase and of the layers around it.
    asked: u8,
    /// The failure was found outside the run loop, which must still handle it.
    pending: bool,
    /// The cause as one word.
    word: &'static str,
    /// A `Cause` of the error type that the next function expects.
    cause: Option<Box<dyn Any + Send>>,
}

impl<O: Operation> Instance<O> {
    /// Handles a failure of the phase. Returns where to go, if the phase declares that.
    ///
    /// A failure from elsewhere, such as a cancel, is not a failure of the phase.
    #[cold]
    pub(super) fn fails(&mut self, fom: &Typed<O>, cause: Cause<O::Error>) -> Decided<O> {
        let of_phase = matches!(
            cause,
            Cause::Error(_)
                | Cause::Panicked(_)
                | Cause::Late { .. }
                | Cause::NoThread(_)
                | Cause::Locks(_)
                | Cause::UndeclaredExit { .. }
        );
        let decided = next_cold(Step::Failure {
            of_phase,
            way_out: self.has_way_out(fom),
        });
        self.fails_unless(fom, decided, cause)
    }

    /// Returns whether the phase has a function for its failure that has not run yet.
    pub(super) fn has_way_out(&self, fom: &Typed<O>) -> bool {
        (const { O::GRAPH.has_ways_out() }) && fom.asked() < self.info().ways_out()
    }

    /// Fails the fom, unless the decision is to call the function for a failure. That function gets the cause.
    #[cold]
    pub(super) fn fails_unless(
        &mut self,
        fom: &Typed<O>,
        decided: Next,
        cause: Cause<O::Error>,
    ) -> Decided<O> {
        if !const { O::GRAPH.has_ways_out() } || decided != Next::Call(Entry::Failed) {
            return Err(Box::new(cause));
        }
        // The first cause must stay known if the way out fails too.
        match &cause {
            Cause::Error(error) => fom.failed_attempt(O::DESCRIBE, error),
            other => fom.failed_attempt(Cause::<O::Error>::text, other),
        }
        fom.drop_outbox();
        if let Some(timing) = fom.timing() {
            timing.failed(fom);
        }
        if let Some(kept) = fom.journaled() {
            kept.enter(Entry::Failed);
        }
        let failing = Failing {
            asked: fom.asked() + 1,
            pending: false,
            word: cause.name(),
            cause: Some(Box::new(cause)),
        };
        let before = fom
            .cold_rare_made()
            .failing
            .lock()
            .replace(Box::new(failing));
        // The user's error is dropped without the lock.
        drop(before);
        Ok(decided)
    }

    /// Like [`fails`](Self::fails), for a failure found outside the run loop. The run loop continues there.
    #[cold]
    pub(super) fn fails_outside(
        &mut self,
        fom: &Typed<O>,
        cause: Cause<O::Error>,
    ) -> Result<(), Cause<O::Error>> {
        self.fails(fom, cause).map_err(|cause| *cause)?;
        if let Some(failing) = &mut *fom.cold_rare_made().failing.lock() {
            failing.pending = true;
        }
        Ok(())
    }
}

impl<O: Operation> Typed<O> {
    /// Returns whether the run loop must take a way out for a failure that was found outside it.
    #[inline]
    pub(super) fn takes_way_out(&self) -> bool {
        if !const { O::GRAPH.has_ways_out() } {
            return false;
        }
        let pending = self.failing(|failing| std::mem::take(&mut failing.pending));
        pending.unwrap_or_default()
    }
}

/// Only the thread that runs the fom calls these functions.
impl Header {
    fn failing<T>(&self, look: impl FnOnce(&mut Failing) -> T) -> Option<T> {
        self.cold_rare()?.failing.lock().as_deref_mut().map(look)
    }

    /// Returns the number of `failed` functions that have run in this visit, the running one included.
    pub(crate) fn asked(&self) -> u8 {
        self.failing(|failing| failing.asked).unwrap_or_default()
    }

    /// Returns the cause of the failure as one word.
    pub(super) fn failed_with(&self) -> &'static str {
        self.failing(|failing| failing.word).unwrap_or_default()
    }

    /// Takes the cause of the failure, for the function that chooses where to go.
    pub(crate) fn take_failure<C: 'static>(&self) -> Option<C> {
        let cause = self.failing(|failing| failing.cause.take())??;
        cause.downcast().ok().map(|cause| *cause)
    }

    /// Puts the cause back, with the error type that the next function expects.
    pub(crate) fn put_failure<C: Send + 'static>(&self, cause: C) {
        let cause = Box::new(cause);
        self.failing(|failing| failing.cause = Some(cause));
    }
}

impl ColdRare {
    /// Forgets the failure, because a new visit begins.
    pub(super) fn forget_failure(&self) {
        let failing = self.failing.lock().take();
        drop(failing);
    }
}
