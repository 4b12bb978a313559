//! The failure of a phase that declares a way out with `failed(..)`.

use std::any::Any;

use crate::fom::{ColdRare, Header};

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

/// The failure of the visit of this fom.
#[derive(Clone, Copy)]
pub(crate) struct VisitFailure<'a>(pub(super) &'a Header);

/// Only the thread that runs the fom calls these functions.
impl VisitFailure<'_> {
    fn look<T>(self, look: impl FnOnce(&mut Failing) -> T) -> Option<T> {
        self.0
            .cold()?
            .rare()?
            .failing
            .lock()
            .as_deref_mut()
            .map(look)
    }

    /// Returns the number of `failed` functions that have run in this visit, the running one included.
    pub(crate) fn asked(self) -> u8 {
        self.look(|failing| failing.asked).unwrap_or_default()
    }

    /// Keeps the cause of a failure, for the next function that says where to go.
    pub(crate) fn keep(self, word: &'static str, cause: Box<dyn Any + Send>) {
        let failing = Failing {
            asked: self.asked() + 1,
            pending: false,
            word,
            cause: Some(cause),
        };
        let before = self
            .0
            .cold_made()
            .rare_made()
            .failing
            .lock()
            .replace(Box::new(failing));
        // The user's error is dropped without the lock.
        drop(before);
    }

    /// Leaves the failure to the run loop, which must still handle it.
    pub(crate) fn leave(self) {
        self.look(|failing| failing.pending = true);
    }

    /// Returns whether the run loop must handle a failure that was found outside it. Answers so once.
    pub(crate) fn take_left(self) -> bool {
        let left = self.look(|failing| std::mem::take(&mut failing.pending));
        left.unwrap_or_default()
    }

    /// Returns the cause of the failure as one word.
    pub(crate) fn word(self) -> &'static str {
        self.look(|failing| failing.word).unwrap_or_default()
    }

    /// Takes the cause of the failure, for the function that chooses where to go.
    pub(crate) fn take<C: 'static>(self) -> Option<C> {
        let cause = self.look(|failing| failing.cause.take())??;
        cause.downcast().ok().map(|cause| *cause)
    }

    /// Puts the cause back, with the error type that the next function expects.
    pub(crate) fn put<C: Send + 'static>(self, cause: C) {
        let cause = Box::new(cause);
        self.look(|failing| failing.cause = Some(cause));
    }
}

impl ColdRare {
    /// Forgets the failure, because a new visit begins.
    pub(super) fn forget_failure(&self) {
        let failing = self.failing.lock().take();
        drop(failing);
    }
}
