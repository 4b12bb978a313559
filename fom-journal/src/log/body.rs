//! The changes of some groups as a body, which the store keeps as a row or a message.

use std::{collections::HashMap, ops::Range};

use crate::{Change, EntryId, Group};

/// The first byte of each body.
const FORMAT: u8 = 1;
/// The length of an entry that is deleted.
const DELETED: u32 = u32::MAX;
/// The number and the length before the bytes of an entry.
const HEAD: usize = 12;
/// The checksum at the end.
const SUM: usize = 4;

/// One change in a body.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) id: EntryId,
    /// The place of the bytes; `None` for an entry that is deleted.
    pub(crate) bytes: Option<Range<usize>>,
}

/// A body, and the changes in it.
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    pub(crate) changes: Vec<Stored>,
}

impl Body {
    /// Returns a body without changes and without a checksum.
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![FORMAT],
            changes: Vec::new(),
        }
    }

    pub(crate) fn put(&mut self, id: EntryId, bytes: &[u8]) {
        self.head(id, bytes.len() as u32);
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let bytes = Some(from..self.bytes.len());
        self.changes.push(Stored { id, bytes });
    }

    fn delete(&mut self, id: EntryId) {
        self.head(id, DELETED);
        self.changes.push(Stored { id, bytes: None });
    }

    fn head(&mut self, id: EntryId, length: u32) {
        self.bytes.extend_from_slice(&id.0.to_le_bytes());
        self.bytes.extend_from_slice(&length.to_le_bytes());
    }

    /// Adds the checksum.
    pub(crate) fn finish(mut self) -> Self {
        let sum = crc32fast::hash(&self.bytes);
        self.bytes.extend_from_slice(&sum.to_le_bytes());
        self
    }
}

/// Writes groups that become durable together: of each entry, only its last change.
pub(crate) fn encode<'a>(groups: impl Iterator<Item = Group<'a>>) -> Body {
    let changes: Vec<_> = groups.flat_map(|group| group.changes()).collect();
    let mut last = HashMap::with_capacity(changes.len());
    for (place, change) in changes.iter().enumerate() {
        let (Change::Put { id, .. } | Change::Delete { id }) = change;
        last.insert(*id, place);
    }
    let mut body = Body::new();
    for (place, change) in changes.iter().enumerate() {
        match change {
            Change::Put { id, bytes } if last[id] == place => body.put(*id, bytes),
            Change::Delete { id } if last[id] == place => body.delete(*id),
            _ => {}
        }
    }
    body.finish()
}

/// Returns the changes in a body.
///
/// # Errors
///
/// Fails with what is wrong with the body.
pub(crate) fn decode(body: &[u8]) -> Result<Vec<Stored>, &'static str> {
    let (content, sum) = body.split_last_chunk::<SUM>().ok_or("it is too short")?;
    if crc32fast::hash(content) != u32::from_le_bytes(*sum) {
        return Err("its checksum is wrong");
    }
    if content.first() != Some(&FORMAT) {
        return Err("its format is unknown");
    }
    let (mut changes, mut at) = (Vec::new(), 1);
    while at < content.len() {
        let head = content.get(at..at + HEAD).ok_or("a change is cut off")?;
        let (id, length) = head.split_at(8);
        let id = EntryId(u64::from_le_bytes(id.try_into().unwrap_or_default()));
        let length = u32::from_le_bytes(length.try_into().unwrap_or_default());
        at += HEAD;
        if length == DELETED {
            changes.push(Stored { id, bytes: None });
            continue;
        }
        let end = at + length as usize;
        if end > content.len() {
            return Err("an entry is cut off");
        }
        let bytes = Some(at..end);
        changes.push(Stored { id, bytes });
        at = end;
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use crate::Batch;

    use super::*;

    fn body() -> Vec<u8> {
        let mut batch = Batch::new();
        batch.put(EntryId(70_000), b"first");
        batch.put(EntryId(70_001), b"");
        batch.end_group();
        batch.put(EntryId(70_000), b"second");
        batch.delete(EntryId(9));
        batch.end_group();
        encode(batch.groups()).bytes
    }

    #[test]
    fn only_the_last_change_of_an_entry_is_kept() {
        let body = body();
        let changes = decode(&body).unwrap();
        let changes: Vec<_> = changes
            .into_iter()
            .map(|change| (change.id.0, change.bytes.map(|bytes| &body[bytes])))
            .collect();
        let expected: [(u64, Option<&[u8]>); 3] =
            [(70_001, Some(b"")), (70_000, Some(b"second")), (9, None)];
        assert_eq!(changes, expected);
    }

    /// A body with any byte changed, or cut anywhere, is refused.
    #[test]
    fn a_damaged_body_is_refused() {
        let good = body();
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 0x40;
            assert!(decode(&bad).is_err(), "byte {place}");
            assert!(decode(&good[..place]).is_err(), "cut at {place}");
        }
    }

    /// Lengths that lead beyond the end are refused, although the checksum is right.
    #[test]
    fn hostile_lengths_are_refused() {
        for content in [&[FORMAT, 1, 2][..], &[2], &[FORMAT; 13], &[]] {
            let mut body = content.to_vec();
            body.extend(crc32fast::hash(content).to_le_bytes());
            assert!(decode(&body).is_err(), "{content:?}");
        }
    }
}
