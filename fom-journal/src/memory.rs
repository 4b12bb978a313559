//! A journal in memory, for tests. It is gone when the process ends.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use crate::{Batch, Change, EntryId, Journal, JournalError, JournalStats, Recover, Recovery};

/// A journal in memory. All clones are the same journal. To simulate a restart, a test gives one clone to a runtime,
/// drops the runtime, and gives another clone to the next.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal {
    store: Arc<Mutex<Store>>,
}

#[derive(Debug, Default)]
struct Store {
    entries: BTreeMap<EntryId, Vec<u8>>,
    /// The bytes of all entries. The runtime asks for the statistics after each commit.
    live: u64,
    written: u64,
    syncs: u64,
}

impl Store {
    /// Sets the bytes of an entry, or removes it.
    fn replace(&mut self, id: EntryId, bytes: Option<&[u8]>) {
        let before = match bytes {
            Some(bytes) => self.entries.insert(id, bytes.to_vec()),
            None => self.entries.remove(&id),
        };
        self.live += bytes.map_or(0, |bytes| bytes.len() as u64);
        self.live -= before.map_or(0, |bytes| bytes.len() as u64);
    }
}

impl MemoryJournal {
    /// Returns an empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a separate journal with a copy of the committed entries, as after a crash.
    pub fn fork(&self) -> Self {
        let store = self.store.lock();
        Self {
            store: Arc::new(Mutex::new(Store {
                entries: store.entries.clone(),
                live: store.live,
                ..Store::default()
            })),
        }
    }

    /// Returns the bytes of an entry; `None` if there is no such entry.
    pub fn entry(&self, id: EntryId) -> Option<Vec<u8>> {
        self.store.lock().entries.get(&id).cloned()
    }

    /// Returns the numbers of all entries, in ascending order.
    pub fn ids(&self) -> Vec<EntryId> {
        self.store.lock().entries.keys().copied().collect()
    }
}

impl Journal for MemoryJournal {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        let entries = self.store.lock().entries.clone();
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
        let mut store = self.store.lock();
        for change in batch.groups().flat_map(|group| group.changes()) {
            match change {
                Change::Put { id, bytes } => {
                    store.written += bytes.len() as u64;
                    store.replace(id, Some(bytes));
                }
                Change::Delete { id } => store.replace(id, None),
            }
        }
        store.syncs += 1;
        Ok(())
    }

    fn stats(&self) -> JournalStats {
        let store = self.store.lock();
        JournalStats {
            entries: store.entries.len() as u64,
            live_bytes: store.live,
            size_bytes: store.live,
            written_bytes: store.written,
            syncs: store.syncs,
            ..JournalStats::default()
        }
    }
}
