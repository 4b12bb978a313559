//! The part of the data in one locality. Only the thread that runs the locality reaches it, so nothing here is locked.

mod expiry;
mod handing;
pub(crate) mod keys;
pub(crate) mod lists;
mod locking;
pub(crate) mod locks;
pub(crate) mod strings;
mod value;
mod watching;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

pub(crate) use expiry::Wall;
pub(crate) use handing::{Claim, Handed, Popper};
pub(crate) use value::{Entry, List, Side, Value};

use crate::save::{Change, Log};
use crate::wire::{Reply, Request};
use watching::Watched;

/// The result of a command; an error is a reply like any other.
pub(crate) type Done = Result<Reply, Reply>;

/// A command on one key; the number is the place of the key in the request.
pub(crate) type Run = fn(&mut Shard, &Request, usize) -> Done;

/// The keys with their home in this locality.
#[derive(Debug)]
pub(crate) struct Shard {
    entries: HashMap<Box<[u8]>, Entry>,
    /// The keys that expire, the next one first.
    expiring: BTreeSet<(u64, Box<[u8]>)>,
    watched: HashMap<Box<[u8]>, Watched>,
    versions: u64,
    poppers: HashMap<Box<[u8]>, VecDeque<Popper>>,
    /// Keys that a transaction has or wants, and the number of operations that want each.
    locked: HashMap<Box<[u8]>, usize>,
    /// Lists with pushes since the last search for poppers.
    pushed: Vec<Box<[u8]>>,
    changes: Vec<Change>,
    log: Option<Arc<Log>>,
    wall: Wall,
    /// The number of commands that ran here.
    pub(crate) commands: u64,
}

impl Shard {
    /// Creates an empty shard, which reports its changes to the log if there is one.
    pub(crate) fn new(wall: Wall, log: Option<Arc<Log>>) -> Self {
        Self {
            entries: HashMap::new(),
            expiring: BTreeSet::new(),
            watched: HashMap::new(),
            versions: 0,
            poppers: HashMap::new(),
            locked: HashMap::new(),
            pushed: Vec::new(),
            changes: Vec::new(),
            log,
            wall,
            commands: 0,
        }
    }

    /// Inserts the saved entries.
    pub(crate) fn restore(&mut self, entries: Vec<(Box<[u8]>, Entry)>) {
        for (key, entry) in entries {
            self.note_expiry(&key, entry.expires);
            self.entries.insert(key, entry);
        }
    }

    /// Runs a command on one key. With a ticket, the reply must wait until the log has saved up to the ticket.
    pub(crate) fn run(&mut self, run: Run, request: &Request, at: usize) -> (Reply, Option<u64>) {
        self.commands += 1;
        let reply = run(self, request, at).unwrap_or_else(|error| error);
        (reply, self.settle())
    }

    /// Ends a command, or several that belong together: hands elements to waiting pops, and changes to the log.
    pub(crate) fn settle(&mut self) -> Option<u64> {
        let handed = if self.pushed.is_empty() {
            Vec::new()
        } else {
            self.hand_over()
        };
        let ticket = self.log.as_ref().and_then(|log| {
            if !self.changes.is_empty() {
                log.append(&mut self.changes);
            }
            log.ticket()
        });
        for handed in handed {
            handed.send(ticket);
        }
        ticket
    }

    /// Takes the changes, for a caller that gives them to the log itself.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Returns the log of all shards.
    pub(crate) fn log(&self) -> Option<&Arc<Log>> {
        self.log.as_ref()
    }

    /// Notes a change for the log.
    fn change(&mut self, change: impl FnOnce() -> Change) {
        if self.log.is_some() {
            self.changes.push(change());
        }
    }

    /// Returns the entry, unless it has expired.
    pub(crate) fn live(&mut self, key: &[u8]) -> Option<&Entry> {
        self.drop_expired(key);
        self.entries.get(key)
    }

    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the string, if there is one.
    fn text(&mut self, key: &[u8]) -> Result<Option<&Bytes>, Reply> {
        match self.live(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(Value::List(_)) => Err(Reply::WRONG_TYPE),
        }
    }

