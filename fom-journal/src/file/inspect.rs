//! Inspects a journal, recovers it, and reads hostile bytes for a fuzzer.

use std::{io, path::Path, sync::Arc};

use super::{
    FileJournal,
    compact::Moves,
    directory::Directory,
    format::{FIRST, Header, LINK, Link},
    random,
    recovery::{self, Kept},
    scan::{Scan, Step, Tail, find_tail, look_unlinked},
    window::Window,
};
use crate::{
    Damage, JournalError, Recover, Recovery,
    disk::{DiskFile, RealDisk, read_full, write_all},
};

/// The result of [`FileJournal::inspect`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The result of a recovery. Where a recovery without `salvage` would fail, there are [`gaps`](Recovery::gaps).
    pub recovery: Recovery,
    /// The number of files that hold entries.
    pub segments: usize,
    /// Whether the journal says where it ends, as a closed journal does. Then missing data at the end is damage, and
    /// never a torn write.
    pub closed: bool,
    /// Whether a process has the journal open. Then files may have changed during the inspection, and reported damage
    /// may not be real.
    pub in_use: bool,
}

impl FileJournal {
    /// Reads the journal in a directory and changes nothing. Gives all readable entries, even if the journal is
    /// damaged. Meanwhile no process can open the journal.
    ///
    /// # Errors
    ///
    /// Fails if there is no journal, if a later release wrote it, and with errors of the system. Damage is not an
    /// error.
    pub fn inspect(
        path: impl AsRef<Path>,
        to: &mut dyn Recover,
    ) -> Result<Inspection, JournalError> {
        let directory = Directory {
            disk: Arc::new(RealDisk),
            path: path.as_ref().into(),
        };
        // `names` also refuses a directory that is not a journal.
        directory.names()?;
        let (_lock, is_free) = directory.lock_shared();
        let mut kept = recovery::read(&directory, true)?;
        let closed = kept.is_closed();
        let index = std::mem::take(&mut kept.index);
        let recovery = recovery::give(&directory, &index, &mut kept, to)?;
        Ok(Inspection {
            recovery,
            segments: index.segments.len(),
            closed,
            in_use: !is_free,
        })
    }

    pub(super) fn recover_from_files(
        &mut self,
        to: &mut dyn Recover,
    ) -> Result<Recovery, JournalError> {
        let mut kept = recovery::read(&self.directory, self.salvage)?;
        self.directory.remove_unfinished();
        self.keep_aside(&kept.torn)?;
        if let Some((number, tail)) = &kept.tail {
            self.make_durable(*number, tail)?;
        }
        // No write goes behind what a crash left. The next commit begins a segment.
        self.active = None;
        self.index = std::mem::take(&mut kept.index);
        self.journal = match kept.journal {
            0 => random().max(1),
            journal => journal,
        };
        self.next = kept.next;
        self.floor = kept.floor;
        self.highest = kept.highest;
        self.failed.clear();
        self.spares.clear();
        self.moves = Moves::default();
        self.cursor = None;
        self.settle(&kept)?;
        let recovery = recovery::give(&self.directory, &self.index, &mut kept, to)?;
        self.aside = kept.aside;
        for (number, size) in kept.free {
            match self.aside.is_empty() {
                // Without a manifest, a file with the header of another segment is damage or a renamed spare file. A
                // crash leaves the latter while a spare file gets its new name.
                true if kept.journal == 0 => self.directory.remove(number)?,
                true => self.discard(number, size),
                // The file may be needed after all: the data that says so may be lost.
                false => self.set_aside(number),
            }
        }
        if !self.aside.is_empty() {
            self.rewrite()?;
        }
        self.recovered = true;
        self.begin_ahead();
        Ok(recovery)
    }

