//! Submission of an operation that runs once.

use std::any::TypeId;

use tokio::sync::oneshot;

use crate::durable::{Durable, Open, Passive, Place, Seen, Told};
use fom_runtime::{
    __durability::{self as seam, JoinedOutcome, KeyOf},
    Cause, Failure, FomRef, Handle, Key, Operation, Persistent, Refused, Submission,
    error::RefusedReason,
};

/// The methods of a [`Submission`] for operation ids. The prelude has it.
pub trait DurableSubmissionExt<O: Operation>: Sized {
    /// Gives the operation an id. Of all submissions of this type with the same id, one runs, and all get its answer.
    ///
    /// A submission with an id that was seen before waits for the fom in flight. If that fom has ended, the submission
    /// gets the [remembered](crate::DurableBuilderExt::remember) outcome at once, also after a restart. That
    /// outcome is the end phase and the operation, or a failure with [`Cause::Remembered`] and no operation.
    ///
    /// A failure counts as the answer; to try again, use a new id. The exception is [`Cause::Unread`]: the operation
    /// ended, but this release cannot read how.
    ///
    /// The [address](Handle::fom) of such a handle is that of the fom that runs or ran. The repeated operation is
    /// dropped. Only the first handle gets the events that no phase took.
    ///
    /// With a journal, an operation ends and is remembered in one step. An operation that ends with the runtime
    /// ([`Cause::Shutdown`]), or because the journal fails ([`Cause::Journal`]), has not ended for the journal. It is
    /// not remembered. Without a journal, the outcomes are remembered until the runtime ends.
    ///
    /// [`start`](Submission::start) fails with [`RefusedReason::Quarantined`] while the fom with this id is
    /// [quarantined](crate::DurableExt::quarantine).
    ///
    /// ```
    /// # use fom_durable::prelude::*;
    /// # use serde::{Serialize, Deserialize};
    /// #[derive(Serialize, Deserialize)]
    /// struct Pay { cents: u64 }
    ///
    /// #[fom(operation(Pay))]
    /// enum Payment {
    ///     #[phase(start, sync, to(Paid))]
    ///     Book,
    ///     #[phase(end)]
    ///     Paid { receipt: u64 },
    /// }
    /// # impl PaymentTransitions for Pay {
    /// #     fn book(&mut self, cx: &mut Cx<'_>) -> Result<PaymentAfterBook, fom_runtime::error::BoxError> {
    /// #         Ok(PaymentAfterBook::Paid { receipt: cx.id().get() })
    /// #     }
    /// # }
    /// let runtime = Runtime::builder().localities(1).build()?;
    /// let first = runtime.submit(Pay { cents: 250 }).once("order 7").start()?.wait()?;
    /// let again = runtime.submit(Pay { cents: 250 }).once("order 7").start()?.wait()?;
    /// let (PaymentEnd::Paid { receipt: one }, PaymentEnd::Paid { receipt: other }) = (first.end, again.end);
    /// assert_eq!(one, other);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn once(self, id: impl Into<Key>) -> Self
    where
        O: Persistent;
}

impl<O: Operation> DurableSubmissionExt<O> for Submission<'_, O> {
    fn once(mut self, id: impl Into<Key>) -> Self
    where
        O: Persistent,
    {
        seam::set_once(&mut self, id.into(), start_once);
        self
    }
}

/// Starts the operation, unless one with its id was started before.
#[inline(never)]
fn start_once<O: Persistent>(submission: Submission<'_, O>) -> Result<Handle<O>, Refused<O>> {
    let shared = seam::shared_for(&submission);
    let durable = Durable::of(shared);
    let Some(id) = seam::once_of(&submission).cloned() else {
        unreachable!("asked for before")
    };
    let place: Place = (TypeId::of::<O>(), id);
    let key = seam::key_of(&submission).cloned();
    let key = key.map(|key| KeyOf::key(TypeId::of::<O>(), key));
    for of in key.into_iter().chain(seam::turn_of(&submission)) {
        // A resting fom has its key, too. It is brought back now, because making a fom of it takes the lock that is
        // held from here on.
        seam::revive_key(shared, of);
    }
    // No other submission looks until this one is in flight.
    let mut slots = durable.memory.lock(durable.journal_now());
    let mut seen = slots.look(&place);
    while let Seen::Rests(id) = seen {
        drop(slots);
        if !durable.passive.revive(shared, id) {
            // Another thread brings it back.
            fom_protocol::sync::yield_now();
        }
        if seam::is_late(shared) {
            return Err(seam::refused(submission, seam::late_reason(shared)));
        }
        if Passive::is_reviving() {
            return Err(seam::refused(submission, RefusedReason::Quarantined));
        }
        slots = durable.memory.lock(durable.journal_now());
        seen = slots.look(&place);
    }
    let (fom, told) = match seen {
        Seen::Never => {
            return seam::start_now(submission, move |fom| {
                slots.began(place, fom);
                drop(slots);
            });
        }
        Seen::Quarantined => {
            drop(slots);
            return Err(seam::refused(submission, RefusedReason::Quarantined));
        }
        Seen::Rests(_) => unreachable!("looked at until it rests no more"),
        Seen::Live(fom, told) => (fom, told),
        Seen::Ended(id, answer) => {
            drop(slots);
            // A fom that has ended, with what is remembered of the fom that ran.
            return seam::settled(submission, id, || answer.outcome::<O>(O::restore));
        }
    };
    drop(slots);
    match seam::typed(&fom) {
        Some(_) if seam::is_late(shared) => {
            Err(seam::refused(submission, seam::late_reason(shared)))
        }
        Some(fom) => Ok(seam::joined(fom.clone(), answer_of(fom, told, O::restore))),
        None => unreachable!("ids are kept by type"),
    }
}

/// Returns the outcome of a fom of another submission.
fn answer_of<O: Operation>(
    fom: FomRef<O>,
    told: oneshot::Receiver<Told>,
    open: Open<O>,
) -> JoinedOutcome<O> {
    Box::pin(async move {
        let fail = |cause| Err(Failure::new(cause, seam::phase_kind(&fom), None));
        match told.await {
            Ok(Ok(answer)) => answer.outcome(open),
            Ok(Err(error)) => fail(Cause::Journal(error)),
            Err(_) => fail(seam::end_cause(seam::shared_of(seam::any_of(&fom)))),
        }
    })
}
