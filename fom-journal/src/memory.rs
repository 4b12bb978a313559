//! A journal in memory, for tests. It is gone when the process ends.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use crate::{Batch, Change, EntryId, Journal, JournalError, JournalStats, Recover, Recovery};

/// A journal in memory. All clones are the same journal. To simulate a restart, a test gives one clone to a runtime,
/// drops the runtime, and gives another clone to the next.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: BTreeMap<EntryId, Vec<u8>>,
    written: u64,
    syncs: u64,
}

impl MemoryJournal {
    /// An empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a separate journal with a copy of the current entries.
    pub fn fork(&self) -> Self {
        let kept = self.kept.lock();
        Self {
            kept: Arc::new(Mutex::new(Kept {
                entries: kept.entries.clone(),
                ..Kept::default()
            })),
        }
    }

    /// Returns the bytes of an entry.
    pub fn entry(&self, id: EntryId) -> Option<Vec<u8>> {
        self.kept.lock().entries.get(&id).cloned()
    }

    /// Returns the numbers of all entries, in ascending order.
    pub fn ids(&self) -> Vec<EntryId> {
        self.kept.lock().entries.keys().copied().collect()
    }
}

impl Journal for MemoryJournal {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        let entries = self.kept.lock().entries.clone();
        to.expect(entries.len() as u64);
        for (id, bytes) in &entries {
            to.entry(*id, bytes);
        }
        Ok(Recovery {
            entries: entries.len() as u64,
            ..Recovery::default()
        })
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let mut kept = self.kept.lock();
        for change in batch.groups().flat_map(|group| group.changes()) {
            match change {
                Change::Put { id, bytes } => {
                    kept.written += bytes.len() as u64;
                    kept.entries.insert(id, bytes.to_vec());
                }
                Change::Delete { id } => {
                    kept.entries.remove(&id);
                }
            }
        }
        kept.syncs += 1;
        Ok(())
    }

    fn stats(&self) -> JournalStats {
        let kept = self.kept.lock();
        let bytes = kept.entries.values().map(|bytes| bytes.len() as u64).sum();
        JournalStats {
            entries: kept.entries.len() as u64,
            live_bytes: bytes,
            size_bytes: bytes,
            written_bytes: kept.written,
            syncs: kept.syncs,
            ..JournalStats::default()
        }
    }
}
