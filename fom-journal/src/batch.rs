//! The changes of one commit.

use std::ops::Range;

use crate::{EntryId, Statement};

/// Groups of changes that are committed with one sync.
///
/// ```
/// use fom_journal::{Batch, Change, EntryId};
///
/// let mut batch = Batch::new();
/// batch.put(EntryId(7), b"ringing");
/// batch.delete(EntryId(8));
/// batch.end_group();
/// let changes: Vec<_> = batch.groups().flat_map(|group| group.changes()).collect();
/// assert_eq!(changes[0], Change::Put { id: EntryId(7), bytes: b"ringing" });
/// assert_eq!(changes[1], Change::Delete { id: EntryId(8) });
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    changes: Vec<Stored>,
    /// The end of each group in `changes`.
    ends: Vec<usize>,
    /// The number after the highest number of a put.
    next_id: u64,
    /// The length of the longest entry in the open group.
    longest: usize,
    /// The statements, with the number of their group.
    statements: Vec<(usize, Statement)>,
}

#[derive(Clone, Debug)]
struct Stored {
    id: EntryId,
    /// The range of the entry's bytes; `None` for a delete.
    bytes: Option<Range<usize>>,
}

/// A change of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Sets the bytes of an entry.
    Put {
        /// The entry.
        id: EntryId,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// Removes the entry. Without such an entry the change has no effect.
    Delete {
        /// The entry.
        id: EntryId,
    },
}

/// Changes that a crash keeps together: all of them or none.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    bytes: &'a [u8],
    changes: &'a [Stored],
    statements: &'a [(usize, Statement)],
}

impl Batch {
    /// Returns an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts an entry, in the open group. The journal takes the group with the next commit after
    /// [`end_group`](Self::end_group).
    pub fn put(&mut self, id: EntryId, bytes: &[u8]) {
        self.put_with(id, |out| out.extend_from_slice(bytes));
    }

    /// Puts an entry, in the open group. `write` appends the bytes of the entry, and its result is returned. `write`
    /// must not change the bytes that are already there: they belong to other entries.
    #[inline]
    pub fn put_with<R>(&mut self, id: EntryId, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let start = self.bytes.len();
        let done = write(&mut self.bytes);
        let end = self.bytes.len();
        let bytes = Some(start..end);
        self.longest = self.longest.max(end.saturating_sub(start));
        self.next_id = self.next_id.max(id.0.saturating_add(1));
        self.changes.push(Stored { id, bytes });
        done
    }

    /// Deletes an entry, in the open group.
    pub fn delete(&mut self, id: EntryId) {
        self.changes.push(Stored { id, bytes: None });
    }

    /// Adds a statement to the open group. The store executes the statements of a group in their order, in the transaction
    /// that commits the group. Only a store that [executes](crate::Journal::executes) this type may get it.
    pub fn execute(&mut self, statement: Statement) {
        self.statements.push((self.ends.len(), statement));
    }

    /// Ends the open group. Without changes and statements in the open group, the call does nothing.
    pub fn end_group(&mut self) {
        let executes = || {
            self.statements
                .last()
                .is_some_and(|(group, _)| *group == self.ends.len())
        };
        if self.changes.len() > self.last_end() || executes() {
            self.ends.push(self.changes.len());
        }
        self.longest = 0;
    }

    /// Discards the open group.
    pub fn drop_group(&mut self) {
        let end = self.last_end();
        let open = &self.changes[end..];
        let first = open.iter().find_map(|change| change.bytes.as_ref());
        if let Some(first) = first {
            self.bytes.truncate(first.start);
        }
        self.changes.truncate(end);
        let ended = self.ends.len();
        self.statements.retain(|(group, _)| *group < ended);
        self.longest = 0;
    }

    /// Moves the groups of `other` behind the groups of this batch. Ends the open groups of both. `other` keeps its
    /// memory.
    pub fn append(&mut self, other: &mut Self) {
        other.end_group();
        self.end_group();
        let (bytes, changes) = (self.bytes.len(), self.changes.len());
        self.bytes.append(&mut other.bytes);
        let moved = |range: Range<usize>| range.start + bytes..range.end + bytes;
        self.changes
            .extend(other.changes.drain(..).map(|change| Stored {
                id: change.id,
                bytes: change.bytes.map(moved),
            }));
        let groups = self.ends.len();
        let moved = |(group, statement)| (group + groups, statement);
        self.statements
            .extend(other.statements.drain(..).map(moved));
        self.ends
            .extend(other.ends.drain(..).map(|end| end + changes));
        self.next_id = self.next_id.max(std::mem::take(&mut other.next_id));
    }

