//! Recovers a journal: takes over what the files hold, and settles what a crash left.

use std::{io, path::Path};

use super::{
    FileJournal,
    compact::Moves,
    contents::{self, Contents},
    format::FIRST,
    random,
    scan::Tail,
};
use crate::{
    Batch, Damage, JournalError, Recover, Recovery,
    disk::{DiskFile, read_full, write_all},
};

impl FileJournal {
    pub(super) fn recover_from_files(
        &mut self,
        to: &mut dyn Recover,
    ) -> Result<Recovery, JournalError> {
        let mut contents = contents::read(&self.directory, self.salvage)?;
        self.directory.remove_unfinished();
        self.copy_torn(&contents.torn)?;
        if let Some((number, tail)) = &contents.tail {
            self.make_durable(*number, tail)?;
        }
        // No write goes behind what a crash left. The next commit begins a segment.
        self.active = None;
        self.index = std::mem::take(&mut contents.index);
        self.journal = match contents.journal {
            0 => random().max(1),
            journal => journal,
        };
        self.next = contents.next;
        self.floor = contents.floor;
        self.highest = contents.highest;
        self.failed.clear();
        self.spares.clear();
        self.moves = Moves::default();
        self.cursor = None;
        self.settle(&contents)?;
        let recovery = contents::pass_entries(&self.directory, &self.index, &mut contents, to)?;
        self.damaged = contents.damaged;
        for (number, size) in contents.free {
            match self.damaged.is_empty() {
                // Without a manifest, a file with the header of another segment is damage or a renamed spare file. A
                // crash leaves the latter while a spare file gets its new name.
                true if contents.journal == 0 => self.directory.remove(number)?,
                true => self.discard(number, size),
                // The file may be needed after all: the data that says so may be lost.
                false => self.keep_damaged(number),
            }
        }
        if !self.damaged.is_empty() {
            self.rewrite_all()?;
        }
        self.recovered = true;
        self.begin_next();
        Ok(recovery)
    }

    /// Makes durable that no segment follows the last one, and where the last one ends. Otherwise a removed segment
    /// could reappear after a crash, if its removal was only in the memory of the system. The link of that segment
    /// could then declare less of the last segment valid.
    fn settle(&mut self, contents: &Contents) -> Result<(), JournalError> {
        let mut manifest = self.manifest.lock();
        manifest.resume(contents.manifest, contents.generation);
        // A journal without segments has no manifest either.
        if contents.journal != 0 {
            manifest.record(self.checkpoint(None))?;
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

    /// Copies the torn end before it is cut off, so that a user can look at it.
    fn copy_torn(&self, torn: &Option<Damage>) -> Result<(), JournalError> {
        let Some(damage) = torn else {
            return Ok(());
        };
        self.remove_old_torn();
        let number = damage.file.file_stem().unwrap_or_default();
        let name = format!("torn-{}-{}", number.display(), damage.offset);
        let path = self.directory.path.join(name);
        let copied = self.copy_damage(damage, &path);
        match copied.map_err(|error| JournalError::io("copy the torn end to", path, error)) {
            // A full disk must not prevent a start. The bytes are still in the segment.
            Ok(()) | Err(JournalError::Full { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn copy_damage(&self, damage: &Damage, path: &Path) -> io::Result<()> {
        /// The torn end is hardly ever longer, and the segment itself stays for a while.
        const MOST: u64 = 1 << 20;
        let from = self.directory.disk.open(&damage.file, false)?;
        let length = damage.length.min(MOST).min(from.length()?) as usize;
        let mut bytes = vec![0; length];
        let read = read_full(&*from, &mut bytes, damage.offset)?;
        let last = bytes[..read].iter().rposition(|byte| *byte != 0);
        let mut to = match self.directory.disk.create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            made => made?,
        };
        write_all(&mut *to, &bytes[..last.map_or(0, |last| last + 1)], 0)?;
        to.sync()
    }

    /// Removes the oldest copies of torn ends, so that a process that is killed again and again does not fill the disk.
    fn remove_old_torn(&self) {
        const MOST: usize = 8;
        let mut torn = self.directory.names().unwrap_or_default();
        torn.retain(|name| name.starts_with("torn-"));
        torn.sort_unstable();
        let old = torn.len().saturating_sub(MOST - 1);
        for name in &torn[..old] {
            let _ = self.directory.disk.remove(&self.directory.path.join(name));
        }
    }

    /// Renames a damaged segment, to keep it.
    pub(super) fn keep_damaged(&self, number: u64) {
        let from = self.directory.segment(number);
        let to = self.directory.path.join(format!("damaged-{number:016x}"));
        // If the rename fails, the next opening finds that the segment is not needed.
        let _ = self.directory.disk.rename(&from, &to);
    }

    /// Writes all readable entries to new segments, so that the damaged segments are no longer needed.
    fn rewrite_all(&mut self) -> Result<(), JournalError> {
        let empty = Batch::new();
        let old = self.index.segments.back().map(|segment| segment.number);
        self.moves.floor = Some(self.floor);
        self.append(&empty, 0)?;
        while let (Some(old), Some(oldest)) = (old, self.index.segments.front())
            && oldest.number <= old
        {
            self.stage(true)?;
            self.append(&empty, 0)?;
        }
        for number in std::mem::take(&mut self.damaged) {
            self.keep_damaged(number);
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
