//! Inspects a journal without a change, and reads hostile bytes for a fuzzer.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    FileJournal, contents,
    directory::Directory,
    format::{Header, LINK, Link},
    pass::pass_entries,
    scan::{Scan, find_tail, look_unlinked},
    window::Window,
};
use crate::{
    JournalError, Recover, Recovery,
    disk::{DiskFile, RealDisk},
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
    /// Reads the journal in a directory and changes nothing. Passes all readable entries to `to`, even if the journal
    /// is damaged. A process that has the journal open keeps it; no other process can open it during the call.
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
        let mut contents = contents::read(&directory, true)?;
        let closed = contents.is_closed();
        let index = std::mem::take(&mut contents.index);
        let recovery = pass_entries(&directory, &index, &mut contents, false, to)?;
        Ok(Inspection {
            recovery,
            segments: index.segments.len(),
            closed,
            in_use: !is_free,
        })
    }
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
    let window = |end| Window::new(Box::new(Bytes(bytes)), PathBuf::new(), end);
    let read = || -> Result<usize, JournalError> {
        let (first, second) = bytes.split_at(bytes.len().min(LINK));
        let Ok(header) = Header::decode(first) else {
            return Ok(0);
        };
        let Some(link) = Link::decode(second, &header) else {
            look_unlinked(&mut window(u64::MAX)?, &header, 0)?;
            return Ok(0);
        };
        let mut scan = Scan::of(window(u64::MAX)?, &header, &link);
        let tail = find_tail(&mut scan, header.number, &link)?;
        let mut scan = Scan::of(window(tail.valid)?, &header, &link);
        let mut entries = 0;
        while scan.next_frame(tail.valid, true)? {
            for at in 0..scan.rows.len() {
                let row = scan.rows[at];
                entries += usize::from(scan.whole(&row)?.is_some());
            }
        }
        Ok(entries)
    };
    read().unwrap_or(0)
}
