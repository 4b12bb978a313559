//! The space of the journal: its bound, the next segment, and the files without entries.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    directory::Directory,
    format::{FIRST, Header},
    log::{Active, Log},
    manifest::Manifest,
    preallocate::{NewSegment, Preallocated, make},
    salt,
};
use crate::JournalError;

/// The dead bytes may be eight times the live ones up to so many segments, and as many as the live ones beyond that.
const SLACK: u64 = 16;

/// The files without entries: the next segment, and those to use again.
pub(super) struct Space {
    directory: Directory,
    /// Shared with the thread that makes the next segment.
    pub(super) manifest: Arc<Mutex<Manifest>>,
    pub(super) segment_bytes: u64,
    pub(super) background: bool,
    /// The highest number of any file.
    highest: u64,
    preallocated: Preallocated,
    /// Segments with a failed first write, and their sizes. The manifest names such a segment until it names the next
    /// one.
    failed: Vec<(u64, u64)>,
    /// Free files, for reuse.
    spares: Vec<u64>,
}

impl Space {
    pub(super) fn new(directory: Directory, segment_bytes: u64, background: bool) -> Self {
        Self {
            manifest: Arc::new(Mutex::new(Manifest::new(directory.clone()))),
            directory,
            segment_bytes,
            background,
            highest: 0,
            preallocated: Preallocated::None,
            failed: Vec::new(),
            spares: Vec::new(),
        }
    }

    /// Begins again after the files were read. `highest` is the highest number of any file.
    pub(super) fn restart(&mut self, highest: u64) {
        self.highest = highest;
        self.failed.clear();
        self.spares.clear();
    }

    /// Waits for the thread that makes the next segment, and closes that segment.
    pub(super) fn close(&mut self) {
        drop(self.preallocated.take());
    }

    /// Returns the size up to which the segments may grow, less so many eighths of the live bytes.
    pub(super) fn bound(&self, log: &Log, eighths: u64) -> u64 {
        let live = log.index.live();
        let dead = (8 * live).min(SLACK * self.segment_bytes).max(live);
        let share = live + dead - live / 8 * eighths;
        (share + self.segment_bytes).max(2 * self.segment_bytes)
    }

    /// Returns the size of all segments, in bytes.
    pub(super) fn size(&self, log: &Log) -> u64 {
        let others = self.spares.len() + usize::from(!self.preallocated.is_none());
        let failed: u64 = self.failed.iter().map(|(_, size)| size).sum();
        log.size() + others as u64 * self.segment_bytes + failed
    }

    /// Returns the size that the journal stays below.
    fn limit(&self, log: &Log) -> u64 {
        self.bound(log, 0) + 2 * self.segment_bytes
    }

    /// Whether the journal must shrink even without new writes.
    pub(super) fn is_large(&self, log: &Log) -> bool {
        // The newest segment alone cannot shrink.
        log.index.segments.len() > 1 && log.size() > self.bound(log, 0)
    }

    /// Whether it is time to make the next segment. Not at once after a rotation, because an old file may become free a
    /// little later.
    fn wants_next(&self, log: &Log) -> bool {
        let is_begun = |active: &Active| active.end >= active.header.size / 4;
        self.preallocated.is_none() && log.active.as_ref().is_some_and(is_begun)
    }

    /// Starts a thread that makes the next segment, if it is time for that and the option `background` is on.
    pub(super) fn begin_wanted(&mut self, log: &Log) {
        if self.wants_next(log) {
            self.begin_next(log);
        }
    }

    /// Makes the next segment if it is time for that: in a thread, or in this one if the option `background` is off.
    pub(super) fn make_wanted(&mut self, log: &Log) -> Result<(), JournalError> {
        if self.wants_next(log) {
            match self.background {
                true => self.begin_next(log),
                false => self.preallocated = Preallocated::Ready(self.next_made(0, log)?.0),
            }
        }
        Ok(())
    }

    /// Starts a thread that makes the next segment, unless there is one or the option `background` is off.
    pub(super) fn begin_next(&mut self, log: &Log) {
        if self.background && self.preallocated.is_none() {
            let header = self.new_header(self.segment_bytes, log);
            let spare = self.spares.pop();
            let checkpoint = log.checkpoint(Some(header.number));
            self.preallocated =
                Preallocated::begin(&self.directory, &self.manifest, spare, header, checkpoint);
        }
    }

    /// Returns the next segment, with room for `room` bytes of frames, and the generation of the manifest that names
    /// it.
    pub(super) fn next_made(
        &mut self,
        room: u64,
        log: &Log,
    ) -> Result<(NewSegment, u64), JournalError> {
        // Recovery takes a file that is shorter than its header says for damaged. So a segment never grows.
        let size = self.segment_bytes.max(FIRST as u64 + room);
        let mut made = match self.preallocated.take() {
            Some(Ok(made)) if made.header.size >= size => made,
            Some(Ok(small)) => {
                // The manifest names this file until it names the next one.
                self.add_failed(small.header);
                self.make(size, log)?
            }
            // The failure may have been temporary, so a second attempt follows at once.
            Some(Err(_)) | None => self.make(size, log)?,
        };
        let named = match made.named {
            Some(named) => named,
            None => {
                let checkpoint = log.checkpoint(Some(made.header.number));
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
            self.discard(number, size, log);
        }
        Ok((made, named))
    }

    fn make(&mut self, size: u64, log: &Log) -> Result<NewSegment, JournalError> {
        let spare = match size <= self.segment_bytes {
            true => self.spares.pop(),
            false => None,
        };
        let header = self.new_header(size, log);
        match make(&self.directory, spare, header) {
            Err(_) if spare.is_some() => {
                let header = self.new_header(size, log);
                make(&self.directory, None, header)
            }
            made => made,
        }
    }

    fn new_header(&mut self, size: u64, log: &Log) -> Header {
        self.highest += 1;
        Header {
            salt: salt(),
            number: self.highest,
            journal: log.journal,
            size,
        }
    }

    /// Keeps a segment without entries until the manifest names the next one.
    pub(super) fn add_failed(&mut self, segment: Header) {
        self.failed.push((segment.number, segment.size));
    }

    /// Keeps a file that is no longer needed for reuse if there is room for it, and removes it otherwise.
    pub(super) fn discard(&mut self, number: u64, size: u64, log: &Log) {
        if size == self.segment_bytes && self.size(log) + size <= self.limit(log) {
            self.spares.push(number);
        } else {
            // If the removal fails, the next opening finds that the file is not needed.
            let _ = self.directory.remove(number);
        }
    }

    /// Removes spare files until the journal is within its limit.
    pub(super) fn trim(&mut self, log: &Log) {
        while self.size(log) > self.limit(log)
            && let Some(spare) = self.spares.pop()
        {
            let _ = self.directory.remove(spare);
        }
    }
}
