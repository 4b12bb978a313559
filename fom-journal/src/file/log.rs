//! The log: the segments with entries, and the place of the next frame.

use std::collections::BTreeSet;

use super::{
    format::{Checkpoint, Header, Link},
    index::{Index, Segment},
};
use crate::disk::DiskFile;

/// The segments with entries, oldest first, and the place of the next frame.
#[derive(Default)]
pub(super) struct Log {
    /// The number of the journal.
    pub(super) journal: u64,
    /// The sequence number of the next frame.
    pub(super) next: u64,
    /// No segment below this one is needed.
    pub(super) floor: u64,
    pub(super) index: Index,
    pub(super) active: Option<Active>,
    /// Damaged segments. They are kept under another name when they are no longer needed.
    pub(super) damaged: BTreeSet<u64>,
}

/// The segment that is written to.
pub(super) struct Active {
    pub(super) header: Header,
    pub(super) file: Box<dyn DiskFile>,
    /// The generation of the manifest that names the segment.
    pub(super) named: u64,
    /// The offset of the next frame.
    pub(super) end: u64,
    /// Whether the link of the segment is durable.
    pub(super) begun: bool,
}

impl Log {
    /// Returns the link of the next segment, without its generation.
    pub(super) fn link(&self) -> Link {
        let previous = self.index.segments.back();
        Link {
            generation: 0,
            first: self.next,
            previous: previous.map_or(0, |segment| segment.number),
            valid: previous.map_or(0, |segment| segment.valid),
            floor: self.floor,
        }
    }

    /// Returns the next content of the manifest: no segment follows the newest one, or only segment `next` may.
    pub(super) fn checkpoint(&self, next: Option<u64>) -> Checkpoint {
        let last = self.index.segments.back();
        let number = last.map_or(0, |segment| segment.number);
        Checkpoint {
            journal: self.journal,
            last: number,
            // Without an active segment, no later write goes behind what a failure or another process left.
            valid: match &self.active {
                Some(_) => 0,
                None => last.map_or(0, |segment| segment.valid),
            },
            next: next.unwrap_or(number),
            floor: self.floor,
        }
    }

    /// Returns the size of the segments that may hold entries, in bytes.
    pub(super) fn size(&self) -> u64 {
        self.index.segments.iter().map(|segment| segment.size).sum()
    }

    pub(super) fn is_oldest_dead(&self) -> bool {
        let oldest = self.index.segments.front();
        oldest.is_some_and(|oldest| self.is_dead(oldest))
    }

    /// Whether no entry has its newest bytes in a segment that gets no more writes.
    pub(super) fn is_dead(&self, segment: &Segment) -> bool {
        let newest = self.index.segments.back();
        segment.live == 0 && newest.is_some_and(|newest| newest.number != segment.number)
    }
}
