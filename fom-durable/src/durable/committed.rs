//! A wait until an operation is on disk.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use fom_journal::{Batch, JournalError};
use tokio::sync::oneshot;

use crate::durable::{Durable, DurableState, Handover};
use fom_runtime::{
    __durability::{self as seam, AnyRef},
    FomRef, Persistent,
    error::DurabilityError,
    machine::Durability,
};

/// The methods of a [`FomRef`], and of a [`Handle`](fom_runtime::Handle), for its journal. The prelude has it.
pub trait DurableFomExt {
    /// Waits until the first transition of the fom is on disk. From then on the operation is *accepted*: it is carried
    /// out, whatever happens to this process.
    ///
    /// A fom that waits for its turn, or for the time of [`after`](fom_runtime::Submission::after), is on disk while it
    /// waits. Then this method returns before the fom begins.
    ///
    /// # Errors
    ///
    /// Fails with [`NotCommitted`] if the operation is not kept, if it ended before, and if the journal failed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future ends the wait, and the fom goes on.
    ///
    /// ```
    /// use fom_durable::{journal::MemoryJournal, prelude::*};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Order;
    /// # #[fom(operation(Order))]
    /// # enum Delivery {
    /// #     #[phase(start, to(Sent))]
    /// #     Pack,
    /// #     #[phase(end)]
    /// #     Sent,
    /// # }
    /// # impl DeliveryTransitions for Order {
    /// #     async fn pack(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { Ok(()) }
    /// # }
    /// # async fn accept() -> Result<(), BoxError> {
    /// let runtime = Runtime::builder().journal_with(MemoryJournal::new()).build()?;
    /// let order = runtime.submit(Order).start()?;
    /// order.committed().await?;
    /// // "202 Accepted"
    /// # order.await?;
    /// # Ok(())
    /// # }
    /// # futures::executor::block_on(accept()).unwrap();
    /// ```
    fn committed(&self) -> impl Future<Output = Result<(), NotCommitted>> + Send;
}

/// The first transition of a fom is not on disk.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotCommitted {
    /// The runtime has no journal, or the machine is `transient` or has `durability = "none"`.
    #[error("the operation is not kept: the runtime has no journal, or the machine says so")]
    NotKept,
    /// The fom ended before: it was cancelled or refused, the journal failed, or the runtime ended. Its outcome has the
    /// cause.
    #[error(
        "the operation ended before its first transition was on disk; its outcome has the cause"
    )]
    Ended,
    /// The journal failed. The runtime tries the transition again, and the operation may be on disk later.
    #[error("the first transition could not be committed yet: {0}")]
    Journal(#[source] DurabilityError),
}

impl<O: Persistent> DurableFomExt for FomRef<O> {
    async fn committed(&self) -> Result<(), NotCommitted> {
        let fom = seam::any_of(self).clone();
        let shared = seam::shared_of(&fom);
        if O::DURABILITY == Durability::None || !seam::is_journaled(shared) {
            return Err(NotCommitted::NotKept);
        }
        if DurableState::of(&fom).is_none() {
            // The handle of an operation that ended before, and that the journal remembers.
            return Ok(());
        }
        let begun = begun_or_recorded(&fom).await;
        match O::DURABILITY {
            Durability::Lazy if begun => handed_over(fom)
                .await
                .map_err(|error| NotCommitted::Journal(DurabilityError::new(error))),
            // The fom enters its first phase only when that is committed.
            _ if begun || DurableState::of(&fom).is_some_and(DurableState::is_recorded) => Ok(()),
            _ => Err(NotCommitted::Ended),
        }
    }
}

/// Waits until the fom is in a phase that it has begun, or in the journal. Returns `false` if it ends before.
async fn begun_or_recorded(fom: &AnyRef) -> bool {
    let Some(state) = DurableState::of(fom) else {
        return false;
    };
    let mut recorded = pin!(state.recording());
    let mut begun = pin!(seam::has_begun(fom));
    poll_fn(|cx| match recorded.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(true),
        Poll::Pending => begun.as_mut().poll(cx),
    })
    .await
}

/// Waits until all that the home of the fom has gathered for the journal is on disk.
pub(super) async fn handed_over(fom: AnyRef) -> Result<(), JournalError> {
    let (tell, told) = oneshot::channel();
    seam::at_home_of(fom, move |fom| {
        let durable = Durable::of_fom(fom);
        seam::with_local(|local| durable.hand_over_now(local));
        if let Some(committer) = durable.committer() {
            committer.take(Handover::alone(Batch::new(), tell));
        }
    });
    told.await.unwrap_or(Err(JournalError::Closed))
}
