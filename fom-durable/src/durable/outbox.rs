//! What a phase sends exactly when its transition is committed.

use std::any::Any;

use fom_journal::{Batch, EntryId, Statement};

use crate::durable::record::set_number;
use fom_runtime::{
    __durability::{self as seam, Announced, Effects, Header, KeyOf, Shared},
    machine::Graph,
};

/// The items that were given to the outbox in this visit. They are committed with the transition, and sent after that.
/// If the phase function fails, they are dropped.
#[derive(Default)]
pub(crate) struct OutboxItems {
    items: Vec<Item>,
    /// What the store executes with the transition.
    statements: Vec<Statement>,
    /// The phase that the fom leaves, if there are statements: it goes back there if one fails.
    left: Option<Box<dyn Any + std::marker::Send>>,
}

pub(crate) struct Item {
    /// The entry in the journal, which makes sure that the item is sent again after a crash.
    pub(crate) entry: Option<Entry>,
    pub(crate) send: Send,
}

/// An entry of an outbox.
pub(crate) struct Entry {
    pub(crate) id: EntryId,
    pub(crate) bytes: Vec<u8>,
    /// The machine with the schema for the entry.
    pub(crate) graph: &'static Graph,
    pub(crate) order: Sequence,
}

/// The number of an entry. The runtime draws it when it writes the sender's step down, not while the sender's function
/// runs. So the entry that is written first has the lower number, wherever its sender ran.
pub(crate) enum Sequence {
    /// A fom without a key, which needs no number.
    Free,
    /// An event that has no number yet.
    Event,
    Numbered(u64),
    /// A fom with this key that has no number yet.
    Key(KeyOf),
    Announced(Announced),
}

/// Sends the item, in the locality of the sender.
pub(crate) type Send = Box<dyn FnOnce(&Shared, Option<Entry>) + std::marker::Send>;

impl Entry {
    /// Draws the number, if the entry needs a number and has none.
    fn take_number(&mut self, shared: &Shared) {
        self.order = match std::mem::replace(&mut self.order, Sequence::Free) {
            Sequence::Event => Sequence::Numbered(seam::next_number(shared)),
            Sequence::Key(of) => Sequence::Announced(seam::announce(shared, of)),
            numbered => numbered,
        };
        if let Some(number) = self.number() {
            set_number(&mut self.bytes, number);
        }
    }

    /// Returns the number with which the entry was written.
    pub(crate) fn number(&self) -> Option<u64> {
        match &self.order {
            Sequence::Numbered(number) => Some(*number),
            Sequence::Announced(announced) => Some(announced.number),
            Sequence::Free | Sequence::Event | Sequence::Key(_) => None,
        }
    }
}

/// Puts an item into the outbox of the visit. Only the thread that runs the fom calls this.
pub(super) fn post(fom: &Header, item: Item) {
    with_outbox_made(fom, |outbox| outbox.items.push(item));
}

/// Puts a statement into the outbox of the visit. Only the thread that runs the fom calls this.
pub(super) fn execute(fom: &Header, statement: Statement) {
    with_outbox_made(fom, |outbox| outbox.statements.push(statement));
}

fn with_outbox_made(fom: &Header, f: impl FnOnce(&mut OutboxItems)) {
    seam::with_outbox_made(
        fom,
        || Box::<OutboxItems>::default(),
        |outbox| {
            let outbox: &mut dyn Any = outbox;
            if let Some(outbox) = outbox.downcast_mut() {
                f(outbox);
            }
        },
    );
}

/// Calls `f` with the outbox of the visit, if there is one. Only the thread that runs the fom calls this.
#[inline]
pub(super) fn with_outbox<R>(fom: &Header, f: impl FnOnce(&mut OutboxItems) -> R) -> Option<R> {
    seam::with_outbox(fom, |outbox| {
        let outbox: &mut dyn Any = outbox;
        outbox.downcast_mut().map(f)
    })?
}

impl Effects for OutboxItems {
    fn send(self: Box<Self>, fom: &Header) {
        for item in self.items {
            // An entry that cannot start is dropped, and its drop is the user's code.
            seam::fenced(fom, "while its outbox was sent", || {
                (item.send)(seam::shared_of(fom), item.entry);
            });
        }
        drop_of_user(fom, (self.statements, self.left));
    }

    fn discard(self: Box<Self>, fom: &Header) {
        // The drop of operations is the user's code.
        for item in self.items {
            drop_of_user(fom, item);
        }
        drop_of_user(fom, (self.statements, self.left));
    }

    fn may_fail(&self) -> bool {
        !self.statements.is_empty()
    }

    fn keep_phase(&mut self, phase: Box<dyn Any + std::marker::Send>) {
        self.left = Some(phase);
    }

    fn take_phase(&mut self) -> Option<Box<dyn Any + std::marker::Send>> {
        self.left.take()
    }
}

/// Drops what contains values of the user's.
fn drop_of_user<T>(fom: &Header, value: T) {
    seam::fenced(fom, "while its outbox was dropped", || drop(value));
}

impl OutboxItems {
    /// Returns the entries to put with the transition.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.items.iter().filter_map(|item| item.entry.as_ref())
    }

    /// Writes all entries and statements into the group of the transition. Returns whether there is an entry.
    pub(crate) fn write(&mut self, shared: &Shared, batch: &mut Batch) -> bool {
        let mut writes = false;
        for item in &mut self.items {
            if let Some(entry) = &mut item.entry {
                entry.take_number(shared);
                batch.put(entry.id, &entry.bytes);
                writes = true;
            }
        }
        for statement in &self.statements {
            batch.execute(statement.clone());
        }
        writes
    }

    /// Takes the announced numbers out, because the transition is not committed. It may be committed later.
    pub(crate) fn take_announced(&mut self) -> Vec<Announced> {
        let entries = self.items.iter_mut().filter_map(|item| item.entry.as_mut());
        let announced =
            entries.filter_map(
                |entry| match std::mem::replace(&mut entry.order, Sequence::Free) {
                    Sequence::Announced(announced) => Some(announced),
                    _ => None,
                },
            );
        announced.collect()
    }
}
