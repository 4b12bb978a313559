//! A journal that another process can take over.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fom_durable::journal::{
    Batch, Journal, JournalError, JournalStats, Lease, MemoryJournal, Recover, Recovery,
};

/// A journal in memory that several runtimes can open. The test extends its lease, takes it away, and fences it.
#[derive(Clone, Debug)]
pub(crate) struct Leased {
    pub(crate) journal: MemoryJournal,
    pub(crate) lease: Lease,
    /// The time on the clock of the lease, and of the store, in seconds.
    now: Arc<AtomicU64>,
    fenced: Arc<AtomicBool>,
    /// Whether a commit was refused.
    told: Arc<AtomicBool>,
    /// Commits that were asked for.
    asked: Arc<AtomicUsize>,
}

impl Leased {
    /// Returns an empty journal with a lease for four seconds.
    pub(crate) fn new() -> Self {
        Self::take_over(&MemoryJournal::new(), 1, 100)
    }

    /// Takes the journal over, with this term, at this second of the store's clock.
    pub(crate) fn take_over(journal: &MemoryJournal, term: u64, at: u64) -> Self {
        let now = Arc::new(AtomicU64::new(at));
        let clock = Arc::clone(&now);
        let read = move || Duration::from_secs(clock.load(Ordering::SeqCst));
        Self {
            journal: journal.clone(),
            lease: Lease::new(term, Duration::from_secs(at + 4), read),
            now,
            fenced: Arc::default(),
            told: Arc::default(),
            asked: Arc::default(),
        }
    }

    /// Moves the clock of the lease.
    pub(crate) fn passes(&self, seconds: u64) {
        self.now.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Refuses each commit from now on: another process has the journal.
    pub(crate) fn fence(&self) {
        self.fenced.store(true, Ordering::SeqCst);
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Journal for Leased {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.journal.recover(to)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.fenced.load(Ordering::SeqCst) {
            self.told.store(true, Ordering::SeqCst);
            return Err(JournalError::Fenced);
        }
        self.journal.commit(batch)
    }

    fn tidy(&mut self) -> Result<bool, JournalError> {
        assert!(
            !self.told.load(Ordering::SeqCst),
            "it was told that it is fenced"
        );
        Ok(false)
    }

    fn lease(&self) -> Option<Lease> {
        Some(self.lease.clone())
    }

    fn time(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.now.load(Ordering::SeqCst)))
    }

    fn stats(&self) -> JournalStats {
        self.journal.stats()
    }
}
