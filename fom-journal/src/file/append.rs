//! Appends groups: one write for each sync.

use std::iter;

use super::{
    FileJournal,
    compact::Moves,
    format::{
        Checkpoint, FIRST, HEAD, Header, Kind, LINK, LONGEST, LONGEST_BATCH, LONGEST_GROUP, Link,
        ROW, RawChange, SaltedCrc, encode_frame, frame_length,
    },
    index::Segment,
    preallocate::{NewSegment, Preallocated, SYNCS, make},
    salt,
};
use crate::{
    Batch, Change, Group, JournalError,
    disk::{DiskFile, write_all},
};

/// The segment that is written to.
pub(super) struct Active {
    header: Header,
    file: Box<dyn DiskFile>,
    /// The generation of the manifest that names the segment.
    named: u64,
    /// The offset of the next frame.
    end: u64,
    /// Whether the link of the segment is durable.
    begun: bool,
}

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
    /// bytes. A batch larger than a segment gets a segment of its own size: in two segments, the first half would be
    /// kept when the second cannot be written.
    pub(super) fn append(&mut self, batch: &Batch, length: usize) -> Result<(), JournalError> {
        let moves = std::mem::take(&mut self.moves);
        let moved = match moves.is_empty() {
            true => 0,
            false => frame_length(moves.changes()),
        };
        let room = (moved + length) as u64;
        let fits = |active: &Active| active.end + room <= active.header.size;
        let rotated = match self.active.as_ref().is_some_and(fits) {
            true => Ok(()),
            false => self.rotate(room),
        };
        let done = rotated.and_then(|()| self.write_and_apply(&moves, batch));
        if done.is_err() {
            // The next stage looks for the moves again.
            self.cursor = None;
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
                let unused = self.active.take().filter(|active| !active.begun);
                self.failed
                    .extend(unused.map(|active| (active.header.number, active.header.size)));
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
        let mut link = self.link();
        let Some(active) = &mut self.active else {
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
            encode_frame(buffer, &salted, self.next, index, moves.changes());
            index += 1;
            self.stats.moved_bytes += (buffer.len() - before) as u64;
        }
        for group in batch.groups() {
            let sequence = self.next + u64::from(index);
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
        if self.recovered && !self.index.segments.is_empty() {
            self.active = None;
            let last = self.checkpoint(None);
            let _ = self.manifest.lock().record(last);
        }
    }

    /// Returns the link of the next segment, without its generation.
    fn link(&self) -> Link {
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

    /// Updates the state after a sync.
    fn apply(&mut self, moves: &Moves, batch: &Batch) {
        let Some(active) = &mut self.active else {
            return;
        };
        let number = active.header.number;
        if !std::mem::replace(&mut active.begun, true) {
            self.index.segments.push_back(Segment {
                number,
                salt: active.header.salt,
                first: self.next,
                valid: FIRST as u64,
                size: active.header.size,
                live: 0,
            });
        }
        let Some(segment) = self.index.segments.back_mut() else {
            return;
        };
        let mut at = std::mem::replace(&mut segment.valid, active.end);
        if !moves.is_empty() {
            self.next += 1;
            at = self.index.apply_frame(number, at, moves.changes());
        }
        let begin = at;
        for group in batch.groups() {
            self.next += 1;
            at = self.index.apply_frame(number, at, raw(group));
        }
        self.add_debt(at - begin);
        if let Some(floor) = moves.floor {
            self.raise(floor);
        }
        if self.wants_next() {
            self.begin_next();
        }
    }

    /// Whether it is time to make the next segment. Not at once after a rotation, because an old file may become free a
    /// little later.
    pub(super) fn wants_next(&self) -> bool {
        let is_begun = |active: &Active| active.end >= active.header.size / 4;
        self.preallocated.is_none() && self.active.as_ref().is_some_and(is_begun)
    }

    /// Switches to a new segment, with room for `room` bytes of frames.
    fn rotate(&mut self, room: u64) -> Result<(), JournalError> {
        let (made, named) = self.next_made(room)?;
        self.stats.prepared_bytes += made.prepared;
        self.stats.written_bytes += made.prepared;
        self.stats.syncs += SYNCS;
        self.active = Some(Active {
            header: made.header,
            file: made.file,
            named,
            end: FIRST as u64,
            begun: false,
        });
        Ok(())
    }

    /// Returns the next segment, with room for `room` bytes of frames, and the generation of the manifest that names
    /// it.
    pub(super) fn next_made(&mut self, room: u64) -> Result<(NewSegment, u64), JournalError> {
        // Recovery takes a file that is shorter than its header says for damaged. So a segment never grows.
        let size = self.segment_bytes.max(FIRST as u64 + room);
        let mut made = match self.preallocated.take() {
            Some(Ok(made)) if made.header.size >= size => made,
            Some(Ok(small)) => {
                // The manifest names this file until it names the next one.
                let small = small.header;
                self.failed.push((small.number, small.size));
                self.make(size)?
            }
            // The failure may have been temporary, so a second attempt follows at once.
            Some(Err(_)) | None => self.make(size)?,
        };
        let named = match made.named {
            Some(named) => named,
            None => {
                let checkpoint = self.checkpoint(Some(made.header.number));
                let named = self.manifest.lock().record(checkpoint);
                match named {
                    Ok(named) => *made.named.insert(named),
                    Err(error) => {
                        // The manifest may name the file already, so the file must stay.
                        self.preallocated = Preallocated::Ready(made);
                        return Err(error);
                    }
                }
            }
        };
        for (number, size) in std::mem::take(&mut self.failed) {
            self.discard(number, size);
        }
        Ok((made, named))
    }

    fn make(&mut self, size: u64) -> Result<NewSegment, JournalError> {
        let spare = match size <= self.segment_bytes {
            true => self.spares.pop(),
            false => None,
        };
        let header = self.new_header(size);
        match make(&self.directory, spare, header) {
            Err(_) if spare.is_some() => {
                let header = self.new_header(size);
                make(&self.directory, None, header)
            }
            made => made,
        }
    }

    fn new_header(&mut self, size: u64) -> Header {
        self.highest += 1;
        Header {
            salt: salt(),
            number: self.highest,
            journal: self.journal,
            size,
        }
    }

    /// Starts a thread that makes the next segment, unless there is one or the option `background` is off.
    pub(super) fn begin_next(&mut self) {
        if self.background && self.preallocated.is_none() {
            let header = self.new_header(self.segment_bytes);
            let spare = self.spares.pop();
            let checkpoint = self.checkpoint(Some(header.number));
            self.preallocated =
                Preallocated::begin(&self.directory, &self.manifest, spare, header, checkpoint);
        }
    }

    /// Keeps a file that is no longer needed for reuse if there is room for it, and removes it otherwise.
    pub(super) fn discard(&mut self, number: u64, size: u64) {
        if size == self.segment_bytes && self.size() + size <= self.limit() {
            self.spares.push(number);
        } else {
            // If the removal fails, the next opening finds that the file is not needed.
            let _ = self.directory.remove(number);
        }
    }

    /// Removes spare files until the journal is within its limit.
    pub(super) fn trim_spares(&mut self) {
        while self.size() > self.limit()
            && let Some(spare) = self.spares.pop()
        {
            let _ = self.directory.remove(spare);
        }
    }
}
