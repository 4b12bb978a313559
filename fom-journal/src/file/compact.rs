//! Frees space: writes the live entries of the oldest segment again, and then frees its file.
//!
//! Segments become free in the order in which they were written. So a delete is needed only until its own segment is
//! the oldest: the entry that it deleted was older, and is gone by then.

use super::{
    FileJournal,
    format::{FIRST, Kind, RawChange},
    index::Segment,
    preallocate::Preallocated,
    scan::Scan,
};
use crate::{Batch, JournalError};

/// Changes to write again with the next sync.
#[derive(Default)]
pub(super) struct Moves {
    bytes: Vec<u8>,
    rows: Vec<(Kind, u64, std::ops::Range<usize>)>,
    /// With it, no segment below this one is needed.
    pub(super) floor: Option<u64>,
}

/// The position of the moves in the oldest segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    segment: u64,
    at: u64,
    next: u64,
}

impl Moves {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.floor.is_none()
    }

    /// Returns the changes, as one group.
    pub(super) fn changes(&self) -> impl Iterator<Item = RawChange<'_>> + Clone {
        let moved = self.rows.iter();
        let moved = moved.map(|(kind, id, range)| (*kind, *id, &self.bytes[range.clone()]));
        moved.chain(self.floor.map(|floor| (Kind::Floor, floor, &[][..])))
    }
}

impl FileJournal {
    /// Returns the size of the segments that may hold entries, in bytes.
    fn used(&self) -> u64 {
        self.index.segments.iter().map(|segment| segment.size).sum()
    }

    /// Returns `eighths` eighths of the live bytes plus one segment, and at least two segments.
    fn bound(&self, eighths: u64) -> u64 {
        let share = self.index.live() / 8 * eighths;
        (share + self.segment_bytes).max(2 * self.segment_bytes)
    }

    /// Returns the size of all segments, in bytes.
    pub(super) fn size(&self) -> u64 {
        let others = self.spares.len() + usize::from(!self.preallocated.is_none());
        let failed: u64 = self.failed.iter().map(|(_, size)| size).sum();
        self.used() + others as u64 * self.segment_bytes + failed
    }

    /// Returns the size that the journal stays below.
    pub(super) fn limit(&self) -> u64 {
        self.bound(16) + 2 * self.segment_bytes
    }

    /// Whether the journal must shrink even without new writes.
    pub(super) fn is_large(&self) -> bool {
        // The newest segment alone cannot shrink.
        self.index.segments.len() > 1 && self.used() > self.bound(16)
    }

    /// Adds to the bytes to move, in return for `written` bytes. So the size stays bounded, however fast the caller
    /// writes.
    ///
    /// Suppose that the files take `s` times the live bytes, and that the live bytes are spread evenly. Then each
    /// written byte costs `1 / (s - 1)` moved bytes. So the files may grow to nearly twice the live bytes. Moves begin
    /// earlier, because at first all live bytes may precede the first dead byte.
    pub(super) fn add_debt(&mut self, written: u64) {
        self.trim_spares();
        let used = self.used();
        if used <= self.bound(10) {
            self.debt = 0;
        } else if used <= self.bound(15) {
            self.debt += written + written / 8;
        } else {
            self.debt += 4 * written;
        }
    }

    /// Prepares the moves of one slice, if any are due.
    pub(super) fn stage(&mut self, large: bool) -> Result<(), JournalError> {
        const SLICE: u64 = 128 << 10;
        const LEAST: u64 = 16 << 10;
        const MOST: u64 = 64 << 20;
        let slice = SLICE.min(self.segment_bytes / 4);
        if !self.moves.is_empty() {
            return Ok(());
        }
        let budget = match large {
            true => self.debt.max(slice),
            false if self.debt >= LEAST.min(slice) => self.debt,
            false if self.is_oldest_dead() => 0,
            false => return Ok(()),
        };
        self.debt = 0;
        self.stage_oldest(budget.min(MOST))
    }

