//! What a store promises, and what it reports.

use std::{any::TypeId, path::Path, time::Duration};

use crate::{Batch, Damage, EntryId, JournalError, Lease};

/// Keeps entries across a crash.
///
/// One thread uses a journal at a time, and its functions may block. Other stores can implement this trait. The tests
/// in `conformance`, with the feature `testing`, check that a store keeps the promises of this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no journal",
    label = "this is no journal",
    note = "`FileJournal` and `MemoryJournal` are; for another store, implement `fom_journal::Journal`"
)]
pub trait Journal: Send + 'static {
    /// Passes each entry to `to` once, the entries below [`EntryId::HEAD`] first.
    ///
    /// The caller calls it once, before any other method.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be read, or if it is not known which entries are lost. A damaged entry with a known
    /// number is no error: [`Recover::damaged`] reports it.
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError>;

    /// Makes the ended groups of the batch durable, in their order, and executes their statements with them. The open group is
    /// not committed.
    ///
    /// # Errors
    ///
    /// After a failure, the next commit that succeeds discards all groups of this batch. Commits succeed again once the
    /// cause is gone. If the process ends before such a commit, the journal may have kept some first groups of
    /// the batch. These can be none or all, and have no gap.
    ///
    /// With [`JournalError::Statement`], nothing of the batch is kept. The caller can leave the group of this statement out, and
    /// commit the others again.
    ///
    /// [`JournalError::Fenced`] is final: the caller makes no further call but [`stats`](Self::stats). If a store does
    /// not know whether its server has kept the batch, it must find out inside this method, by a *write* to the server.
    /// A read can show what a later failure of the server undoes.
    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError>;

    /// Returns whether [`commit_later`](Self::commit_later) can begin commits. The answer never changes. Default: `false`.
    fn commits_later(&self) -> bool {
        false
    }

    /// Begins to commit the batch as [`commit`](Self::commit) does, and does not wait for the end. `done` learns of the end, once,
    /// on another thread, and not inside this call. Until then the caller calls no other method. Afterwards it calls
    /// [`settle`](Self::settle) before any other method. A commit with a `done` that is dropped never ends.
    ///
    /// Returns `done` if the journal has not begun: the caller commits with [`commit`](Self::commit). The default always does.
    fn commit_later(&mut self, batch: &Batch, done: Committed) -> Option<Committed> {
        let _ = batch;
        Some(done)
    }

    /// Notes how a commit ended that [`commit_later`](Self::commit_later) began. `is_kept`: the store has the batch. The
    /// default does nothing.
    fn settle(&mut self, is_kept: bool) {
        let _ = is_kept;
    }

    /// Does a bounded part (about a millisecond) of the work that frees space. Returns `true` if there is more to do.
    ///
    /// The caller calls it between two commits, and while there is nothing to commit. The default does nothing.
    ///
    /// # Errors
    ///
    /// Fails with errors of the store. Committed entries stay.
    fn tidy(&mut self) -> Result<bool, JournalError> {
        Ok(false)
    }

    /// Returns the length of the longest entry that the journal takes, in bytes. Default: [`usize::MAX`].
    ///
    /// A commit with a longer entry fails as a whole, so the caller leaves out groups with such entries.
    fn longest(&self) -> usize {
        usize::MAX
    }

    /// Returns the type of the [statements](crate::Batch::execute) that the store executes in the transaction of a commit.
    /// Default: none. Then no caller gives it a batch with statements.
    fn executes(&self) -> Option<TypeId> {
        None
    }

    /// Returns the lease of this process, if another process can take the journal over. Default: none. Called once,
    /// before [`recover`](Self::recover).
    fn lease(&self) -> Option<Lease> {
        None
    }

    /// Returns the time of the store, if it has a clock of its own, which goes on while no process has the journal
    /// open. It must never go back. Deadlines then follow this clock. Default: none, and deadlines follow the clocks of
    /// the machine.
    fn time(&self) -> Option<Duration> {
        None
    }

    /// Returns the size and the costs of the journal.
    fn stats(&self) -> JournalStats;
}

/// Learns how a commit ended that [`Journal::commit_later`] began. The errors are those of [`Journal::commit`].
pub type Committed = Box<dyn FnOnce(Result<(), JournalError>) + Send>;

/// Receives the entries of a journal during recovery.
pub trait Recover {
    /// Announces the number of entries, if it is known. Called at most once, before the entries.
    fn expect(&mut self, entries: u64) {
        let _ = entries;
    }

    /// Receives the place of the entry that [`entry`](Self::entry) gets next: its file, and its offset there in bytes. Only
    /// stores in files call this.
    fn place(&mut self, file: &Path, offset: u64) {
        let _ = (file, offset);
    }

    /// Receives an entry and its newest bytes.
    fn entry(&mut self, id: EntryId, bytes: &[u8]);

    /// Receives the number of an entry with damaged newest bytes. The entry stays damaged until it is put or deleted.
    fn damaged(&mut self, id: EntryId, damage: Damage);
}

/// The result of a recovery. Other stores begin with `Recovery::default()` and set the fields that they know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// The number of entries passed to [`Recover::entry`].
    pub entries: u64,
    /// The torn end of the last file: a crash broke off a write there, which was never acknowledged. Recovery cuts it
    /// off.
    pub torn: Option<Damage>,
    /// Unreadable places where entries may be lost. Entries passed to [`Recover::damaged`] are not in this list.
    pub gaps: Vec<Damage>,
}

/// The size and the costs of a journal. Other stores begin with `JournalStats::default()` and set the fields that they
/// know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalStats {
    /// Entries in the journal.
    pub entries: u64,
    /// Total length of these entries, in bytes.
    pub live_bytes: u64,
    /// Size of the journal on the disk, in bytes.
    pub size_bytes: u64,
    /// Bytes written since the journal was opened, including the next two counts.
    pub written_bytes: u64,
    /// Of these, bytes of entries that were written again to free space.
    pub moved_bytes: u64,
    /// Of these, bytes written ahead, so that a file has its space on the disk before it is used.
    pub prepared_bytes: u64,
    /// Syncs since the journal was opened.
    pub syncs: u64,
}
