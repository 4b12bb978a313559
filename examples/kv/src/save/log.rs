//! What has changed and is not on disk yet, of all shards together: so that what a transaction changed in several of them is
//! written at once or not at all.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fom_runtime::EventSender;
use tokio::sync::{Notify, oneshot};

use super::{Change, Save};
use crate::command::Disk;

/// Bytes of changes that are not on disk: beyond, every command waits for the disk, whatever was asked for.
const MOST: usize = 256 << 20;

/// What has changed could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotSaved;

/// Who waits until something is on disk.
pub(crate) enum Waiter {
    Fom(EventSender<Disk>),
    Task(oneshot::Sender<Result<(), NotSaved>>),
}

impl Waiter {
    fn tell(self, result: Result<(), NotSaved>) {
        // Who is gone needs no answer.
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
    /// Who waits, and up to where the log must have saved for that.
    waiting: Vec<(u64, Waiter)>,
    closing: bool,
    closed: bool,
}

/// What is written at once.
#[derive(Default)]
pub(crate) struct Batch {
    pub(super) changes: Vec<Change>,
    /// How many changes were appended up to here.
    upto: u64,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Batch({} changes)", self.changes.len())
    }
}

/// What is not on disk yet.
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
        // Nothing that is done under it leaves it half done.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds changes that belong together.
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

    /// Up to where the log must have saved before a reply may be sent that tells of what is in it now; none if it may be sent at
    /// once. That is so for what only reads, too: it may have read what is not on disk.
    pub(crate) fn ticket(&self) -> Option<u64> {
        if self.save != Save::Always && !self.overfull.load(Ordering::Acquire) {
            return None;
        }
        let appended = self.appended.load(Ordering::Acquire);
        (appended > self.saved.load(Ordering::Acquire)).then_some(appended)
    }

    /// Tells the waiter when the log has saved up to there; gives it back if it has.
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

    /// Waits until the log has saved up to there.
    pub(crate) async fn saved(&self, ticket: u64) -> Result<(), NotSaved> {
        let (tell, told) = oneshot::channel();
        match self.wait(ticket, Waiter::Task(tell)) {
            Ok(()) => told.await.unwrap_or(Err(NotSaved)),
            Err(_) => Ok(()),
        }
    }

    /// Changes that are not on disk.
    pub(crate) fn unsaved(&self) -> u64 {
        let saved = self.saved.load(Ordering::Acquire);
        self.appended.load(Ordering::Acquire).saturating_sub(saved)
    }

    /// Whether the last write failed. Commands that write are turned away until one succeeds.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Whether what is appended is to be written at once.
    pub(super) fn is_urgent(&self) -> bool {
        let overfull = self.overfull.load(Ordering::Acquire);
        self.save == Save::Always || overfull || self.is_closing()
    }

    /// Waits until what is appended is to be written at once, but no longer than this.
    pub(super) async fn urgent_within(&self, time: fom_runtime::Sleep) {
        tokio::pin!(time);
        while !self.is_urgent() {
            tokio::select! {
                () = self.news.notified() => {}
                () = &mut time => return,
            }
        }
    }

    /// Nothing more will come: what is there is written, and the writer ends.
    pub(crate) fn close(&self) {
        self.pending().closing = true;
        self.news.notify_one();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.pending().closing
    }

    /// The writer has ended.
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

    /// All that is there; none if that is nothing.
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

    /// The batch is on disk.
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

    /// The batch could not be written: it stays, and those who wait for it are told.
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
