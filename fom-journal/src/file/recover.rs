//! Recovers a journal: takes over what the files hold, and settles what a crash left.

use std::io;

use super::{
    FileJournal,
    contents::{self, Contents},
    format::FIRST,
    pass::pass_entries,
    random,
    scan::Tail,
};
use crate::{
    Batch, JournalError, Recover, Recovery,
    disk::{DiskFile, read_full, write_all},
};

impl FileJournal {
    pub(super) fn recover_from_files(
        &mut self,
        to: &mut dyn Recover,
    ) -> Result<Recovery, JournalError> {
        let mut contents = contents::read(&self.directory, self.salvage)?;
        self.directory.remove_unfinished();
        self.directory.copy_torn(&contents.damage.torn)?;
        if let Some((number, tail)) = &contents.tail {
            self.make_durable(*number, tail)?;
        }
        // No write goes behind what a crash left. The next commit begins a segment.
        self.log.active = None;
        self.log.index = std::mem::take(&mut contents.index);
        self.log.journal = match contents.journal {
            0 => random().max(1),
            journal => journal,
        };
        self.log.next = contents.next;
        self.log.floor = contents.floor;
        self.space.restart(contents.highest);
        self.compaction.restart();
        self.settle(&contents)?;
        let background = self.space.background;
        let recovery = pass_entries(
            &self.directory,
            &self.log.index,
            &mut contents,
            background,
            to,
        )?;
        self.log.damaged = contents.damage.segments;
        for (number, size) in contents.free {
            match self.log.damaged.is_empty() {
                // Without a manifest, a file with the header of another segment is damage or a spare file. A crash
                // leaves such a spare file while the file gets its new name.
                true if contents.journal == 0 => self.directory.remove(number)?,
                true => self.space.discard(number, size, &self.log),
                // The file may be needed after all: the data that says so may be lost.
                false => self.directory.keep_damaged(number),
            }
        }
        if !self.log.damaged.is_empty() {
            self.rewrite_all()?;
        }
        self.recovered = true;
        self.space.begin_next(&self.log);
        Ok(recovery)
    }

    /// Makes durable that no segment follows the last one, and where the last one ends. Otherwise a removed segment
    /// could reappear after a crash, if its removal was only in the memory of the system. The link of that segment
    /// could then declare less of the last segment valid.
    fn settle(&mut self, contents: &Contents) -> Result<(), JournalError> {
        let mut manifest = self.space.manifest.lock();
        manifest.resume(contents.manifest, contents.generation);
        // A journal without segments has no manifest either.
        if contents.journal != 0 {
            manifest.record(self.log.checkpoint(None))?;
        }
        Ok(())
    }

    /// Writes the end of the last segment again. The bytes just read may be only in the memory of the system. They may
    /// come from a process that was killed before its sync. They may also come from a failed sync, after which Linux
    /// regards the pages as written.
    fn make_durable(&self, number: u64, tail: &Tail) -> Result<(), JournalError> {
        let from = match tail.last <= FIRST as u64 {
            true => 0,
            false => tail.last,
        };
        let mut file = self.directory.open(number, true)?;
        let again = rewrite(&mut *file, from, tail.valid).and_then(|()| file.sync());
        again.map_err(|error| JournalError::io("sync", self.directory.segment(number), error))
    }

    /// Writes all readable entries to new segments, so that the damaged segments are no longer needed.
    fn rewrite_all(&mut self) -> Result<(), JournalError> {
        let empty = Batch::new();
        let old = self.log.index.segments.back().map(|segment| segment.number);
        self.compaction.stage_floor(self.log.floor);
        self.append(&empty, 0)?;
        while let (Some(old), Some(oldest)) = (old, self.log.index.segments.front())
            && oldest.number <= old
        {
            self.stage(true)?;
            self.append(&empty, 0)?;
        }
        for number in std::mem::take(&mut self.log.damaged) {
            self.directory.keep_damaged(number);
        }
        self.directory.sync()
    }
}

fn rewrite(file: &mut dyn DiskFile, mut from: u64, to: u64) -> io::Result<()> {
    let mut piece = vec![0; (64 << 10).min(to.saturating_sub(from)) as usize];
    while from < to {
        let length = piece.len().min((to - from) as usize);
        let read = read_full(file, &mut piece[..length], from)?;
        if read == 0 {
            break;
        }
        write_all(file, &piece[..read], from)?;
        from += read as u64;
    }
    Ok(())
}
