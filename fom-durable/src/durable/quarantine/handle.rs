//! What a program does with the entries in quarantine.

use fom_journal::{Batch, JournalError};
use tokio::sync::oneshot;

use crate::{
    durable::{
        DiscardError, Durable, DurableState, Handover, RetryError, Types,
        quarantine::{DeadLetters, give_place_up, is_event, is_of},
    },
    entry::entry_of,
};
use fom_runtime::{
    __durability::{self as seam, Recorder, Shared},
    FomId, Operation,
    snapshot::{QuarantineKind, Quarantined},
};

/// What is in the journal of a runtime and does not run; see [`DurableExt::quarantine`](crate::DurableExt::quarantine).
///
/// Each entry has one [kind](QuarantineKind):
///
/// | kind | what it is | what to do |
/// | --- | --- | --- |
/// | `Failed` | an operation that failed in an undeclared way | fix the cause, then [`retry`](Self::retry) |
/// | `Unreadable` | this release cannot read it, or cannot run it now | start a release that can; each start tries it again |
/// | `Damaged` | the disk has damaged it | restore a copy, or [`discard`](Self::discard) it |
/// | `NoReceiver` | an event for a fom that is not there | start the fom and retry, or discard it |
/// | `Uncommitted` | its last transition waits for the journal | nothing: it goes on by itself |
///
/// A failed operation panicked, returned an error, missed a deadline without `late`, or could not be saved. (If its phase
/// has retries, this is the error of the last attempt.) Its caller got the failure, and its key and locks are free. The
/// quarantine does not keep an operation that was cancelled, or ended in an end phase with `failure`. With
/// `#[fom(failed = "forget")]` it keeps no failed operation of that machine.
///
/// [`keep_failed`](crate::DurableBuilderExt::keep_failed) sets the limits of failed operations, and
/// [`keep_events`](crate::DurableBuilderExt::keep_events) the limits of events. The other kinds have no limit, because
/// the journal must not lose them.
///
/// ```
/// use fom_durable::{QuarantineKind, prelude::*};
///
/// # async fn look(runtime: &Runtime) -> Result<(), BoxError> {
/// for failed in runtime.quarantine().list_of(QuarantineKind::Failed) {
///     // "31 Order 7 in Charge (version 1): it failed: the card was declined; try it again, or discard it"
///     eprintln!("{failed}");
/// }
/// // The release with the bug fixed:
/// let retried = runtime
///     .quarantine()
///     .retry_where(|entry| entry.kind() == QuarantineKind::Failed);
/// for (id, error) in &retried.refused {
///     eprintln!("{id}: {error}");
/// }
/// # Ok(())
/// # }
/// # let runtime = Runtime::builder().journal_with(fom_durable::journal::MemoryJournal::new()).build()?;
/// # futures::executor::block_on(look(&runtime))?;
/// # Ok::<(), BoxError>(())
/// ```
#[derive(Clone, Copy)]
#[must_use = "this is only a view"]
pub struct Quarantine<'a> {
    shared: &'a Shared,
}

/// The result of [`Quarantine::retry_where`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Retried {
    /// The foms that are back.
    pub retried: Vec<FomId>,
    /// The entries that stay in quarantine, and why.
    pub refused: Vec<(FomId, RetryError)>,
}

impl std::fmt::Debug for Quarantine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

impl<'a> Quarantine<'a> {
    pub(in crate::durable) fn of(shared: &'a Shared) -> Self {
        Self { shared }
    }

