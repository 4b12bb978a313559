//! The way out of a phase that has failed, where it has one: `failed(..)`.

use std::any::Any;

use crate::{
    error::Cause,
    fom::{
        Header, Rare, Typed,
        course::{After, Course},
    },
    operation::Operation,
};

/// How a visit has failed. Beside the fom.
#[derive(Default)]
pub(crate) struct Failing {
    /// How many of the functions that say where to go then were run: that of the phase, and those of the layers round it.
    asked: u8,
    /// It was found outside of the run loop, which has to take notice of it.
    pending: bool,
    /// The cause as one word.
    word: &'static str,
    /// A `Cause` of the error type of whoever is asked.
    cause: Option<Box<dyn Any + Send>>,
}

impl<O: Operation> Course<O> {
    /// Its phase has failed with this: where it goes, if the phase says so.
    ///
    /// A failure that comes from elsewhere, such as a cancel, is none of the phase.
    #[cold]
    pub(super) fn fails(&mut self, fom: &Typed<O>, cause: Cause<O::Error>) -> After<O> {
        let of_the_phase = matches!(
            cause,
            Cause::Error(_)
                | Cause::Panicked(_)
                | Cause::Late { .. }
                | Cause::NoThread(_)
                | Cause::Locks(_)
                | Cause::UndeclaredExit { .. }
        );
        if !const { O::GRAPH.has_ways_out() } || !of_the_phase {
            return After::failed(cause);
        }
        let asked = fom.asked();
        if asked >= self.info().ways_out() {
            return After::failed(cause);
        }
        // Should that fail too, what was said first is not lost.
        match &cause {
            Cause::Error(error) => fom.failed_attempt(O::DESCRIBE, error),
            other => fom.failed_attempt(Cause::<O::Error>::text, other),
        }
        fom.drop_outbox();
        if let Some(timing) = fom.timing() {
            timing.failed(fom);
        }
        if let Some((kept, _)) = fom.journaled() {
            kept.failed();
        }
        let failing = Failing {
            asked: asked + 1,
            pending: false,
            word: cause.name(),
            cause: Some(Box::new(cause)),
        };
        let before = fom.rare_made().failing.lock().replace(Box::new(failing));
        // What the user's error holds is dropped without the lock.
        drop(before);
        After::WayOut
    }

    /// The same, found outside of the run loop: it goes on there.
    #[cold]
    pub(super) fn fails_outside(
        &mut self,
        fom: &Typed<O>,
        cause: Cause<O::Error>,
    ) -> Result<(), Cause<O::Error>> {
        if let After::Failed(cause) = self.fails(fom, cause) {
            return Err(*cause);
        }
        if let Some(failing) = &mut *fom.rare_made().failing.lock() {
            failing.pending = true;
        }
        Ok(())
    }
}

impl<O: Operation> Typed<O> {
    /// Whether a way out is to be taken whose failure was found outside of the run loop.
    #[inline]
    pub(super) fn takes_way_out(&self) -> bool {
        if !const { O::GRAPH.has_ways_out() } {
            return false;
        }
        let pending = self.failing(|failing| std::mem::take(&mut failing.pending));
        pending.unwrap_or_default()
    }
}

/// Only the thread that runs the fom touches any of it.
impl Header {
    fn failing<T>(&self, look: impl FnOnce(&mut Failing) -> T) -> Option<T> {
        self.rare()?.failing.lock().as_deref_mut().map(look)
    }

    /// How many functions were asked in this visit where to go, the one that runs now included.
    pub(crate) fn asked(&self) -> u8 {
        self.failing(|failing| failing.asked).unwrap_or_default()
    }

    /// Why its phase has failed, as one word.
    pub(super) fn failed_with(&self) -> &'static str {
        self.failing(|failing| failing.word).unwrap_or_default()
    }

    /// Why its phase has failed, for the function that says where to go then.
    pub(crate) fn take_failure<C: 'static>(&self) -> Option<C> {
        let cause = self.failing(|failing| failing.cause.take())??;
        cause.downcast().ok().map(|cause| *cause)
    }

    /// Puts it back, as the error type of whoever is asked.
    pub(crate) fn put_failure<C: Send + 'static>(&self, cause: C) {
        let cause = Box::new(cause);
        self.failing(|failing| failing.cause = Some(cause));
    }
}

impl Rare {
    /// A visit begins.
    pub(super) fn forget_failure(&self) {
        let failing = self.failing.lock().take();
        drop(failing);
    }
}
