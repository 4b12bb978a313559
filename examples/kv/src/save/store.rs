//! The store on disk.
//!
//! Each string, each list and each element of a list is one record, so a push to a long list is a small write. The
//! first byte of a record's key gives its kind:
//!
//! | key | value |
//! | --- | --- |
//! | `s` key | expiry, 8 bytes; the string |
//! | `h` key | expiry, 8 bytes: there is a list |
//! | `i` length of the key, 4 bytes; key; place, 8 bytes, in order | the element |
//!
//! Numbers are big-endian; no expiry is 0. The length of the key comes before the rest, so records of two keys never
//! mix.

use std::collections::HashMap;
use std::path::Path;

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::Change;
use crate::shard::{Entry, List, Value};

/// The store cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An error of the store.
    #[error("the store: {0}")]
    Store(#[from] fjall::Error),
    /// The store holds something else.
    #[error("a record that this program did not write: {0}")]
    Strange(String),
}

/// The entries of a store.
pub(crate) type Entries = HashMap<Box<[u8]>, Entry>;

/// The store on disk.
#[derive(Clone)]
pub(crate) struct Store {
    database: Database,
    records: Keyspace,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

impl Store {
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let database = Database::builder(path).worker_threads(1).open()?;
        let records = database.keyspace("records", KeyspaceCreateOptions::default)?;
        Ok(Self { database, records })
    }

    /// Loads all entries that have not expired.
    pub(crate) fn load(&self, now: u64) -> Result<Entries, StoreError> {
        let mut entries = Entries::new();
        let mut items = Vec::new();
        for record in self.records.iter() {
            let (key, value) = record.into_inner()?;
            let strange = || StoreError::Strange(key.escape_ascii().to_string());
            match key.split_first() {
                Some((b's', name)) => {
                    let (expires, text) = value.split_first_chunk().ok_or_else(strange)?;
                    let value = Value::Text(Bytes::copy_from_slice(text));
                    entries.insert(
                        name.into(),
                        Entry {
                            value,
                            expires: expiry(expires),
                        },
                    );
                }
                Some((b'h', name)) => {
                    let expires = value[..].first_chunk().ok_or_else(strange)?;
                    let value = Value::List(List::default());
                    entries.insert(
                        name.into(),
                        Entry {
                            value,
                            expires: expiry(expires),
                        },
                    );
                }
                Some((b'i', rest)) => {
                    let (name, at) = item(rest).ok_or_else(strange)?;
                    items.push((Box::<[u8]>::from(name), at, Bytes::copy_from_slice(&value)));
                }
                _ => return Err(strange()),
            }
        }
        for (name, at, item) in items {
            match entries.get_mut(&name).map(|entry| &mut entry.value) {
                Some(Value::List(list)) => list.restore(at, item),
                _ => return Err(StoreError::Strange(name.escape_ascii().to_string())),
            }
        }
        entries.retain(|_, entry| entry.expires.is_none_or(|expires| expires > now));
        Ok(entries)
    }

    /// Writes these changes, all or none of them. They are on disk when this returns.
    pub(crate) fn write(&self, changes: &[Change]) -> Result<(), StoreError> {
        // A record with several changes is written once: all records of a batch are of the same moment.
        let mut last: HashMap<Vec<u8>, Option<Vec<u8>>> = HashMap::with_capacity(changes.len());
        for change in changes {
            match change {
                Change::Text { key, text, expires } => {
                    let value = [&millis(*expires)[..], text].concat();
                    last.insert(named(b's', key), Some(value));
                }
                Change::NoText { key } => {
                    last.insert(named(b's', key), None);
                }
                Change::List { key, expires } => {
                    last.insert(named(b'h', key), Some(millis(*expires).to_vec()));
                }
                Change::NoList { key, items } => {
                    last.insert(named(b'h', key), None);
                    last.extend(items.clone().map(|at| (placed(key, at), None)));
                }
                Change::Item { key, at, value } => {
                    last.insert(placed(key, *at), Some(value.to_vec()));
                }
                Change::NoItem { key, at } => {
                    last.insert(placed(key, *at), None);
                }
            }
        }
        let mut batch = self
            .database
            .batch()
            .durability(Some(PersistMode::SyncData));
        for (key, value) in last {
            match value {
                Some(value) => batch.insert(&self.records, key, value),
                None => batch.remove(&self.records, key),
            }
        }
        Ok(batch.commit()?)
    }
}

fn named(kind: u8, key: &[u8]) -> Vec<u8> {
    [&[kind], key].concat()
}

fn placed(key: &[u8], at: i64) -> Vec<u8> {
    // Places below zero sort before those above, as unsigned numbers.
    let place = (at as u64 ^ 1 << 63).to_be_bytes();
    let length = (key.len() as u32).to_be_bytes();
    [&b"i"[..], &length, key, &place].concat()
}

fn item(rest: &[u8]) -> Option<(&[u8], i64)> {
    let (length, rest) = rest.split_first_chunk()?;
    let (key, place) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let place = u64::from_be_bytes(place.try_into().ok()?);
    Some((key, (place ^ 1 << 63) as i64))
}

fn millis(expires: Option<u64>) -> [u8; 8] {
    expires.unwrap_or(0).to_be_bytes()
}

fn expiry(bytes: &[u8; 8]) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes)).filter(|expires| *expires > 0)
}