    /// Makes durable that no segment follows the last one, and where the last one ends. Otherwise a removed segment
    /// could reappear after a crash, if its removal was only in the memory of the system. The link of that segment
    /// could then declare less of the last segment valid.
    fn settle(&mut self, kept: &Kept) -> Result<(), JournalError> {
        let mut manifest = self.manifest.lock();
        manifest.begin(kept.manifest, kept.beyond);
        // A journal without segments has no manifest either.
        if kept.journal != 0 {
            manifest.say(self.said(None))?;
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
    fn keep_aside(&self, torn: &Option<Damage>) -> Result<(), JournalError> {
        /// The torn end is hardly ever longer, and the segment itself stays for a while.
        const MOST: u64 = 1 << 20;
        let Some(damage) = torn else {
            return Ok(());
        };
        let number = damage.file.file_stem().unwrap_or_default();
        let name = format!("torn-{}-{}", number.display(), damage.offset);
        let path = self.directory.path.join(name);
        let copy = || -> io::Result<()> {
            let from = self.directory.disk.open(&damage.file, false)?;
            let length = damage.length.min(MOST).min(from.length()?) as usize;
            let mut bytes = vec![0; length];
            let read = read_full(&*from, &mut bytes, damage.offset)?;
            let bytes = &bytes[..read];
            let end = bytes
                .iter()
                .rposition(|byte| *byte != 0)
                .map_or(0, |at| at + 1);
            let mut to = match self.directory.disk.create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
                made => made?,
            };
            write_all(&mut *to, &bytes[..end], 0)?;
            to.sync()
        };
        self.forget_old_torn();
        match copy().map_err(|error| JournalError::io("keep", &path, error)) {
            // A full disk must not prevent a start. The bytes are still in the segment.
            Ok(()) | Err(JournalError::Full { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes the oldest copies of torn ends, so that a process that is killed again and again does not fill the disk.
    fn forget_old_torn(&self) {
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
    pub(super) fn set_aside(&self, number: u64) {
        let from = self.directory.segment(number);
        let to = self.directory.path.join(format!("damaged-{number:016x}"));
        // If the rename fails, the next opening finds that the segment is not needed.
        let _ = self.directory.disk.rename(&from, &to);
    }

    /// Writes all readable entries to new segments, so that the damaged segments are no longer needed.
    fn rewrite(&mut self) -> Result<(), JournalError> {
        let empty = crate::Batch::new();
        let old = self.index.segments.back().map(|segment| segment.number);
        self.moves.floor = Some(self.floor);
        self.append(&empty, 0)?;
        while let (Some(old), Some(oldest)) = (old, self.index.segments.front())
            && oldest.number <= old
        {
            self.stage(true)?;
            self.append(&empty, 0)?;
        }
        for number in std::mem::take(&mut self.aside) {
            self.set_aside(number);
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

/// Reads hostile bytes as a segment and returns the number of readable changes. For a fuzzer: this function must
/// neither panic nor take more memory than the bytes do.
#[doc(hidden)]
pub fn read_hostile_segment(bytes: &[u8]) -> usize {
    struct Bytes<'a>(&'a [u8]);
    impl DiskFile for Bytes<'_> {
        fn length(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }
        fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<usize> {
            let from = self.0.get(offset as usize..).unwrap_or_default();
            let length = from.len().min(to.len());
            to[..length].copy_from_slice(&from[..length]);
            Ok(length)
        }
        fn write_at(&mut self, _: &[u8], _: u64) -> io::Result<usize> {
            Err(io::ErrorKind::ReadOnlyFilesystem.into())
        }
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let file = Bytes(bytes);
    let read = || -> io::Result<usize> {
        let (first, second) = bytes.split_at(bytes.len().min(LINK));
        let Ok(header) = Header::decode(first) else {
            return Ok(0);
        };
        let Some(link) = Link::decode(second, &header) else {
            look_unlinked(&mut Window::new(&file, u64::MAX)?, &header, 0)?;
            return Ok(0);
        };
        let mut scan = Scan::of(Window::new(&file, u64::MAX)?, &header, &link);
        let tail = find_tail(&mut scan, header.number, &link)?;
        let mut scan = Scan::of(Window::new(&file, tail.valid)?, &header, &link);
        let mut entries = 0;
        loop {
            match scan.step()? {
                Step::End { .. } => return Ok(entries),
                Step::Frame { .. } => {}
                Step::Rows { .. } | Step::Gap { .. } => continue,
            }
            for at in 0..scan.rows.len() {
                let (row, salt) = (scan.rows[at], scan.salt());
                if scan
                    .bytes(&row)?
                    .is_some_and(|bytes| row.matches(bytes, salt))
                {
                    entries += 1;
                }
            }
        }
    };
    read().unwrap_or(0)
}