    /// Removes all groups and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.changes.clear();
        self.ends.clear();
        self.statements.clear();
        self.next_id = 0;
        self.longest = 0;
    }

    /// Returns the length of the longest entry in the open group, in bytes; 0 if the group has no entry.
    ///
    /// A caller compares it with [`Journal::longest`](crate::Journal::longest) before it ends the group.
    pub fn longest_open_entry(&self) -> usize {
        self.longest
    }

    /// Returns the ended groups, in order. The open group is not one of them.
    pub fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let mut statements = &*self.statements;
        let groups = self.ends.iter().enumerate();
        groups.scan(0, move |start, (place, end)| {
            let range = std::mem::replace(start, *end)..*end;
            let own = statements.partition_point(|(group, _)| *group <= place);
            let (own, rest) = statements.split_at(own);
            statements = rest;
            Some(Group {
                bytes: &self.bytes,
                changes: &self.changes[range],
                statements: own,
            })
        })
    }

    /// Returns the statements of all ended groups, in order, and the number of the group of each.
    pub fn statements(&self) -> impl Iterator<Item = (usize, &Statement)> {
        let ended = self.statements.iter();
        let ended = ended.take_while(|(group, _)| *group < self.ends.len());
        ended.map(|(group, statement)| (*group, statement))
    }

    /// Returns a batch with all ended groups but this one.
    pub fn without(&self, group: usize) -> Self {
        let mut others = Self::new();
        for (place, other) in self.groups().enumerate() {
            if place != group {
                others.extend(other);
                others.end_group();
            }
        }
        others
    }

    /// Adds a group to the open group of this batch.
    pub fn extend(&mut self, group: Group<'_>) {
        for change in group.changes() {
            match change {
                Change::Put { id, bytes } => self.put(id, bytes),
                Change::Delete { id } => self.delete(id),
            }
        }
        for statement in group.statements() {
            self.execute(statement.clone());
        }
    }

    /// Returns the number of ended groups.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no ended group.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the total length of all entries, in bytes. The open group counts.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number after the highest number that was put since the batch was made or cleared; 0 if no entry was
    /// put. Entries of dropped groups count.
    pub fn next_id(&self) -> EntryId {
        EntryId(self.next_id)
    }

    /// Returns the memory that the batch has allocated, in bytes. [`clear`](Self::clear) keeps this memory.
    pub fn allocated_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.changes.capacity() * size_of::<Stored>()
            + self.ends.capacity() * size_of::<usize>()
    }

    fn last_end(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }
}

impl<'a> Group<'a> {
    /// Returns the changes, in order.
    pub fn changes(&self) -> impl Iterator<Item = Change<'a>> + Clone + use<'a> {
        let bytes = self.bytes;
        self.changes.iter().map(move |change| match &change.bytes {
            Some(range) => Change::Put {
                id: change.id,
                bytes: &bytes[range.clone()],
            },
            None => Change::Delete { id: change.id },
        })
    }

    /// Returns the statements to execute with the changes, in order.
    pub fn statements(&self) -> impl Iterator<Item = &'a Statement> + use<'a> {
        self.statements.iter().map(|(_, statement)| statement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(ids: &[u64]) -> Batch {
        let mut batch = Batch::new();
        for id in ids {
            batch.put(EntryId(*id), b"");
            batch.execute(Statement::new(*id));
            batch.end_group();
        }
        batch
    }

    /// Returns the numbers of the entries and statements of each group.
    fn groups(batch: &Batch) -> Vec<(Vec<u64>, Vec<u64>)> {
        let groups = batch.groups().map(|group| {
            let ids = group.changes().map(|change| {
                let (Change::Put { id, .. } | Change::Delete { id }) = change;
                id.0
            });
            let statements = group.statements();
            let statements = statements.map(|one| *one.downcast_ref::<u64>().unwrap());
            (ids.collect(), statements.collect())
        });
        groups.collect()
    }

    /// A statement stays with its group, whatever happens to the groups before it.
    #[test]
    fn statements_stay_with_their_groups() {
        let mut all = batch(&[1, 2]);
        all.put(EntryId(3), b"");
        all.execute(Statement::new(3_u64));
        all.drop_group();
        all.put(EntryId(4), b"");
        all.append(&mut batch(&[5]));
        all.execute(Statement::new(6_u64));
        let group = |id| (vec![id], vec![id]);
        assert_eq!(
            groups(&all),
            [group(1), group(2), (vec![4], vec![]), group(5)]
        );
        assert_eq!(
            groups(&all.without(1)),
            [group(1), (vec![4], vec![]), group(5)]
        );
        let of: Vec<_> = all.statements().map(|(group, _)| group).collect();
        assert_eq!(of, [0, 1, 3], "the open group is left out");
        all.end_group();
        assert_eq!(groups(&all)[4], (vec![], vec![6]));
    }
}
