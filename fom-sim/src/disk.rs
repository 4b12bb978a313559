//! The disk of a node: a journal that loses what was not synced.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_journal::{
    Batch, Change, Journal, JournalError, JournalStats, Lease, MemoryJournal, Recover, Recovery,
};

use crate::node::{Here, World, lock};

/// The disk of a node, which outlives its kills. Clones are the same disk.
///
/// When the node is killed, the disk has all that was committed. Of a commit that was under way, it has none, some of the first
/// groups, or all, as [`Journal`] allows. [`Chaos`](crate::Chaos) makes it slow or full.
#[derive(Clone, Debug)]
pub struct Disk {
    world: Arc<World>,
    content: Arc<Mutex<Content>>,
}

#[derive(Debug)]
struct Content {
    journal: MemoryJournal,
    /// The groups of which the disk may have some.
    unsynced: Batch,
    is_full: bool,
    /// The lease of the runtime that has taken the journal over last.
    lease: Option<Lease>,
}

impl Disk {
    pub(crate) fn new(world: &Arc<World>) -> Self {
        Self {
            world: Arc::clone(world),
            content: Arc::new(Mutex::new(Content {
                journal: MemoryJournal::new(),
                unsynced: Batch::new(),
                is_full: false,
                lease: None,
            })),
        }
    }

    /// Returns the journal on this disk, for the runtime that starts next. A journal that was returned before writes to this
    /// disk no more.
    ///
    /// ```
    /// use fom_durable::prelude::*;
    /// use fom_sim as sim;
    ///
    /// sim::explore(0..10, |sim| {
    ///     let disk = sim.disk();
    ///     let shop = sim.node("shop", move || {
    ///         Runtime::builder().localities(2).journal_with(disk.journal())
    ///     });
    ///     sim.during(|chaos| chaos.kill("shop", 2));
    ///     // ..
    /// });
    /// ```
    pub fn journal(&self) -> impl Journal + use<> {
        self.open(None)
    }

    /// Returns the journal on this disk, for a runtime that takes it over from another one that still runs. Each call has a
    /// higher term. The runtime before loses its lease: it enters no phase function, its commits are refused, and each of
    /// its foms ends with `Cause::Moved`. Of its commit that is under way, the disk has none, some of the first groups, or
    /// all.
    ///
    /// ```
    /// use fom_durable::prelude::*;
    /// use fom_sim as sim;
    /// use std::time::Duration;
    ///
    /// sim::explore(0..10, |sim| {
    ///     let disk = sim.disk();
    ///     let owner = || Runtime::builder().localities(1).journal_with(disk.take_over()).build();
    ///     let first = owner().unwrap();
    ///     sim::sleep(Duration::from_millis(sim::draw(100).into()));
    ///     let second = owner().unwrap();
    ///     sim.spawn(async move { first.moved().await });
    ///     sim.settle(Duration::from_secs(1));
    ///     drop(second);
    /// });
    /// ```
    pub fn take_over(&self) -> impl Journal + use<> {
        let last = lock(&self.content).lease.take();
        if let Some(last) = &last {
            last.lose();
        }
        let term = last.map_or(1, |last| last.term() + 1);
        // It holds until it is lost.
        let lease = Lease::new(term, Duration::MAX, || Duration::ZERO);
        lock(&self.content).lease = Some(lease.clone());
        self.open(Some(lease))
    }

    fn open(&self, lease: Option<Lease>) -> SimJournal {
        let mut content = lock(&self.content);
        let unsynced = std::mem::take(&mut content.unsynced);
        let count = unsynced.groups().count() as u32;
        // The runtime of before keeps a journal that is read no more.
        content.journal = content.journal.fork();
        let kept = self.world.baton.draw(count + 1);
        if kept > 0 {
            let mut torn = Batch::new();
            for group in unsynced.groups().take(kept as usize) {
                for change in group.changes() {
                    match change {
                        Change::Put { id, bytes } => torn.put(id, bytes),
                        Change::Delete { id } => torn.delete(id),
                    }
                }
                torn.end_group();
            }
            content
                .journal
                .commit(&torn)
                .expect("a journal in memory takes each commit");
            let name = Here::get().map_or_else(String::new, |here| here.name());
            let text = format!("{kept} of {count} groups of a commit that was under way are kept");
            self.world.note(&name, text);
        }
        SimJournal {
            world: Arc::clone(&self.world),
            journal: content.journal.clone(),
            content: Arc::clone(&self.content),
            lease,
        }
    }
}

struct SimJournal {
    world: Arc<World>,
    journal: MemoryJournal,
    content: Arc<Mutex<Content>>,
    lease: Option<Lease>,
}

impl SimJournal {
    /// Fails if another runtime has taken the journal over.
    fn check_owner(&self) -> Result<(), JournalError> {
        match &self.lease {
            Some(lease) if lease.is_lost() => Err(JournalError::Fenced),
            _ => Ok(()),
        }
    }

    fn fault_point(&self) {
        if !self.world.is_over()
            && let Some(life) = Here::get().and_then(|here| here.life)
        {
            life.fault_point();
        }
    }
}

impl Journal for SimJournal {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.journal.recover(to)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        if self.world.is_over() {
            return self.journal.commit(batch);
        }
        let baton = &*self.world.baton;
        self.check_owner()?;
        let is_full = {
            let mut content = lock(&self.content);
            content.unsynced = batch.clone();
            content.is_full = self.world.faults.draw_full(baton, content.is_full);
            content.is_full
        };
        self.world.faults.commit(baton);
        // A kill here loses what is not synced.
        self.fault_point();
        // The disk may have some of it.
        self.check_owner()?;
        if is_full {
            let name = Here::get().map_or_else(String::new, |here| here.name());
            self.world.note(&name, "its disk is full");
            return Err(JournalError::Full {
                path: "disk".into(),
                source: Arc::new(io::ErrorKind::StorageFull.into()),
            });
        }
        self.journal.commit(batch)?;
        if !self.world.is_over() {
            lock(&self.content).unsynced = Batch::new();
        }
        // A kill here loses nothing, but the caller does not know that.
        self.fault_point();
        self.check_owner()
    }

    fn lease(&self) -> Option<Lease> {
        self.lease.clone()
    }

    fn stats(&self) -> JournalStats {
        self.journal.stats()
    }
}
