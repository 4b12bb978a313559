//! What is in the journal and cannot run: listed, tried again, or taken out.

use fom_journal::{Batch, JournalError};
use tokio::sync::oneshot;

use crate::{
    durable::{Part, SetAside, Types, entry_of},
    error::{DiscardError, RetryError},
    id::FomId,
    runtime::{Runtime, world::Mode},
};

impl Runtime {
    /// What is in the journal and cannot run, by id: why, and its bytes. It stays there as it is, and is tried again at each
    /// start. [`Operations`](crate::Operations) lists it, too.
    ///
    /// Its key is free for others meanwhile, unless it waits for the journal alone: then it comes back by itself. Its operation id
    /// ([`once`](crate::Submission::once)) is not.
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
        self.world.set_aside.list()
    }

    /// Tries again to let run what was set aside: its key may be free by now. It goes on in the phase that it last committed.
    ///
    /// # Errors
    ///
    /// [`RetryError`]; then it is still set aside, for the reason that is valid now.
    pub fn retry_set_aside(&self, id: FomId) -> Result<(), RetryError> {
        let world = &self.world;
        if world.mode() != Mode::Open {
            return Err(RetryError::ShuttingDown);
        }
        let aside = world.try_again(id)?;
        let done = Types::take_in(world, entry_of(id.get()), &aside.bytes);
        match done {
            Ok(fom) => {
                if !aside.is_event() {
                    world.is_back(id, fom.as_ref().and_then(|fom| fom.kept()));
                }
                if let Some(fom) = fom {
                    crate::locality::enqueue(world, fom);
                }
                aside.give_place_up(world);
                Ok(())
            }
            Err(still) if aside.is_event() => {
                world.put_event_aside(*still).map_err(RetryError::Still)
            }
            Err(mut still) => {
                let reason = still.reason.clone();
                still.place = still.place.take().or(aside.place);
                world.stays_aside(*still);
                Err(RetryError::Still(reason))
            }
        }
    }

    /// Takes out of the journal what was set aside, and gives it back: its [bytes](SetAside::bytes), and where that can be read a
    /// [snapshot](SetAside::snapshot). After that nobody has it but the caller.
    ///
    /// # Errors
    ///
    /// [`DiscardError`]; then it is still set aside.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it was answered, it may be in the journal still, and is set aside again at the next start.
    pub async fn discard_set_aside(&self, id: FomId) -> Result<SetAside, DiscardError> {
        let world = &self.world;
        let Some(committer) = world.committer() else {
            return Err(DiscardError::NotSetAside(id));
        };
        let aside = world.set_aside.take_out(id)?;
        let mut batch = Batch::new();
        batch.delete(entry_of(id.get()));
        batch.end_group();
        let (tell, told) = oneshot::channel();
        committer.take(Part::alone(batch, tell));
        match told.await.unwrap_or(Err(JournalError::Closed)) {
            Ok(()) => {
                world.memory.discarded(id);
                aside.give_place_up(world);
                Ok(aside)
            }
            Err(error) => {
                world.set_aside.put(aside);
                Err(DiscardError::Journal(error))
            }
        }
    }
}
