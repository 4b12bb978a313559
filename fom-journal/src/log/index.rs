//! Which rows of the log hold live entries, and which rows to write again so that the log stays bounded.

use std::{
    collections::{BTreeMap, HashMap},
    hash::BuildHasherDefault,
};

use super::body::Stored;
use crate::{EntryId, entry::EntryHasher};

/// The log may be twice as long as its live entries, and this much longer, in bytes.
const SLACK: u64 = 4 << 20;
/// The most bytes that one round writes again.
const ROUND: u64 = 1 << 20;

/// An index of the log. The bytes themselves are only in the server.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The row with the newest bytes of each live entry, and their length.
    entries: HashMap<EntryId, (u64, u32), BuildHasherDefault<EntryHasher>>,
    /// The length of each row.
    rows: BTreeMap<u64, u64>,
    live: u64,
    size: u64,
}

impl Index {
    pub(crate) fn entries(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size
    }

    /// Notes a row that is in the log now, newer than all others.
    pub(crate) fn add(&mut self, seq: u64, length: usize, changes: &[Stored]) {
        for change in changes {
            let before = match &change.bytes {
                Some(bytes) => {
                    let length = bytes.len() as u32;
                    self.live += u64::from(length);
                    self.entries.insert(change.id, (seq, length))
                }
                None => self.entries.remove(&change.id),
            };
            self.live -= before.map_or(0, |(_, length)| u64::from(length));
        }
        self.rows.insert(seq, length as u64);
        self.size += length as u64;
    }

    /// Returns whether this row has the newest bytes of the entry.
    pub(crate) fn is_live(&self, id: EntryId, seq: u64) -> bool {
        self.entries.get(&id).is_some_and(|(row, _)| *row == seq)
    }

    /// Returns the last of the oldest rows that are worth writing again, if the log is too long.
    pub(crate) fn oldest(&self) -> Option<u64> {
        if self.size <= 2 * self.live + SLACK {
            return None;
        }
        let mut bytes = 0;
        let mut rows = self.rows.iter().take_while(|(_, length)| {
            let takes = bytes == 0 || bytes + **length <= ROUND;
            bytes += **length;
            takes
        });
        // The newest row stays, since all that it changed is live or says what is gone.
        let newest = self.rows.last_key_value()?.0;
        let last = rows.by_ref().last()?.0;
        (last < newest).then_some(*last)
    }

    /// Notes that all rows up to this one are gone. Their live entries are in newer rows.
    pub(crate) fn drop_until(&mut self, last: u64) {
        let kept = self.rows.split_off(&(last + 1));
        let gone = std::mem::replace(&mut self.rows, kept);
        self.size -= gone.values().sum::<u64>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(id: u64, length: usize) -> Stored {
        Stored {
            id: EntryId(id),
            bytes: Some(0..length),
        }
    }

    #[test]
    fn a_log_of_overwritten_entries_is_written_again_from_its_oldest_row() {
        let mut log = Index::default();
        let half = (ROUND / 2) as usize;
        for seq in 0..20 {
            log.add(seq, half, &[put(1, half), put(100 + seq % 2, 10)]);
        }
        assert_eq!(log.entries(), 3);
        assert_eq!(log.live_bytes(), half as u64 + 20);
        assert_eq!(log.size_bytes(), 20 * half as u64);
        assert_eq!(log.oldest(), Some(1), "two rows fill a round");
        assert!(log.is_live(EntryId(1), 19) && !log.is_live(EntryId(1), 18));
        assert!(log.is_live(EntryId(100), 18));
        log.drop_until(1);
        assert_eq!(log.size_bytes(), 18 * half as u64);
        while let Some(last) = log.oldest() {
            log.drop_until(last);
        }
        assert!(log.size_bytes() <= 2 * log.live_bytes() + SLACK);
    }

    #[test]
    fn a_deleted_entry_is_not_live() {
        let mut log = Index::default();
        log.add(1, 50, &[put(1, 20)]);
        let gone = Stored {
            id: EntryId(1),
            bytes: None,
        };
        log.add(2, 20, &[gone]);
        assert_eq!((log.entries(), log.live_bytes()), (0, 0));
        assert_eq!(log.oldest(), None, "it is short");
    }
}
