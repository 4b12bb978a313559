//! The end of a fom with an outcome that is remembered. Other callers with its operation id get the outcome.

use std::{any::TypeId, sync::Arc};

use tokio::sync::oneshot;

use crate::durable::{
    Durable, DurableState, NoAnswer, Remembering, Stored, Told, idempotency::Answered,
};
use fom_runtime::__durability::{DurableFom, End, Header, KeptFom as _};

impl DurableFom for DurableState {
    fn ended(&self, fom: &Header, end: End<'_>) -> Option<Box<dyn FnOnce()>> {
        let remembering = self.remembering()?;
        match end {
            End::Failed(failed) if self.inner().is_kept_failure() => {
                let durable = Durable::of_fom(fom);
                let entry = self.inner().kept_failure();
                if let Some(entry) = entry {
                    durable.quarantine.has_failed(fom.id(), &entry);
                }
                let answer = Arc::new(Stored::failed(failed));
                let place = (fom.type_id(), remembering.id.clone()?);
                let waiting = durable.memory.failed(place, fom.id(), Arc::clone(&answer));
                Some(Box::new(move || tell_all(waiting, &Ok(answer))))
            }
            end => Some(remembering.end(fom, Some(self), end)),
        }
    }

    fn given_up(&self, fom: &Header) {
        if let Some(remembering) = self.remembering() {
            remembering.forget(fom);
        }
    }
}

/// Tells callers with the same operation id how the fom ended.
fn tell_all(waiting: Vec<oneshot::Sender<Told>>, told: &Told) {
    for tell in waiting {
        // The receiver may have given up.
        let _ = tell.send(told.clone());
    }
}

/// A fom that is not kept.
impl DurableFom for Remembering {
    fn ended(&self, fom: &Header, end: End<'_>) -> Option<Box<dyn FnOnce()>> {
        Some(self.end(fom, None, end))
    }

    fn given_up(&self, fom: &Header) {
        self.forget(fom);
    }
}

impl Durable {
    /// Returns the answer of an operation that ended at this time.
    pub(super) fn answered(&self, of: TypeId, answer: Stored, at: u64) -> Answered {
        Answered {
            answer: Arc::new(answer),
            expires: self.memory.bounds().expiry(of, at),
            at,
        }
    }

    /// Returns the answer of a fom that ends now.
    pub(super) fn answered_now(&self, fom: &Header, answer: Stored) -> Answered {
        self.answered(fom.type_id(), answer, self.journal_now())
    }
}

impl Remembering {
    /// Remembers the answer of a fom that ended in an end phase or failed. Returns a function that tells it to the
    /// other callers.
    fn end(&self, fom: &Header, kept: Option<&DurableState>, end: End<'_>) -> Box<dyn FnOnce()> {
        let durable = Durable::of_fom(fom);
        let now = durable.journal_now();
        let fresh = |answer| durable.answered(fom.type_id(), answer, now);
        let (answer, other) = match end {
            End::Phase(save) => {
                let answer = self.take().unwrap_or_else(|| {
                    fresh(save().map_or_else(
                        |why| Stored::Failed {
                            cause: format!("it ended, and that cannot be remembered: {why}"),
                            phase: fom.phase_name().to_owned(),
                        },
                        Stored::Ended,
                    ))
                });
                (Ok(answer), None)
            }
            End::Shutdown => (Err(NoAnswer::Gone), None),
            End::NotCommitted(error) => {
                // What could not be committed may still enter the journal.
                let stays = kept.is_some_and(|kept| kept.is_recorded() || kept.is_uncommitted());
                let why = if stays {
                    NoAnswer::Stays
                } else {
                    NoAnswer::Gone
                };
                (Err(why), Some(Err(error.clone())))
            }
            End::Failed(failed) => match (self.take(), kept) {
                (Some(answer), _) => (Ok(answer), None),
                (None, None) => (Ok(fresh(Stored::failed(failed))), None),
                // Even the commit of the failure failed. The operation is gone, and its record stays.
                (None, Some(_)) => {
                    let failed = Stored::failed(failed);
                    (Err(NoAnswer::Stays), Some(Ok(Arc::new(failed))))
                }
            },
        };
        let told: Option<Told> = match &answer {
            Ok(answered) => Some(Ok(Arc::clone(&answered.answer))),
            Err(_) => None,
        };
        let waiting = durable.memory.ended(fom, self.id.as_ref(), answer, now);
        let told = told.or(other);
        Box::new(move || {
            if let Some(told) = told {
                tell_all(waiting, &told);
            }
        })
    }

    /// Forgets the operation id of a fom that was given up and has not ended.
    #[cold]
    fn forget(&self, fom: &Header) {
        let durable = Durable::of_fom(fom);
        let now = durable.journal_now();
        let gone = Err(NoAnswer::Gone);
        // Dropped without the lock, because a receiver may run any code.
        drop(durable.memory.ended(fom, self.id.as_ref(), gone, now));
    }
}