    fn durable(&self) -> &'a Durable {
        Durable::of(self.shared)
    }

    /// Returns all entries by id: the reason, and the bytes. Without a journal there are none.
    pub fn list(&self) -> Vec<Quarantined> {
        let recorder = seam::recorder(self.shared);
        recorder.map_or_else(Vec::new, Recorder::quarantined)
    }

    /// Returns the entries of one kind by id.
    pub fn list_of(&self, kind: QuarantineKind) -> Vec<Quarantined> {
        let mut all = self.list();
        all.retain(|entry| entry.kind() == kind);
        all
    }

    /// Returns the number of entries of one kind.
    pub fn count(&self, kind: QuarantineKind) -> usize {
        match seam::recorder(self.shared) {
            Some(_) => self.durable().quarantine.count(kind),
            None => 0,
        }
    }

    /// Returns how many entries of one kind were dropped at their limit since the runtime was built.
    pub fn dropped(&self, kind: QuarantineKind) -> u64 {
        match seam::recorder(self.shared) {
            Some(_) => self.durable().quarantine.dropped(kind),
            None => 0,
        }
    }

    /// Counts the events that no fom took, by reason.
    ///
    /// ```
    /// use fom_durable::{journal::MemoryJournal, prelude::*};
    ///
    /// let runtime = Runtime::builder().journal_with(MemoryJournal::new()).build()?;
    /// let letters = runtime.quarantine().dead_letters();
    /// assert_eq!((letters.without_receiver, letters.not_there), (0, 0));
    /// # Ok::<(), BoxError>(())
    /// ```
    pub fn dead_letters(&self) -> DeadLetters {
        match seam::recorder(self.shared) {
            Some(_) => self.durable().quarantine.dead_letters(),
            None => DeadLetters::default(),
        }
    }

    /// Tries an entry again. An event goes to its receiver. A fom goes on: a failed operation from the phase in which it
    /// failed, and any other from the phase that it last committed.
    ///
    /// The fom keeps its id and its step keys, so effects with a step key are not repeated. A failed operation has all
    /// its attempts and the whole time of the phase again. Its data are as its last function left them. It goes to the
    /// tail of its series, or of the queue of its key. Its end
    /// replaces the answer for its operation id ([`once`](crate::DurableSubmissionExt::once)). The fom has no handle:
    /// [`Runtime::operation`](fom_runtime::Runtime::operation) finds it.
    ///
    /// The journal drops the last attempts of the fom with the commit of the retry, soon after this method returns. The
    /// runtime tries that commit again until the journal takes it. If the process ends before, the next start has the
    /// entry in quarantine.
    ///
    /// # Errors
    ///
    /// Fails with [`RetryError`]; then the entry stays in quarantine. A fom is refused with
    /// [`RestoreError::KeyInUse`](fom_runtime::snapshot::RestoreError::KeyInUse) while another fom has its key.
    pub fn retry(&self, id: FomId) -> Result<(), RetryError> {
        let shared = self.shared;
        if seam::takes_nothing(shared) {
            return Err(RetryError::ShuttingDown);
        }
        let durable = self.durable();
        let quarantined = durable.try_again(id)?;
        if quarantined.kind() == QuarantineKind::Failed {
            return durable.retry_failed(shared, quarantined);
        }
        let done = Types::take_in(shared, entry_of(id), &quarantined.bytes);
        match done {
            Ok(fom) => {
                if !is_event(&quarantined) {
                    let kept = fom.as_ref().and_then(|fom| DurableState::of(fom));
                    durable.is_back(shared, id, kept);
                }
                if let Some(fom) = fom {
                    seam::enqueue(shared, fom);
                }
                give_place_up(&quarantined, shared);
                Ok(())
            }
            Err(still) if is_event(&quarantined) => durable
                .put_event_in_quarantine(shared, *still)
                .map_err(RetryError::Still),
            Err(mut still) => {
                let reason = still.reason.clone();
                if seam::place_of(&still).is_none() {
                    seam::set_place(&mut still, seam::place_of(&quarantined).cloned());
                }
                durable.stays_quarantined(shared, *still);
                Err(RetryError::Still(reason))
            }
        }
    }

    /// Tries all entries again for which `filter` returns true, in the order of their ids.
    pub fn retry_where(&self, mut filter: impl FnMut(&Quarantined) -> bool) -> Retried {
        let mut done = Retried::default();
        for entry in self.list() {
            if !filter(&entry) {
                continue;
            }
            match self.retry(entry.id) {
                Ok(()) => done.retried.push(entry.id),
                Err(error) => done.refused.push((entry.id, error)),
            }
        }
        done
    }

    /// Tries all failed operations of one type again.
    pub fn retry_failed<O: Operation>(&self) -> Retried {
        self.retry_where(|entry| entry.kind() == QuarantineKind::Failed && is_of(entry, O::GRAPH))
    }

    /// Removes an entry from the journal and returns it: its [bytes](Quarantined::bytes) and, if it can be read, a
    /// [snapshot](Quarantined::snapshot). Afterwards only the caller has it.
    ///
    /// # Errors
    ///
    /// Fails with [`DiscardError`]; then the entry stays in quarantine.
    ///
    /// # Cancel safety
    ///
    /// The future is not cancel safe: run it to its end, such as in a task of its own. If it is dropped, the entry is in
    /// no list until the next start, and keeps what it holds, such as its key. After that start it is in quarantine
    /// again, if the journal still has it.
    pub async fn discard(&self, id: FomId) -> Result<Quarantined, DiscardError> {
        let durable = self.durable();
        let Some(committer) = durable.committer() else {
            return Err(DiscardError::NotQuarantined(id));
        };
        let quarantined = durable.quarantine.take_out(id)?;
        let mut batch = Batch::new();
        batch.delete(entry_of(id));
        batch.end_group();
        let (tell, told) = oneshot::channel();
        committer.take(Handover::alone(batch, tell));
        match told.await.unwrap_or(Err(JournalError::Closed)) {
            Ok(()) => {
                durable.memory.discarded(id);
                give_place_up(&quarantined, self.shared);
                durable.never_comes(self.shared, id);
                Ok(quarantined)
            }
            Err(error) => {
                durable.put_back(self.shared, quarantined);
                Err(DiscardError::Journal(error))
            }
        }
    }

    /// Removes all entries of one kind from the journal. Returns them.
    ///
    /// # Errors
    ///
    /// Fails with the first [`DiscardError`]. The entries that were removed before are gone.
    ///
    /// # Cancel safety
    ///
    /// As [`discard`](Self::discard), for the entry that it removes when it is dropped.
    pub async fn discard_all(
        &self,
        kind: QuarantineKind,
    ) -> Result<Vec<Quarantined>, DiscardError> {
        let mut gone = Vec::new();
        for entry in self.list_of(kind) {
            gone.push(self.discard(entry.id).await?);
        }
        Ok(gone)
    }
}
