//! The end of a fom that was submitted with an operation id. The answer is remembered, and other callers with that id
//! are told.

use std::{any::TypeId, sync::Arc};

use tokio::sync::oneshot;

use crate::{
    durable::{NoAnswer, OperationId, Stored, Told},
    fom::{Cause, Failure, Header, Typed},
    operation::Operation,
};

/// The callers that wait for the end of a fom of another submission, and their answer.
pub(super) struct Others {
    waiting: Vec<oneshot::Sender<Told>>,
    answer: Option<Told>,
}

impl Others {
    pub(super) fn tell(self) {
        let Some(answer) = self.answer else { return };
        for tell in self.waiting {
            // The receiver may have given up.
            let _ = tell.send(answer.clone());
        }
    }
}

/// Remembers the answer of a fom that ended in an end phase or failed. Returns the other callers, and their answer.
pub(super) fn end<O: Operation>(
    fom: &Typed<O>,
    once: &OperationId,
    ended: Result<(&O, &O::Phase), Option<&Failure<O>>>,
) -> Others {
    let shared = fom.shared();
    let now = shared.journal_now();
    let kept = fom.journaled();
    let fresh = |answer| (answer, shared.memory.expiry(now));
    let (answer, other) = match ended {
        Ok((operation, phase)) => {
            let answer = once.take().unwrap_or_else(|| {
                fresh(Stored::ended(operation, phase).unwrap_or_else(|why| {
                    let cause = format!("it ended, and that cannot be remembered: {why}");
                    let phase = fom.phase_name().to_owned();
                    Stored::Failed { cause, phase }
                }))
            });
            (Ok(answer), None)
        }
        Err(None) => (Err(NoAnswer::Gone), None),
        Err(Some(failure)) => match &failure.cause {
            Cause::Shutdown => (Err(NoAnswer::Gone), None),
            Cause::Journal(error) => {
                let stays = kept.is_some_and(|(kept, _)| kept.is_recorded());
                let why = if stays {
                    NoAnswer::Stays
                } else {
                    NoAnswer::Gone
                };
                (Err(why), Some(Err(error.clone())))
            }
            cause => match (once.take(), kept) {
                (Some(answer), _) => (Ok(answer), None),
                (None, None) => (Ok(fresh(Stored::failed::<O>(cause, failure.phase))), None),
                // Even the commit of the failure failed. The operation is gone, and its record stays.
                (None, Some(_)) => {
                    let failed = Stored::failed::<O>(cause, failure.phase);
                    (Err(NoAnswer::Stays), Some(Ok(Arc::new(failed))))
                }
            },
        },
    };
    let answer = answer.map(|(answer, expires)| (Arc::new(answer), expires));
    let told = answer
        .as_ref()
        .ok()
        .map(|(answer, _)| Ok(Arc::clone(answer)));
    let place = (TypeId::of::<O>(), once.id.clone());
    Others {
        waiting: shared.memory.ended(&place, fom.id(), answer, now),
        answer: told.or(other),
    }
}

impl Header {
    /// Forgets the operation id of a fom that was given up and has not ended.
    #[cold]
    pub(super) fn forget_once(&self) {
        if let Some(once) = self.once() {
            let place = (self.type_id(), once.id.clone());
            let shared = self.shared();
            // Dropped without the lock, because a receiver may run any code.
            drop(
                shared
                    .memory
                    .ended(&place, self.id(), Err(NoAnswer::Gone), shared.journal_now()),
            );
        }
    }
}
