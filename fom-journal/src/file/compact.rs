//! Frees space: writes the live entries of the oldest segment again, and then frees its file.
//!
//! Segments become free in the order in which they were written. So a delete is needed only until its own segment is
//! the oldest: the entry that it deleted was older, and is gone by then.

use super::{
    FileJournal,
    directory::Directory,
    format::{FIRST, Kind, RawChange},
    index::Segment,
    log::Log,
    scan::Scan,
    space::Space,
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

/// What is written again, and how much of it is due.
pub(super) struct Compaction {
    directory: Directory,
    moves: Moves,
    cursor: Option<Cursor>,
    /// Bytes to move, in return for new writes.
    debt: u64,
}

impl Compaction {
    pub(super) fn new(directory: Directory) -> Self {
        Self {
            directory,
            moves: Moves::default(),
            cursor: None,
            debt: 0,
        }
    }

    /// Begins again after the files were read.
    pub(super) fn restart(&mut self) {
        self.moves = Moves::default();
        self.cursor = None;
    }

    /// Takes the staged moves, to write them.
    pub(super) fn take(&mut self) -> Moves {
        std::mem::take(&mut self.moves)
    }

    /// Makes the next stage look for the moves again, because their write has failed.
    pub(super) fn look_again(&mut self) {
        self.cursor = None;
    }

    /// Whether moves wait for the next sync.
    pub(super) fn is_staged(&self) -> bool {
        !self.moves.is_empty()
    }

    /// Whether the next slice has something to do in return for new writes.
    pub(super) fn is_due(&self, log: &Log) -> bool {
        self.debt > 0 || log.is_oldest_dead()
    }

    /// Stages a floor: no segment below it is needed.
    pub(super) fn stage_floor(&mut self, floor: u64) {
        self.moves.floor = Some(floor);
    }

    /// Adds to the bytes to move, in return for `written` bytes. So the size stays bounded, however fast the caller
    /// writes.
    ///
    /// Suppose that the files take `s` times the live bytes, and that the live bytes are spread evenly. Then each
    /// written byte costs `1 / (s - 1)` moved bytes. So the files may grow nearly to their bound. Moves begin earlier,
    /// because at first all live bytes may precede the first dead byte.
    pub(super) fn add_debt(&mut self, written: u64, log: &Log, space: &Space) {
        let used = log.size();
        if used <= space.bound(log, 6) {
            self.debt = 0;
        } else if used <= space.bound(log, 1) {
            self.debt += written + written / 8;
        } else {
            self.debt += 4 * written;
        }
    }

    /// Prepares the moves of one slice, if any are due.
    pub(super) fn stage(
        &mut self,
        large: bool,
        log: &Log,
        space: &Space,
    ) -> Result<(), JournalError> {
        const SLICE: u64 = 128 << 10;
        const LEAST: u64 = 16 << 10;
        const MOST: u64 = 64 << 20;
        let slice = SLICE.min(space.segment_bytes / 4);
        if !self.moves.is_empty() {
            return Ok(());
        }
        let budget = match large {
            true => self.debt.max(slice),
            false if self.debt >= LEAST.min(slice) => self.debt,
            false if log.is_oldest_dead() => 0,
            false => return Ok(()),
        };
        self.debt = 0;
        self.stage_oldest(budget.min(MOST), log)
    }

    /// Prepares moves of the oldest segment, of about `budget` bytes.
    fn stage_oldest(&mut self, budget: u64, log: &Log) -> Result<(), JournalError> {
        let segments = &log.index.segments;
        let Some(oldest) = segments.front().copied() else {
            return Ok(());
        };
        if log.is_dead(&oldest) {
            // The dead segments at the front become free at once.
            let first = segments.iter().find(|segment| !log.is_dead(segment));
            self.moves.floor = first.map(|first| first.number);
            return Ok(());
        }
        let Some(after) = segments.get(1).map(|after| after.number) else {
            return Ok(());
        };
        let mut moves = self.moves_of(&oldest, budget, log)?;
        if moves.rows.len() >= oldest.live as usize {
            moves.floor = Some(after);
        }
        self.moves = moves;
        Ok(())
    }

    /// Reads live entries of a segment, from the cursor on. Stops after about `budget` bytes.
    fn moves_of(
        &mut self,
        oldest: &Segment,
        budget: u64,
        log: &Log,
    ) -> Result<Moves, JournalError> {
        let number = oldest.number;
        let is_known_damaged = log.damaged.contains(&number);
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
                if !log.index.is_newest(number, &row) {
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
}

impl FileJournal {
    /// Frees the segments below a durable floor.
    pub(super) fn raise(&mut self, floor: u64) {
        self.log.floor = floor;
        while let Some(segment) = self.log.index.segments.front().copied()
            && segment.number < floor
        {
            self.log.index.segments.pop_front();
            match self.log.damaged.contains(&segment.number) {
                true => self.directory.keep_damaged(segment.number),
                false => self.space.discard(segment.number, segment.size, &self.log),
            }
        }
    }

    /// Does one slice of moves, and prepares for a quick next commit.
    pub(super) fn tidy_slice(&mut self) -> Result<bool, JournalError> {
        if self.compaction.is_staged() {
            self.append(&Batch::new(), 0)?;
        } else {
            self.stage(self.space.is_large(&self.log))?;
        }
        self.space.make_wanted(&self.log)?;
        if std::mem::replace(&mut self.is_idle, true) {
            self.buffer = Vec::new();
        }
        Ok(self.compaction.is_staged() || self.space.is_large(&self.log))
    }

    /// Prepares the moves of one slice, if any are due.
    pub(super) fn stage(&mut self, large: bool) -> Result<(), JournalError> {
        self.compaction.stage(large, &self.log, &self.space)
    }
}
