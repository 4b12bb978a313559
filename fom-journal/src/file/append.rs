//! Appends groups: one write for each sync.

use std::iter;

use super::{
    FileJournal,
    compact::Moves,
    format::{
        FIRST, HEAD, Kind, LINK, LONGEST, LONGEST_BATCH, LONGEST_GROUP, ROW, RawChange, SaltedCrc,
        encode_frame, frame_length,
    },
    index::Segment,
    log::Active,
    preallocate::SYNCS,
};
use crate::{Batch, Change, Group, JournalError, disk::write_all};

fn raw(group: Group<'_>) -> impl Iterator<Item = RawChange<'_>> + Clone {
    group.changes().map(|change| match change {
        Change::Put { id, bytes } => (Kind::Put, id.0, bytes),
        Change::Delete { id } => (Kind::Delete, id.0, &[][..]),
    })
}

/// Returns the length of the batch's frames, in bytes. Fails before any write if an entry, a group or the batch is too
/// long.
pub(super) fn check(batch: &Batch) -> Result<usize, JournalError> {
    let mut total = 0;
    for group in batch.groups() {
        let mut length = HEAD;
        for (_, _, bytes) in raw(group) {
            if bytes.len() > LONGEST {
                return Err(too_long(bytes.len(), LONGEST));
            }
            length = length.saturating_add(ROW + bytes.len());
        }
        if length > LONGEST_GROUP {
            return Err(too_long(length, LONGEST_GROUP));
        }
        total += length;
    }
    if total > LONGEST_BATCH {
        return Err(too_long(total, LONGEST_BATCH));
    }
    Ok(total)
}

fn too_long(length: usize, most: usize) -> JournalError {
    JournalError::TooLong { length, most }
}

impl FileJournal {
    /// Appends the staged moves and then a batch, with one write and one sync. The frames of the batch take `length`
    /// bytes. A batch larger than a segment gets a segment of its own size. If it were in two segments, a failed write of
    /// the second would leave the first half in the journal.
    pub(super) fn append(&mut self, batch: &Batch, length: usize) -> Result<(), JournalError> {
        let moves = self.compaction.take();
        let moved = match moves.is_empty() {
            true => 0,
            false => frame_length(moves.changes()),
        };
        let room = (moved + length) as u64;
        let fits = |active: &Active| active.end + room <= active.header.size;
        let rotated = match self.log.active.as_ref().is_some_and(fits) {
            true => Ok(()),
            false => self.rotate(room),
        };
        let done = rotated.and_then(|()| self.write_and_apply(&moves, batch));
        if done.is_err() {
            self.compaction.look_again();
        }
        done
    }

    fn write_and_apply(&mut self, moves: &Moves, batch: &Batch) -> Result<(), JournalError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        self.is_idle = false;
        let done = self.write(&mut buffer, moves, batch);
        // One very large batch must not keep its memory forever.
        buffer.shrink_to(4 << 20);
        self.buffer = buffer;
        match done {
            Ok(()) => self.apply(moves, batch),
            // It is unknown how much reached the disk. The link of the next segment declares that part invalid.
            Err(_) => {
                let unused = self.log.active.take().filter(|active| !active.begun);
                if let Some(unused) = unused {
                    self.space.add_failed(unused.header);
                }
            }
        }
        done
    }

    fn write(
        &mut self,
        buffer: &mut Vec<u8>,
        moves: &Moves,
        batch: &Batch,
    ) -> Result<(), JournalError> {
        let mut link = self.log.link();
        let Some(active) = &mut self.log.active else {
            return Err(JournalError::Closed);
        };
        let mut at = active.end;
        if !active.begun {
            link.generation = active.named;
            buffer.extend_from_slice(&link.encode(&active.header));
            at = LINK as u64;
        }
        let salted = SaltedCrc::new(active.header.salt);
        let mut index = 0;
        if !moves.is_empty() {
            let before = buffer.len();
            encode_frame(buffer, &salted, self.log.next, index, moves.changes());
            index += 1;
            self.stats.moved_bytes += (buffer.len() - before) as u64;
        }
        for group in batch.groups() {
            let sequence = self.log.next + u64::from(index);
            encode_frame(buffer, &salted, sequence, index, raw(group));
            index += 1;
        }
        let end = at + buffer.len() as u64;
        // Zeros in place of the next head mark the end. The next write overwrites them.
        let zeros = active.header.size.saturating_sub(end).min(HEAD as u64);
        buffer.extend(iter::repeat_n(0, zeros as usize));
        self.stats.written_bytes += buffer.len() as u64;
        let path = || self.directory.segment(active.header.number);
        write_all(&mut *active.file, buffer, at)
            .map_err(|error| JournalError::io("write", path(), error))?;
        self.stats.syncs += 1;
        let synced = active.file.sync();
        synced.map_err(|error| JournalError::io("sync", path(), error))?;
        active.end = end;
        Ok(())
    }

    /// Writes the end of the last segment when the journal closes, so that recovery can tell damage before the end from
    /// a torn write. If the write fails, recovery treats the segment as after a crash.
    pub(super) fn write_end(&mut self) {
        if self.recovered && !self.log.index.segments.is_empty() {
            self.log.active = None;
            let last = self.log.checkpoint(None);
            let _ = self.space.manifest.lock().record(last);
        }
    }

    /// Updates the state after a sync.
    fn apply(&mut self, moves: &Moves, batch: &Batch) {
        let Some(active) = &mut self.log.active else {
            return;
        };
        let number = active.header.number;
        if !std::mem::replace(&mut active.begun, true) {
            self.log.index.segments.push_back(Segment {
                number,
                salt: active.header.salt,
                first: self.log.next,
                valid: FIRST as u64,
                size: active.header.size,
                live: 0,
            });
        }
        let Some(segment) = self.log.index.segments.back_mut() else {
            return;
        };
        let mut at = std::mem::replace(&mut segment.valid, active.end);
        if !moves.is_empty() {
            self.log.next += 1;
            at = self.log.index.apply_frame(number, at, moves.changes());
        }
        let begin = at;
        for group in batch.groups() {
            self.log.next += 1;
            at = self.log.index.apply_frame(number, at, raw(group));
        }
        self.space.trim(&self.log);
        self.compaction.add_debt(at - begin, &self.log, &self.space);
        if let Some(floor) = moves.floor {
            self.raise(floor);
        }
        self.space.begin_wanted(&self.log);
    }

    /// Switches to a new segment, with room for `room` bytes of frames.
    fn rotate(&mut self, room: u64) -> Result<(), JournalError> {
        let (made, named) = self.space.next_made(room, &self.log)?;
        self.stats.prepared_bytes += made.prepared;
        self.stats.written_bytes += made.prepared;
        self.stats.syncs += SYNCS;
        self.log.active = Some(Active {
            header: made.header,
            file: made.file,
            named,
            end: FIRST as u64,
            begun: false,
        });
        Ok(())
    }
}