    /// Returns the list, if there is one.
    fn list(&mut self, key: &[u8]) -> Result<Option<&List>, Reply> {
        match self.live(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::List(list)) => Ok(Some(list)),
            Some(Value::Text(_)) => Err(Reply::WRONG_TYPE),
        }
    }

    /// Stores a string in place of any old value.
    fn put(&mut self, key: &[u8], text: Bytes, expires: Option<u64>) {
        if let Some(entry) = self.entries.get_mut(key) {
            let new = Entry {
                value: Value::Text(text.clone()),
                expires,
            };
            let old = std::mem::replace(entry, new);
            self.unlist(key, &old);
            if old.expires != expires {
                self.unexpire(key, old.expires);
                self.note_expiry(key, expires);
            }
        } else {
            let entry = Entry {
                value: Value::Text(text.clone()),
                expires,
            };
            self.entries.insert(key.into(), entry);
            self.note_expiry(key, expires);
        }
        self.change(|| Change::Text {
            key: key.into(),
            text,
            expires,
        });
        self.note(key);
    }

    /// Takes the string out of its entry. The caller must put it back.
    fn take_text(&mut self, key: &[u8]) -> Bytes {
        match self.entries.get_mut(key).map(|entry| &mut entry.value) {
            Some(Value::Text(text)) => std::mem::take(text),
            _ => Bytes::new(),
        }
    }

    /// Removes the key. Returns whether it was there.
    fn remove(&mut self, key: &[u8]) -> bool {
        let Some(entry) = self.entries.remove(key) else {
            return false;
        };
        self.unexpire(key, entry.expires);
        self.unlist(key, &entry);
        if matches!(entry.value, Value::Text(_)) {
            self.change(|| Change::NoText { key: key.into() });
        }
        self.note(key);
        true
    }

    /// Makes the log forget a removed list.
    fn unlist(&mut self, key: &[u8], old: &Entry) {
        if let Value::List(list) = &old.value {
            let items = list.places();
            self.change(|| Change::NoList {
                key: key.into(),
                items,
            });
        }
    }

    /// Sets or clears the expiry of the key.
    fn set_expiry(&mut self, key: &[u8], expires: Option<u64>) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let old = std::mem::replace(&mut entry.expires, expires);
        let text = match &entry.value {
            Value::Text(text) => Some(text.clone()),
            Value::List(_) => None,
        };
        self.unexpire(key, old);
        self.note_expiry(key, expires);
        self.change(|| match text {
            Some(text) => Change::Text {
                key: key.into(),
                text,
                expires,
            },
            None => Change::List {
                key: key.into(),
                expires,
            },
        });
        self.note(key);
    }

    /// Adds values at one end of a list, one after the other. Returns the new length.
    fn push<'a>(
        &mut self,
        key: &[u8],
        side: Side,
        values: impl Iterator<Item = &'a [u8]>,
    ) -> Result<usize, Reply> {
        self.list(key)?;
        let new = !self.entries.contains_key(key);
        let entry = match self.entries.get_mut(key) {
            Some(entry) => entry,
            None => self.entries.entry(key.into()).or_insert_with(|| Entry {
                value: Value::List(List::default()),
                expires: None,
            }),
        };
        let Value::List(list) = &mut entry.value else {
            return Err(Reply::WRONG_TYPE);
        };
        let kept = self.log.is_some();
        if new && kept {
            self.changes.push(Change::List {
                key: key.into(),
                expires: None,
            });
        }
        for value in values {
            let value = Bytes::copy_from_slice(value);
            let at = list.push(side, value.clone());
            if kept {
                self.changes.push(Change::Item {
                    key: key.into(),
                    at,
                    value,
                });
            }
        }
        let len = list.len();
        if !self.poppers.is_empty() && self.poppers.contains_key(key) {
            self.pushed.push(key.into());
        }
        self.note(key);
        Ok(len)
    }

    /// Removes the value at one end of a list. A list without values is removed.
    fn pop(&mut self, key: &[u8], side: Side) -> Result<Option<Bytes>, Reply> {
        self.drop_expired(key);
        let Some(entry) = self.entries.get_mut(key) else {
            return Ok(None);
        };
        let Value::List(list) = &mut entry.value else {
            return Err(Reply::WRONG_TYPE);
        };
        let Some((at, value)) = list.pop(side) else {
            return Ok(None);
        };
        let empty = list.len() == 0;
        self.change(|| Change::NoItem {
            key: key.into(),
            at,
        });
        if empty {
            self.remove(key);
        } else {
            self.note(key);
        }
        Ok(Some(value))
    }
}
