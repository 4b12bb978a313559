//! What a program asks a runtime about its journal: what is in it and cannot run, and how much it keeps.

use std::future::Future;

use fom_journal::{Batch, JournalError, JournalStats};
use tokio::sync::oneshot;

use crate::{
    durable::{
        DiscardError, Durable, DurableState, Handover, RetryError, Types,
        quarantine::{give_place_up, is_event},
    },
    entry::entry_of,
};
use fom_runtime::{
    __durability::{self as seam, Recorder, Shared},
    FomId, Runtime,
    snapshot::SetAside,
};

/// The methods of a [`Runtime`] for its journal. The prelude has it.
pub trait DurableExt {
    /// Lists what is in the journal and cannot run, by id: why, and its bytes. It stays there unchanged, and each start
    /// tries it again. [`Operations`](fom_runtime::observe::Operations) lists it, too. Without a journal, the list is
    /// empty.
    ///
    /// A submission with the key of a set-aside fom may start meanwhile, unless it
    /// [queues](fom_runtime::Submission::queue). A queueing submission waits behind the set-aside fom if the operation
    /// type of that fom is known. It does not wait if the fom was set aside because the key was in use. A fom that
    /// waits for the journal alone keeps its key, and comes back by itself. The operation id
    /// ([`once`](crate::DurableSubmissionExt::once)) of a set-aside fom stays taken.
    ///
    /// ```
    /// use fom_durable::{RetryError, prelude::*};
    /// use fom_runtime::snapshot::RestoreError;
    ///
    /// # async fn look(runtime: &Runtime) -> Result<(), BoxError> {
    /// for aside in runtime.set_aside() {
    ///     // "31 Call ada in Ring (version 2): the snapshot is of version 2 of `Route`, and .."
    ///     eprintln!("{aside}");
    ///     match &aside.reason {
    ///         // It goes on by itself when there is room.
    ///         RestoreError::NotCommitted(_) => {}
    ///         RestoreError::KeyInUse(_) => match runtime.retry_set_aside(aside.id) {
    ///             Ok(()) | Err(RetryError::Still(_)) => {}
    ///             Err(error) => return Err(error.into()),
    ///         },
    ///         // No later release reads it: keep it elsewhere.
    ///         _ => {
    ///             let gone = runtime.discard_set_aside(aside.id).await?;
    ///             std::fs::write(format!("discarded-{}", gone.id), &gone.bytes)?;
    ///         }
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// # let runtime = Runtime::builder().journal_with(fom_durable::journal::MemoryJournal::new()).build()?;
    /// # futures::executor::block_on(look(&runtime))?;
    /// # Ok::<(), BoxError>(())
    /// ```
    fn set_aside(&self) -> Vec<SetAside>;

    /// Tries again to run what was set aside; its key may be free by now. It continues in the phase that it last
    /// committed.
    ///
    /// # Errors
    ///
    /// Fails with [`RetryError`]; then it is still set aside, for the reason that applies now.
    fn retry_set_aside(&self, id: FomId) -> Result<(), RetryError>;

    /// Takes what was set aside out of the journal, and returns it: its [bytes](SetAside::bytes) and, if it can be
    /// read, a [snapshot](SetAside::snapshot). Afterwards only the caller has it.
    ///
    /// # Errors
    ///
    /// Fails with [`DiscardError`]; then it is still set aside.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the answer, the record may still be in the journal. Then it is set aside again
    /// at the next start.
    fn discard_set_aside(
        &self,
        id: FomId,
    ) -> impl Future<Output = Result<SetAside, DiscardError>> + Send;

    /// Returns how much the journal keeps, as of the last commit. Returns `None` without a journal.
    fn journal_stats(&self) -> Option<JournalStats>;
}

impl DurableExt for Runtime {
    fn set_aside(&self) -> Vec<SetAside> {
        let recorder = seam::recorder(seam::shared_by(self));
        recorder.map_or_else(Vec::new, Recorder::set_aside)
    }

    fn retry_set_aside(&self, id: FomId) -> Result<(), RetryError> {
        let shared = seam::shared_by(self);
        if seam::takes_nothing(shared) {
            return Err(RetryError::ShuttingDown);
        }
        let durable = Durable::of(shared);
        let aside = durable.try_again(id)?;
        let done = Types::take_in(shared, entry_of(id), &aside.bytes);
        match done {
            Ok(fom) => {
                if !is_event(&aside) {
                    let kept = fom.as_ref().and_then(|fom| DurableState::of(fom));
                    durable.is_back(shared, id, kept);
                }
                if let Some(fom) = fom {
                    seam::enqueue(shared, fom);
                }
                give_place_up(&aside, shared);
                Ok(())
            }
            Err(still) if is_event(&aside) => durable
                .put_event_aside(shared, *still)
                .map_err(RetryError::Still),
            Err(mut still) => {
                let reason = still.reason.clone();
                if seam::place_of(&still).is_none() {
                    seam::set_place(&mut still, seam::place_of(&aside).cloned());
                }
                durable.stays_aside(shared, *still);
                Err(RetryError::Still(reason))
            }
        }
    }

    async fn discard_set_aside(&self, id: FomId) -> Result<SetAside, DiscardError> {
        discard(seam::shared_by(self), id).await
    }

    fn journal_stats(&self) -> Option<JournalStats> {
        let committer = Durable::of(seam::shared_by(self)).committer();
        committer.map(|committer| committer.stats())
    }
}

async fn discard(shared: &Shared, id: FomId) -> Result<SetAside, DiscardError> {
    let durable = Durable::of(shared);
    let Some(committer) = durable.committer() else {
        return Err(DiscardError::NotSetAside(id));
    };
    let aside = durable.set_aside.take_out(id)?;
    let mut batch = Batch::new();
    batch.delete(entry_of(id));
    batch.end_group();
    let (tell, told) = oneshot::channel();
    committer.take(Handover::alone(batch, tell));
    match told.await.unwrap_or(Err(JournalError::Closed)) {
        Ok(()) => {
            durable.memory.discarded(id);
            give_place_up(&aside, shared);
            Ok(aside)
        }
        Err(error) => {
            durable.set_aside.put(aside);
            Err(DiscardError::Journal(error))
        }
    }
}
