//! Stores of other projects, each as its documentation recommends for many short records: all changes of a group in one
//! batch, with one sync.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use redb::{ReadableDatabase, ReadableTable, TableDefinition};

use crate::stored::{Change, Store, key};

pub(crate) struct Fjall {
    database: Database,
    records: Keyspace,
}

impl Fjall {
    pub(crate) fn open(folder: &Path) -> Self {
        let database = Database::builder(folder).open().expect("a database");
        let records = database
            .keyspace("records", KeyspaceCreateOptions::default)
            .expect("a keyspace");
        Self { database, records }
    }
}

fn id(key: &[u8]) -> u64 {
    u64::from_be_bytes(key[8..].try_into().expect("a key of 16 bytes"))
}

impl Store for Fjall {
    fn commit(&mut self, changes: &mut dyn Iterator<Item = Change<'_>>) {
        let mut batch = self
            .database
            .batch()
            .durability(Some(PersistMode::SyncData));
        for change in changes {
            batch.insert(&self.records, key(change.id), change.state.as_slice());
            if let Some(ended) = change.ended {
                batch.remove(&self.records, key(ended));
            }
        }
        batch.commit().expect("a commit");
    }

    fn read(&mut self, each: &mut dyn FnMut(u64, Option<&[u8]>)) {
        for record in self.records.iter() {
            let (key, state) = record.into_inner().expect("a record");
            each(id(&key), Some(&state));
        }
    }
}

const RECORDS: TableDefinition<'_, &[u8; 16], &[u8]> = TableDefinition::new("records");

pub(crate) struct Redb(redb::Database);

impl Redb {
    pub(crate) fn open(folder: &Path) -> Self {
        Self(redb::Database::create(folder.join("redb")).expect("a database"))
    }
}

impl Store for Redb {
    fn commit(&mut self, changes: &mut dyn Iterator<Item = Change<'_>>) {
        let write = self.0.begin_write().expect("a transaction");
        {
            let mut table = write.open_table(RECORDS).expect("a table");
            for change in changes {
                table
                    .insert(&key(change.id), change.state.as_slice())
                    .expect("an insert");
                if let Some(ended) = change.ended {
                    table.remove(&key(ended)).expect("a removal");
                }
            }
        }
        write.commit().expect("a commit");
    }

    fn read(&mut self, each: &mut dyn FnMut(u64, Option<&[u8]>)) {
        let read = self.0.begin_read().expect("a transaction");
        let table = read.open_table(RECORDS).expect("a table");
        for record in table.iter().expect("a range") {
            let (key, state) = record.expect("a record");
            each(id(key.value()), Some(state.value()));
        }
    }
}
