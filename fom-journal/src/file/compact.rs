//! Frees space: writes the live entries of the oldest segment again, and then frees its file.
//!
//! Segments become free in the order in which they were written. So a delete is needed only until its own segment is
//! the oldest: the entry that it deleted was older, and is gone by then.

use super::{
    FileJournal,
    format::{FIRST, HEAD, Kind, ROW},
    index::Index,
    recovery::place_of,
    scan::{Scan, Step},
    window::Window,
};
use crate::{Batch, Damage, JournalError};

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
    pub(super) fn written(&self) -> impl Iterator<Item = (Kind, u64, &[u8])> + Clone {
        let moved = self.rows.iter();
        let moved = moved.map(|(kind, id, range)| (*kind, *id, &self.bytes[range.clone()]));
        moved.chain(self.floor.map(|floor| (Kind::Floor, floor, &[][..])))
    }
}

impl Index {
    /// Applies a frame at an offset, and returns the end of the frame.
    pub(super) fn apply_frame<'a>(
        &mut self,
        segment: u64,
        at: u64,
        changes: impl Iterator<Item = (Kind, u64, &'a [u8])>,
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
        let others = self.spares.len() + usize::from(!self.ahead.is_none());
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
    pub(super) fn owe(&mut self, written: u64) {
        self.trim_spares();
        let used = self.used();
        if used <= self.bound(10) {
            self.owed = 0;
        } else if used <= self.bound(15) {
            self.owed += written + written / 8;
        } else {
            self.owed += 4 * written;
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
            true => self.owed.max(slice),
            false if self.owed >= LEAST.min(slice) => self.owed,
            false if self.is_oldest_dead() => 0,
            false => return Ok(()),
        };
        self.owed = 0;
        self.stage_oldest(budget.min(MOST))
    }

    pub(super) fn is_oldest_dead(&self) -> bool {
        let oldest = self.index.segments.front();
        oldest.is_some_and(|oldest| oldest.live == 0 && !self.is_newest(oldest.number))
    }

    fn is_newest(&self, number: u64) -> bool {
        self.index
            .segments
            .back()
            .is_none_or(|newest| newest.number == number)
    }

    fn stage_oldest(&mut self, budget: u64) -> Result<(), JournalError> {
        // Segments at the front without a live entry become free at once.
        let dead = self
            .index
            .segments
            .iter()
            .take_while(|segment| segment.live == 0);
        let dead = dead
            .filter(|segment| !self.is_newest(segment.number))
            .count();
        let number_at = |at: usize| self.index.segments.get(at).map(|segment| segment.number);
        if dead > 0 {
            self.moves.floor = number_at(dead);
            return Ok(());
        }
        let (Some(oldest), Some(after)) = (self.index.segments.front().copied(), number_at(1))
        else {
            return Ok(());
        };
        let number = oldest.number;
        let is_known_damaged = self.aside.contains(&number);
        let cursor = match self.cursor {
            Some(cursor) if cursor.segment == number => cursor,
            _ => Cursor {
                segment: number,
                at: FIRST as u64,
                next: oldest.first,
            },
        };
        let path = || self.directory.segment(number);
        let failed = |error| JournalError::io("read", path(), error);
        let file = self.directory.open(number, false)?;
        let window = Window::new(&*file, oldest.valid).map_err(failed)?;
        let mut scan = Scan::new(window, oldest.salt, cursor.at, cursor.next);
        let mut moves = Moves::default();
        let live = oldest.live as usize;
        while moves.rows.len() < live {
            let (at, _) = scan.place();
            if moves.bytes.len() as u64 >= budget || at - cursor.at >= 8 * budget {
                break;
            }
            match scan.step().map_err(failed)? {
                Step::Frame { .. } => {}
                Step::Rows { .. } | Step::Gap { .. } if is_known_damaged => continue,
                // Damaged since the journal was opened, with live entries behind the damage.
                Step::Rows { at, .. } | Step::Gap { at, .. } | Step::End { at } => {
                    let length = oldest.valid.saturating_sub(at);
                    let what = "groups cannot be read that could when it was opened";
                    return Err(JournalError::Damaged(Damage::new(path(), at, length, what)));
                }
            }
            for at in 0..scan.rows.len() {
                let (row, salt) = (scan.rows[at], scan.salt());
                if self.index.place(row.id) != Some(place_of(number, &row)) {
                    continue;
                }
                if let Some(bytes) = scan.bytes(&row).map_err(failed)? {
                    // A damaged entry keeps its number, and the next recovery reports it again.
                    let kind = match row.matches(bytes, salt) {
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
        if moves.rows.len() >= live {
            moves.floor = Some(after);
        }
        self.moves = moves;
        Ok(())
    }

    /// Frees the segments below a durable floor.
    pub(super) fn raise(&mut self, floor: u64) {
        self.floor = floor;
        while let Some(segment) = self.index.segments.front().copied()
            && segment.number < floor
        {
            self.index.segments.pop_front();
            match self.aside.contains(&segment.number) {
                true => self.set_aside(segment.number),
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
        if self.wants_ahead() {
            self.begin_or_make_ahead()?;
        }
        if std::mem::replace(&mut self.rests, true) {
            self.buffer = Vec::new();
        }
        Ok(!self.moves.is_empty() || self.is_large())
    }
}
