//! How the handle of a fom gets the outcome: the outcome stays in the fom until the handle takes it.
//! `fom-protocol/src/outcome_bits.rs` says which thread may touch the outcome at what time, and why that is right.

use std::{any::TypeId, fmt, mem::MaybeUninit, task::Waker};

use crate::{
    fom::Resident,
    operation::Operation,
    typed::{Failure, Typed},
};
use fom_protocol::{Detached, Taken};

/// A fom in its end phase, or its failure.
pub type Outcome<O> = Result<AtEnd<O>, Failure<O>>;

/// Ends a fom before its first run, with the outcome of another fom.
pub(crate) fn settle<O: Operation>(fom: Resident, outcome: Outcome<O>) {
    assert_eq!(fom.type_id(), TypeId::of::<O>());
    let mut outcome = Some(outcome);
    // SAFETY: the fom is alive and of type `O`, and the submission has it alone.
    unsafe { (fom.pool().vtable.settle)(fom.as_ptr(), (&raw mut outcome).cast()) };
}

/// Puts in the events that the fom has not taken.
pub(crate) fn with_untaken<O: Operation>(
    mut outcome: Outcome<O>,
    untaken: Vec<O::Event>,
) -> Outcome<O> {
    match &mut outcome {
        Ok(at_end) => at_end.untaken = untaken,
        Err(failure) => failure.untaken = untaken,
    }
    outcome
}

impl<O: Operation> Typed<O> {
    /// Returns the outcome if it is there. Otherwise wakes `waker` when the outcome is there. Only the handle calls this.
    pub(crate) fn poll_outcome(&self, waker: &Waker) -> Option<Result<Ended<O>, Failure<O>>> {
        let outcome = self.outcome_now();
        if outcome.is_some() {
            return outcome;
        }
        let old = self.cold_made().waker.lock().replace(waker.clone());
        // The old waker may hold the last reference to a task of the user's, so it is dropped without the lock.
        drop(old);
        self.marks.watch().then(|| self.take_answer())
    }

    /// Returns the outcome if it is there. Only the handle calls this.
    #[inline]
    pub(crate) fn outcome_now(&self) -> Option<Result<Ended<O>, Failure<O>>> {
        self.marks.is_answered().then(|| self.take_answer())
    }

    /// Returns the phase of the visit.
    pub(crate) fn phase_kind(&self) -> O::Kind {
        O::kind_at(self.visit().index())
    }

    fn take_answer(&self) -> Result<Ended<O>, Failure<O>> {
        let outcome = match self.marks.take() {
            Taken::Abandoned => Err(Failure::new(
                self.env().end_cause(),
                self.phase_kind(),
                None,
            )),
            // SAFETY: the body was left to the handle, which takes it once.
            Taken::Outcome => unsafe { self.take_outcome() },
        };
        with_untaken(outcome, self.mail.rest()).map(AtEnd::ended)
    }

    /// # Safety
    ///
    /// The outcome is in the body, and was left to the caller.
    unsafe fn take_outcome(&self) -> Outcome<O> {
        let mut outcome = MaybeUninit::<Outcome<O>>::uninit();
        // SAFETY: the fom is of `O`, so its table writes an `Outcome<O>`; the rest is the caller's promise.
        unsafe {
            (self.pool().vtable.take_outcome)(self.whole(), outcome.as_mut_ptr().cast());
            outcome.assume_init()
        }
    }

    /// Drops the handle's claim to the outcome.
    pub(crate) fn detach(&self) {
        match self.marks.detach() {
            // SAFETY: the outcome was left to the handle, and is not taken.
            Detached::Outcome => drop(unsafe { self.take_outcome() }),
            Detached::Waker => {
                let waker = self.cold().and_then(|cold| cold.waker.lock().take());
                drop(waker);
            }
            Detached::Nothing => {}
        }
    }
}

/// A fom in one of its end phases. The phase becomes an end when the handle takes the outcome.
pub struct AtEnd<O: Operation> {
    pub(crate) phase: O::Phase,
    pub(crate) operation: O,
    pub(crate) untaken: Vec<O::Event>,
}

impl<O: Operation> AtEnd<O> {
    pub(crate) fn new(operation: O, phase: O::Phase) -> Self {
        Self {
            phase,
            operation,
            untaken: Vec::new(),
        }
    }

    pub(crate) fn ended(self) -> Ended<O> {
        let kind = O::kind(&self.phase);
        let Some(end) = O::end(self.phase) else {
            unreachable!("a fom ends in an end phase, not in {kind:?}")
        };
        Ended {
            end,
            operation: self.operation,
            untaken: self.untaken,
            kind,
        }
    }
}

impl<O: Operation> fmt::Debug for AtEnd<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtEnd")
            .field("phase", &O::kind(&self.phase))
            .finish_non_exhaustive()
    }
}

/// A fom that ended in one of its end phases.
#[non_exhaustive]
pub struct Ended<O: Operation> {
    /// The end, with its data.
    pub end: O::End,
    /// The operation.
    pub operation: O,
    /// Events that were sent to the fom and that no phase took, oldest first.
    pub untaken: Vec<O::Event>,
    kind: O::Kind,
}

impl<O: Operation> Ended<O> {
    /// Returns the name of the end, as a phase without data.
    pub fn kind(&self) -> O::Kind {
        self.kind
    }
}

impl<O: Operation> fmt::Debug for Ended<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended")
            .field("end", &self.kind)
            .finish_non_exhaustive()
    }
}
