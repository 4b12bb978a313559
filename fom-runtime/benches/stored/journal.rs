//! Fom's own journal in files, without foms.

use std::path::Path;

use fom_durable::journal::{
    Batch, Damage, EntryId, FileJournal, Journal as _, JournalError, Recover, Recovery,
};

use crate::stored::{Change, RECORD, Store};

pub(crate) struct Journal {
    journal: FileJournal,
    /// Whether the journal has been read. It must be read before the first commit.
    is_read: bool,
    batch: Batch,
}

impl Journal {
    pub(crate) fn open(folder: &Path) -> Self {
        Self {
            journal: FileJournal::open(folder).expect("a journal"),
            is_read: false,
            batch: Batch::new(),
        }
    }

    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.is_read = true;
        self.journal.recover(to)
    }
}

/// The runtime needs the ids below `HEAD`.
fn entry(id: u64) -> EntryId {
    EntryId(EntryId::HEAD.0 + id)
}

impl Store for Journal {
    fn commit(&mut self, changes: &mut dyn Iterator<Item = Change<'_>>) {
        if !self.is_read {
            self.recover(&mut To(&mut |_, _| {})).expect("it is new");
        }
        self.batch.clear();
        for change in changes {
            self.batch.put(entry(change.id), &change.record());
            if let Some(ended) = change.ended {
                self.batch.delete(entry(ended));
            }
            self.batch.end_group();
        }
        self.journal.commit(&self.batch).expect("a commit");
        self.journal.tidy().expect("room");
    }

    fn read(&mut self, each: &mut dyn FnMut(u64, Option<&[u8]>)) {
        self.recover(&mut To(each)).expect("it is whole");
    }
}

struct To<'a>(&'a mut dyn FnMut(u64, Option<&[u8]>));

impl Recover for To<'_> {
    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        assert_eq!(bytes.len(), RECORD, "a record");
        (self.0)(id.0 - EntryId::HEAD.0, Some(&bytes[16..]));
    }

    fn damaged(&mut self, id: EntryId, damage: Damage) {
        panic!("{id}: {damage}");
    }
}
