//! The journal on top of a log.

use std::{any::TypeId, collections::BTreeMap, ops::Range, time::Duration};

use super::{
    body::{self, Body, Stored},
    index::Index,
    store::LogStore,
};
use crate::{
    Batch, Change, Committed, EntryId, Journal, JournalError, JournalStats, Lease, Recover,
    Recovery, Statement,
};

/// The most bytes of a body that holds several groups.
const BODY: usize = 32 << 20;
/// The longest entry.
const ENTRY: usize = 64 << 20;

/// A journal on top of a [`LogStore`].
#[derive(Debug)]
pub struct LogJournal<S> {
    store: S,
    index: Index,
    /// The bodies that are being appended: the number of each, its length, and its changes.
    pending: Vec<(u64, Content)>,
    written: u64,
    moved: u64,
    syncs: u64,
}

impl<S: LogStore> LogJournal<S> {
    /// Returns the journal that this store keeps.
    pub fn new(store: S) -> Self {
        Self {
            store,
            index: Index::default(),
            pending: Vec::new(),
            written: 0,
            moved: 0,
            syncs: 0,
        }
    }

    /// Returns the store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Reads the bodies up to `last`, in their order.
    fn read(
        &mut self,
        last: u64,
        mut each: impl FnMut(&mut Self, u64, Vec<u8>, Vec<Stored>),
    ) -> Result<(), JournalError> {
        let mut from = 0;
        loop {
            let bodies = self.store.load(from, last)?;
            let Some((newest, _)) = bodies.last() else {
                return Ok(());
            };
            from = newest + 1;
            for (number, body) in bodies {
                let changes = body::decode(&body);
                let changes = changes.map_err(|what| self.store.damaged(number, what))?;
                each(self, number, body, changes);
            }
        }
    }

    /// Appends bodies and executes statements: all of them, or none.
    fn append(
        &mut self,
        bodies: Vec<Body>,
        statements: Vec<(usize, Statement)>,
    ) -> Result<(), JournalError> {
        let (all, contents) = self.divide(bodies)?;
        let numbers = self.store.append(all, statements)?;
        self.pending = numbers.into_iter().zip(contents).collect();
        self.settle(true);
        Ok(())
    }

    /// Returns the bytes of the bodies, and what is noted of them when they are in the store.
    fn divide(&self, bodies: Vec<Body>) -> Result<(Vec<Vec<u8>>, Vec<Content>), JournalError> {
        let most = self.store.longest();
        let (mut all, mut contents) = (Vec::new(), Vec::new());
        for Body { bytes, changes } in bodies {
            let length = bytes.len();
            if length > most {
                return Err(JournalError::TooLong { length, most });
            }
            all.push(bytes);
            contents.push((length, changes));
        }
        Ok((all, contents))
    }
}

/// The length of a body, and its changes.
type Content = (usize, Vec<Stored>);

/// Returns the groups of a batch in bodies, and its statements.
fn encode(batch: &Batch) -> (Vec<Body>, Vec<(usize, Statement)>) {
    let (mut groups, mut bodies) = (batch.groups().peekable(), Vec::new());
    while groups.peek().is_some() {
        // Usually all groups are in one body.
        let mut length = 0;
        let body = std::iter::from_fn(|| {
            groups.next_if(|group| {
                let more: usize = group.changes().map(length_of).sum();
                let takes = length == 0 || length + more <= BODY;
                length += more;
                takes
            })
        });
        bodies.push(body::encode(body));
    }
    let statements = batch.statements();
    let statements = statements.map(|(group, statement)| (group, statement.clone()));
    (bodies, statements.collect())
}

impl<S: LogStore> Journal for LogJournal<S> {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        let mut bodies = Vec::new();
        // The newest bytes of each entry: the body, and the place in it.
        let mut live: BTreeMap<EntryId, (usize, Range<usize>)> = BTreeMap::new();
        self.read(self.store.last(), |this, number, body, changes| {
            this.index.add(number, body.len(), &changes);
            for change in changes {
                match change.bytes {
                    Some(bytes) => _ = live.insert(change.id, (bodies.len(), bytes)),
                    None => _ = live.remove(&change.id),
                }
            }
            bodies.push(body);
        })?;
        to.expect(live.len() as u64);
        for (id, (body, bytes)) in &live {
            to.entry(*id, &bodies[*body][bytes.clone()]);
        }
        Ok(Recovery {
            entries: live.len() as u64,
            ..Recovery::default()
        })
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let (bodies, statements) = encode(batch);
        self.append(bodies, statements)
    }

    fn commits_later(&self) -> bool {
        self.store.appends_later()
    }

    fn commit_later(&mut self, batch: &Batch, done: Committed) -> Option<Committed> {
        let (bodies, statements) = encode(batch);
        let Ok((all, contents)) = self.divide(bodies) else {
            return Some(done);
        };
        match self.store.append_later(all, statements, done) {
            Ok(numbers) => {
                self.pending = numbers.into_iter().zip(contents).collect();
                None
            }
            Err(done) => Some(done),
        }
    }

    fn settle(&mut self, is_kept: bool) {
        for (number, (length, changes)) in self.pending.drain(..).filter(|_| is_kept) {
            self.syncs += 1;
            self.written += length as u64;
            self.index.add(number, length, &changes);
        }
    }

    fn tidy(&mut self) -> Result<bool, JournalError> {
        let Some(last) = self.index.oldest() else {
            return Ok(false);
        };
        let mut moved = Body::new();
        self.read(last, |this, number, body, changes| {
            for change in changes {
                if let Some(bytes) = change.bytes
                    && this.index.is_live(change.id, number)
                {
                    moved.put(change.id, &body[bytes]);
                }
            }
        })?;
        if !moved.changes.is_empty() {
            let moved = moved.finish();
            self.moved += moved.bytes.len() as u64;
            self.append(vec![moved], Vec::new())?;
        }
        // What is live in these bodies is in a newer one now.
        self.store.delete_until(last)?;
        self.index.drop_until(last);
        Ok(self.index.oldest().is_some())
    }

    fn longest(&self) -> usize {
        ENTRY
    }

    fn executes(&self) -> Option<TypeId> {
        self.store.executes()
    }

    fn lease(&self) -> Option<Lease> {
        self.store.lease()
    }

    fn time(&self) -> Option<Duration> {
        self.store.time()
    }

    fn stats(&self) -> JournalStats {
        JournalStats {
            entries: self.index.entries(),
            live_bytes: self.index.live_bytes(),
            size_bytes: self.index.size_bytes(),
            written_bytes: self.written,
            moved_bytes: self.moved,
            syncs: self.syncs,
            ..JournalStats::default()
        }
    }
}

fn length_of(change: Change<'_>) -> usize {
    match change {
        Change::Put { bytes, .. } => bytes.len(),
        Change::Delete { .. } => 0,
    }
}
