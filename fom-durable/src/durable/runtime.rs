//! What a program asks a runtime about its journal: what is in it and does not run, and how much it keeps.

use fom_journal::JournalStats;

use crate::durable::{Durable, Quarantine};
use fom_runtime::{__durability as seam, Runtime};

/// The methods of a [`Runtime`] for its journal. The prelude has it.
pub trait DurableExt {
    /// Returns what is in the journal and does not run: operations that failed, entries that this release cannot read,
    /// and events without a receiver. [`Operations`](fom_runtime::observe::Operations) lists it, too.
    ///
    /// A submission with the key of an entry that this release cannot read may start meanwhile, unless it
    /// [queues](fom_runtime::Submission::queue). A queueing submission waits behind that entry if its operation type is
    /// known. It does not wait if the reason is that the key was in use. A fom that waits for the journal alone keeps
    /// its key, and comes back by itself. A failed operation has no key any more. The operation id
    /// ([`once`](crate::DurableSubmissionExt::once)) of an entry stays taken.
    ///
    /// ```
    /// use fom_durable::{RetryError, prelude::*};
    /// use fom_runtime::snapshot::RestoreError;
    ///
    /// # async fn look(runtime: &Runtime) -> Result<(), BoxError> {
    /// let quarantine = runtime.quarantine();
    /// for entry in quarantine.list() {
    ///     // "31 Call ada in Ring (version 2): the snapshot is of version 2 of `Route`, and .."
    ///     eprintln!("{entry}");
    ///     match &entry.reason {
    ///         // It goes on by itself when there is room.
    ///         RestoreError::NotCommitted(_) => {}
    ///         RestoreError::KeyInUse(_) => match quarantine.retry(entry.id) {
    ///             Ok(()) | Err(RetryError::Still(_)) => {}
    ///             Err(error) => return Err(error.into()),
    ///         },
    ///         // No later release reads it: keep it elsewhere.
    ///         _ => {
    ///             let gone = quarantine.discard(entry.id).await?;
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
    fn quarantine(&self) -> Quarantine<'_>;

    /// Returns how much the journal keeps, as of the last commit. Returns `None` without a journal.
    fn journal_stats(&self) -> Option<JournalStats>;
}

impl DurableExt for Runtime {
    fn quarantine(&self) -> Quarantine<'_> {
        Quarantine::of(seam::shared_by(self))
    }

    fn journal_stats(&self) -> Option<JournalStats> {
        let committer = Durable::of(seam::shared_by(self)).committer();
        committer.map(|committer| committer.stats())
    }
}
