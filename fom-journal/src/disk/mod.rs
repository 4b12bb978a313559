//! What a [`FileJournal`](crate::FileJournal) asks of a disk, so that a test can put a failing one in its place.

#[cfg(feature = "testing")]
mod faulty;
mod real;

use std::{fmt, io, path::Path};

#[cfg(feature = "testing")]
pub use faulty::{Fault, FaultyDisk, Operation};
pub use real::RealDisk;

/// The operations of a disk. [`RealDisk`] is the system's, `FaultyDisk` (feature `testing`) fails where a test says.
///
/// Used by a journal's committing thread and by the one that makes files ahead.
pub trait Disk: Send + Sync + 'static {
    /// Makes a directory and those above it, durably. One that is there is no error.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory that are valid UTF-8; others are no journal's.
    ///
    /// # Errors
    ///
    /// What the system says; [`io::ErrorKind::NotFound`] where there is no directory.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Makes a file, to be read and written. Not durable before the directory is synced.
    ///
    /// # Errors
    ///
    /// What the system says; [`io::ErrorKind::AlreadyExists`] for a file that is there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file that is there, to be written too if `write`.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file inside its directory. Not durable before the directory is synced.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes durable what was created, renamed and removed in a directory.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn sync_dir(&self, directory: &Path) -> io::Result<()>;

    /// Locks a file until the guard is dropped or the process ends. An exclusive lock makes the file if it is not there. `None`
    /// when somebody else holds a lock that this one cannot stand beside.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn lock(&self, path: &Path, exclusive: bool) -> io::Result<Option<LockGuard>>;
}

/// A file of a [`Disk`].
pub trait DiskFile: Send {
    /// Its length in bytes.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn length(&self) -> io::Result<u64>;

    /// Reads at an offset in bytes. Fewer bytes than asked for are no error, none are the end.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at an offset in bytes; beyond the end the file grows. Fewer bytes than asked for are no error.
    ///
    /// # Errors
    ///
    /// What the system says. Then it is not known what was written.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes durable what was written, as `fdatasync` does.
    ///
    /// # Errors
    ///
    /// What the system says. Then it is not known what is durable, and a second sync cannot tell.
    fn sync(&mut self) -> io::Result<()>;
}

/// Holds a lock until it is dropped.
pub struct LockGuard(#[expect(dead_code, reason = "held for its drop")] Box<dyn Send>);

impl LockGuard {
    /// A guard that is dropped with `held`.
    pub fn new(held: impl Send + 'static) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockGuard")
    }
}

/// Writes all of `bytes`.
pub(crate) fn write_all(
    file: &mut dyn DiskFile,
    mut bytes: &[u8],
    mut offset: u64,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads until `bytes` are full or the file ends; how many it read.
pub(crate) fn read_full(file: &dyn DiskFile, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read = (read + more).min(bytes.len()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
