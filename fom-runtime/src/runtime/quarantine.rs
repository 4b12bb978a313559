//! What is in the journal and cannot run: list it, try it again, or take it out.

use fom_journal::{Batch, JournalError};
use tokio::sync::oneshot;

use crate::{
    durable::{Part, SetAside, Types},
    id::{FomId, entry_of},
    runtime::{DiscardError, RetryError, Runtime, shared::RuntimeState},
};

impl Runtime {
    /// Lists what is in the journal and cannot run, by id: why, and its bytes. It stays there unchanged, and each start
    /// tries it again. [`Operations`](crate::Operations) lists it, too.
    ///
    /// A submission with the key of a set-aside fom may start meanwhile, unless it [queues](crate::Submission::queue).
    /// A queueing submission waits behind the set-aside fom if the operation type of that fom is known. It does not
    /// wait if the fom was set aside because the key was in use. A fom that waits for the journal alone keeps its key,
    /// and comes back by itself. The operation id ([`once`](crate::Submission::once)) of a set-aside fom stays taken.
    ///
    /// ```
    /// use fom_runtime::{RestoreError, RetryError, prelude::*};
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
    ///         // Nobody will ever read it: keep it elsewhere.
    ///         _ => {
    ///             let gone = runtime.discard_set_aside(aside.id).await?;
    ///             std::fs::write(format!("discarded-{}", gone.id), &gone.bytes)?;
    ///         }
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// # let runtime = Runtime::builder().journal_with(fom_runtime::journal::MemoryJournal::new()).build()?;
    /// # futures::executor::block_on(look(&runtime))?;
    /// # Ok::<(), BoxError>(())
    /// ```
    pub fn set_aside(&self) -> Vec<SetAside> {
        self.shared.set_aside.list()
    }

    /// Tries again to run what was set aside; its key may be free by now. It continues in the phase that it last
    /// committed.
    ///
    /// # Errors
    ///
    /// Fails with [`RetryError`]; then it is still set aside, for the reason that applies now.
    pub fn retry_set_aside(&self, id: FomId) -> Result<(), RetryError> {
        let shared = &self.shared;
        if shared.state() != RuntimeState::Open {
            return Err(RetryError::ShuttingDown);
        }
        let aside = shared.try_again(id)?;
        let done = Types::take_in(shared, entry_of(id.get()), &aside.bytes);
        match done {
            Ok(fom) => {
                if !aside.is_event() {
                    shared.is_back(id, fom.as_ref().and_then(|fom| fom.kept()));
                }
                if let Some(fom) = fom {
                    crate::locality::enqueue(shared, fom);
                }
                aside.give_place_up(shared);
                Ok(())
            }
            Err(still) if aside.is_event() => {
                shared.put_event_aside(*still).map_err(RetryError::Still)
            }
            Err(mut still) => {
                let reason = still.reason.clone();
                still.place = still.place.take().or(aside.place);
                shared.stays_aside(*still);
                Err(RetryError::Still(reason))
            }
        }
    }

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
    pub async fn discard_set_aside(&self, id: FomId) -> Result<SetAside, DiscardError> {
        let shared = &self.shared;
        let Some(committer) = shared.committer() else {
            return Err(DiscardError::NotSetAside(id));
        };
        let aside = shared.set_aside.take_out(id)?;
        let mut batch = Batch::new();
        batch.delete(entry_of(id.get()));
        batch.end_group();
        let (tell, told) = oneshot::channel();
        committer.take(Part::alone(batch, tell));
        match told.await.unwrap_or(Err(JournalError::Closed)) {
            Ok(()) => {
                shared.memory.discarded(id);
                aside.give_place_up(shared);
                Ok(aside)
            }
            Err(error) => {
                shared.set_aside.put(aside);
                Err(DiscardError::Journal(error))
            }
        }
    }
}
