//! What a phase wants to have sent exactly when its transition is committed.

use std::sync::Arc;

use crate::{Graph, journal::EntryId, runtime::World};

/// What was given to the outbox in this visit. It is committed with the transition, and sent after that; when the phase function
/// fails it is dropped.
#[derive(Default)]
pub(crate) struct Outbox {
    items: Vec<Item>,
}

pub(crate) struct Item {
    /// What goes into the journal, so that it is sent again after a crash.
    pub(crate) entry: Option<Entry>,
    pub(crate) send: Send,
}

/// An entry of an outbox.
pub(crate) struct Entry {
    pub(crate) id: EntryId,
    pub(crate) bytes: Vec<u8>,
    /// Whose schema it is read with.
    pub(crate) graph: &'static Graph,
}

/// Sends it. In the locality of the sender.
pub(crate) type Send = Box<dyn FnOnce(&Arc<World>) + std::marker::Send>;

impl Outbox {
    pub(crate) fn post(&mut self, item: Item) {
        self.items.push(item);
    }

    /// The entries that are to be put with the transition.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.items.iter().filter_map(|item| item.entry.as_ref())
    }

    pub(crate) fn take(&mut self) -> Vec<Item> {
        std::mem::take(&mut self.items)
    }
}
