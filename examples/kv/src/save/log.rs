//! The changes of all shards that are not on disk yet. One log for all shards writes the changes of a transaction
//! together or not at all, even if several shards hold them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fom_runtime::submission::EventSender;
use tokio::sync::{Notify, oneshot};

use super::{Change, Save};
use crate::command::Disk;

/// The limit for unsaved bytes of changes. Beyond, every command waits for the disk, in any save mode.
const MOST: usize = 256 << 20;

/// The changes could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotSaved;

/// A fom or a task that waits for the disk.
pub(crate) enum Waiter {
    Fom(EventSender<Disk>),
    Task(oneshot::Sender<Result<(), NotSaved>>),
}

impl Waiter {
    fn tell(self, result: Result<(), NotSaved>) {
        // A waiter that is gone needs no answer.
        match self {
            Waiter::Fom(fom) => drop(fom.send(match result {
                Ok(()) => Disk::Saved,
                Err(NotSaved) => Disk::NotSaved,
            })),
            Waiter::Task(task) => drop(task.send(result)),
        }
    }
}

#[derive(Default)]
struct Pending {
    changes: Vec<Change>,
    bytes: usize,
    /// The waiters, each with the ticket up to which the log must have saved.
    waiting: Vec<(u64, Waiter)>,
    closing: bool,
    closed: bool,
}

/// The changes of one write.
#[derive(Default)]
pub(crate) struct Batch {
    pub(super) changes: Vec<Change>,
    /// The number of appended changes up to the end of this batch.
    upto: u64,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Batch({} changes)", self.changes.len())
    }
}

/// The changes that are not on disk yet.
pub(crate) struct Log {
    pending: Mutex<Pending>,
    appended: AtomicU64,
    saved: AtomicU64,
    overfull: AtomicBool,
    broken: AtomicBool,
    save: Save,
    pub(super) news: Notify,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log({:?}, {} not saved)", self.save, self.unsaved())
    }
}

impl Log {
    pub(crate) fn new(save: Save) -> Self {
        Self {
            pending: Mutex::default(),
            appended: AtomicU64::new(0),
            saved: AtomicU64::new(0),
            overfull: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            save,
            news: Notify::new(),
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        // No critical section leaves the state half changed.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends changes that belong together.
    pub(crate) fn append(&self, changes: &mut Vec<Change>) {
        let bytes: usize = changes.iter().map(Change::size).sum();
        let count = changes.len() as u64;
        let mut pending = self.pending();
        let first = pending.changes.is_empty();
        pending.changes.append(changes);
        pending.bytes += bytes;
        self.appended.fetch_add(count, Ordering::AcqRel);
        let overfull = pending.bytes > MOST;
        if overfull {
            self.overfull.store(true, Ordering::Release);
        }
        drop(pending);
        if first || overfull {
            self.news.notify_one();
        }
    }

    /// Returns the ticket up to which the log must have saved before a reply on the present state may be sent. Returns
    /// `None` if the reply may be sent at once. A command that only reads needs a ticket, too: it may have read unsaved
    /// data.
    pub(crate) fn ticket(&self) -> Option<u64> {
        if self.save != Save::Always && !self.overfull.load(Ordering::Acquire) {
            return None;
        }
        let appended = self.appended.load(Ordering::Acquire);
        (appended > self.saved.load(Ordering::Acquire)).then_some(appended)
    }

    /// Tells the waiter when the log has saved up to `ticket`. Returns the waiter if the log has already.
    pub(crate) fn wait(&self, ticket: u64, waiter: Waiter) -> Result<(), Waiter> {
        let mut pending = self.pending();
        if self.saved.load(Ordering::Acquire) >= ticket {
            return Err(waiter);
        }
        if pending.closed {
            drop(pending);
            waiter.tell(Err(NotSaved));
            return Ok(());
        }
        pending.waiting.push((ticket, waiter));
        drop(pending);
        self.news.notify_one();
        Ok(())
    }

    /// Waits until the log has saved up to `ticket`.
    pub(crate) async fn saved(&self, ticket: u64) -> Result<(), NotSaved> {
        let (tell, told) = oneshot::channel();
        match self.wait(ticket, Waiter::Task(tell)) {
            Ok(()) => told.await.unwrap_or(Err(NotSaved)),
            Err(_) => Ok(()),
        }
    }

    /// Returns the number of unsaved changes.
    pub(crate) fn unsaved(&self) -> u64 {
        let saved = self.saved.load(Ordering::Acquire);
        self.appended.load(Ordering::Acquire).saturating_sub(saved)
    }

    /// Returns whether the last write failed. The server refuses commands that write until a write succeeds.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Returns whether appended changes must be written at once.
    pub(super) fn is_urgent(&self) -> bool {
        let overfull = self.overfull.load(Ordering::Acquire);
        self.save == Save::Always || overfull || self.is_closing()
    }

    /// Waits until appended changes must be written at once, but no longer than `time`.
    pub(super) async fn urgent_within(&self, time: fom_runtime::time::Sleep) {
        tokio::pin!(time);
        while !self.is_urgent() {
            tokio::select! {
                () = self.news.notified() => {}
                () = &mut time => return,
            }
        }
    }

    /// Closes the log: the writer writes what is there, and ends.
    pub(crate) fn close(&self) {
        self.pending().closing = true;
        self.news.notify_one();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.pending().closing
    }

    /// Notes that the writer has ended.
    pub(super) fn closed(&self) {
        let waiting = {
            let mut pending = self.pending();
            pending.closed = true;
            std::mem::take(&mut pending.waiting)
        };
        for (_, waiter) in waiting {
            waiter.tell(Err(NotSaved));
        }
    }

    /// Takes all changes. Returns `None` if there are none.
    pub(super) fn take(&self) -> Option<Batch> {
        let mut pending = self.pending();
        if pending.changes.is_empty() {
            return None;
        }
        pending.bytes = 0;
        Some(Batch {
            changes: std::mem::take(&mut pending.changes),
            upto: self.appended.load(Ordering::Acquire),
        })
    }

    /// Notes that the batch is on disk.
    pub(super) fn written(&self, batch: &Batch) {
        let mut pending = self.pending();
        self.saved.store(batch.upto, Ordering::Release);
        self.broken.store(false, Ordering::Release);
        self.overfull.store(pending.bytes > MOST, Ordering::Release);
        let waiting = std::mem::take(&mut pending.waiting);
        let (told, waiting): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|(ticket, _)| *ticket <= batch.upto);
        pending.waiting = waiting;
        drop(pending);
        for (_, waiter) in told {
            waiter.tell(Ok(()));
        }
    }

    /// Keeps a batch that could not be written, and tells its waiters.
    pub(super) fn not_written(&self, mut batch: Batch) {
        let mut pending = self.pending();
        self.broken.store(true, Ordering::Release);
        batch.changes.append(&mut pending.changes);
        pending.changes = std::mem::take(&mut batch.changes);
        pending.bytes = pending.changes.iter().map(Change::size).sum();
        let waiting = std::mem::take(&mut pending.waiting);
        drop(pending);
        for (_, waiter) in waiting {
            waiter.tell(Err(NotSaved));
        }
    }
}