    pub(super) fn is_oldest_dead(&self) -> bool {
        let oldest = self.index.segments.front();
        oldest.is_some_and(|oldest| self.is_dead(oldest))
    }

    /// Whether no entry has its newest bytes in a segment that gets no more writes.
    fn is_dead(&self, segment: &Segment) -> bool {
        let newest = self.index.segments.back();
        segment.live == 0 && newest.is_some_and(|newest| newest.number != segment.number)
    }

    /// Prepares moves of the oldest segment, of about `budget` bytes.
    fn stage_oldest(&mut self, budget: u64) -> Result<(), JournalError> {
        let segments = &self.index.segments;
        let Some(oldest) = segments.front().copied() else {
            return Ok(());
        };
        if self.is_dead(&oldest) {
            // The dead segments at the front become free at once.
            let first = segments.iter().find(|segment| !self.is_dead(segment));
            self.moves.floor = first.map(|first| first.number);
            return Ok(());
        }
        let Some(after) = segments.get(1).map(|after| after.number) else {
            return Ok(());
        };
        let mut moves = self.moves_of(&oldest, budget)?;
        if moves.rows.len() >= oldest.live as usize {
            moves.floor = Some(after);
        }
        self.moves = moves;
        Ok(())
    }

    /// Reads live entries of a segment, from the cursor on. Stops after about `budget` bytes.
    fn moves_of(&mut self, oldest: &Segment, budget: u64) -> Result<Moves, JournalError> {
        let number = oldest.number;
        let is_known_damaged = self.damaged.contains(&number);
        let cursor = match self.cursor {
            Some(cursor) if cursor.segment == number => cursor,
            _ => Cursor {
                segment: number,
                at: FIRST as u64,
                next: oldest.first,
            },
        };
        let window = self.directory.window(number, oldest.valid)?;
        let mut scan = Scan::new(window, oldest.salt, cursor.at, cursor.next);
        let mut moves = Moves::default();
        while moves.rows.len() < oldest.live as usize {
            let (at, _) = scan.place();
            if moves.bytes.len() as u64 >= budget || at - cursor.at >= 8 * budget {
                break;
            }
            if !scan.next_frame(oldest.valid, is_known_damaged)? {
                // There are live entries behind the end.
                return Err(scan.unreadable(at, oldest.valid));
            }
            for at in 0..scan.rows.len() {
                let row = scan.rows[at];
                if !self.index.is_newest(number, &row) {
                    continue;
                }
                if let Some((bytes, is_whole)) = scan.bytes(&row)? {
                    // A damaged entry keeps its number, and the next recovery reports it again.
                    let kind = match is_whole {
                        true => row.kind,
                        false => Kind::PutDamaged,
                    };
                    let start = moves.bytes.len();
                    moves.bytes.extend_from_slice(bytes);
                    moves.rows.push((kind, row.id, start..moves.bytes.len()));
                }
            }
        }
        let (at, next) = scan.place();
        self.cursor = Some(Cursor {
            segment: number,
            at,
            next,
        });
        Ok(moves)
    }

    /// Frees the segments below a durable floor.
    pub(super) fn raise(&mut self, floor: u64) {
        self.floor = floor;
        while let Some(segment) = self.index.segments.front().copied()
            && segment.number < floor
        {
            self.index.segments.pop_front();
            match self.damaged.contains(&segment.number) {
                true => self.keep_damaged(segment.number),
                false => self.discard(segment.number, segment.size),
            }
        }
    }

    /// Does one slice of moves, and prepares for a quick next commit.
    pub(super) fn tidy_slice(&mut self) -> Result<bool, JournalError> {
        if !self.moves.is_empty() {
            self.append(&Batch::new(), 0)?;
        } else {
            self.stage(self.is_large())?;
        }
        if self.wants_next() {
            match self.background {
                true => self.begin_next(),
                false => self.preallocated = Preallocated::Ready(self.next_made(0)?.0),
            }
        }
        if std::mem::replace(&mut self.is_idle, true) {
            self.buffer = Vec::new();
        }
        Ok(!self.moves.is_empty() || self.is_large())
    }
}
