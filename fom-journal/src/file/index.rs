//! An index in memory: the place of each entry.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    hash::BuildHasherDefault,
};

use super::format::{HEAD, Kind, ROW, RawChange, Row};
use crate::entry::EntryHasher;

/// The place of an entry's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    segment: u64,
    offset: u32,
    length: u32,
}

/// A segment that may have entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) salt: u32,
    /// The sequence number of its first frame.
    pub(super) first: u64,
    /// Valid bytes.
    pub(super) valid: u64,
    /// Size of the file, in bytes.
    pub(super) size: u64,
    /// Entries that have their newest bytes in this segment.
    pub(super) live: u64,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    places: HashMap<u64, Place, BuildHasherDefault<EntryHasher>>,
    /// The segments, oldest first.
    pub(super) segments: VecDeque<Segment>,
    /// Total length of the entries, in bytes.
    bytes: u64,
}

impl Index {
    /// Applies a change to the index. `offset` is the offset of its row in the segment.
    pub(super) fn apply(&mut self, segment: u64, kind: Kind, id: u64, offset: u64, length: u32) {
        match kind {
            Kind::Put | Kind::PutDamaged => {
                // The offset fits 32 bits: longer segments are neither written nor read.
                let place = Place {
                    segment,
                    offset: offset as u32,
                    length,
                };
                self.bytes += u64::from(length);
                match self.places.insert(id, place) {
                    // Usually the old bytes are in the same segment.
                    Some(old) if old.segment == segment => self.bytes -= u64::from(old.length),
                    old => {
                        self.count(segment, 1);
                        if let Some(old) = old {
                            self.leave(old);
                        }
                    }
                }
            }
            Kind::Delete => {
                if let Entry::Occupied(entry) = self.places.entry(id) {
                    let old = entry.remove();
                    self.shrink();
                    self.leave(old);
                }
            }
            Kind::Floor => {}
        }
    }

    /// Applies a frame at an offset, and returns the end of the frame.
    pub(super) fn apply_frame<'a>(
        &mut self,
        segment: u64,
        at: u64,
        changes: impl Iterator<Item = RawChange<'a>>,
    ) -> u64 {
        let mut row = at + HEAD as u64;
        let mut length = 0;
        for (kind, id, bytes) in changes {
            self.apply(segment, kind, id, row, bytes.len() as u32);
            row += ROW as u64;
            length += bytes.len() as u64;
        }
        row + length
    }

    /// Releases unneeded memory of the table. Many changes lie between growing and shrinking, so the average cost is
    /// constant.
    fn shrink(&mut self) {
        const SMALL: usize = 128;
        let (length, room) = (self.places.len(), self.places.capacity());
        if room > SMALL && room / 8 > length {
            self.places.shrink_to(SMALL.max(2 * length));
        }
    }

    /// Whether the row in the segment has the newest bytes of its entry.
    pub(super) fn is_newest(&self, segment: u64, row: &Row) -> bool {
        let place = Place {
            segment,
            offset: row.place as u32,
            length: row.length,
        };
        self.places.get(&row.id) == Some(&place)
    }

    pub(super) fn entries(&self) -> u64 {
        self.places.len() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The size of the entries with one frame for each.
    pub(super) fn live(&self) -> u64 {
        self.bytes + self.entries() * (HEAD + ROW) as u64
    }

    fn leave(&mut self, old: Place) {
        self.bytes -= u64::from(old.length);
        self.count(old.segment, -1);
    }

    fn count(&mut self, number: u64, by: i64) {
        // Usually the newest segment.
        let at = match self.segments.back() {
            Some(newest) if newest.number == number => self.segments.len() - 1,
            _ => self.segments.partition_point(|other| other.number < number),
        };
        let segment = self.segments.get_mut(at);
        if let Some(segment) = segment.filter(|segment| segment.number == number) {
            segment.live = segment.live.wrapping_add_signed(by);
        }
    }
}
