//! A journal that another process can take over.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fom_durable::journal::{
    Batch, Journal, JournalError, JournalStats, Lease, MemoryJournal, Recover, Recovery,
};

/// A journal in memory with a lease, which the test extends and takes away.
#[derive(Clone, Debug)]
pub(crate) struct Leased {
    journal: MemoryJournal,
    pub(crate) lease: Lease,
    /// The clock of the lease, in seconds.
    now: Arc<AtomicU64>,
}

impl Leased {
    /// Returns an empty journal with a lease for four seconds.
    pub(crate) fn new() -> Self {
        let now = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&now);
        let read = move || Duration::from_secs(clock.load(Ordering::SeqCst));
        let lease = Lease::new(1, read);
        lease.extend(Duration::from_secs(4));
        Self {
            journal: MemoryJournal::new(),
            lease,
            now,
        }
    }

    /// Moves the clock of the lease.
    pub(crate) fn passes(&self, seconds: u64) {
        self.now.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Journal for Leased {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.journal.recover(to)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.journal.commit(batch)
    }

    fn lease(&self) -> Option<Lease> {
        Some(self.lease.clone())
    }

    fn stats(&self) -> JournalStats {
        self.journal.stats()
    }
}
