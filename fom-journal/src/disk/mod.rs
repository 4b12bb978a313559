//! The operations that a [`FileJournal`](crate::FileJournal) asks of a disk. A test can use a disk that fails.

#[cfg(feature = "testing")]
mod faulty;
mod real;

use std::{fmt, io, path::Path};

#[cfg(feature = "testing")]
pub use faulty::{Fault, FaultyDisk, Operation};
pub use real::RealDisk;

/// The operations of a disk. [`RealDisk`] is the disk of the system. `FaultyDisk` (feature `testing`) fails where a
/// test says.
///
/// Two threads use a disk: the thread that commits, and the thread that makes the next segment.
///
/// # Errors
///
/// Each operation fails with errors of the system.
pub trait Disk: Send + Sync + 'static {
    /// Makes a directory and its parents, durably. An existing directory is no error.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Returns the names in a directory that are valid UTF-8. A journal uses no other names. Fails with
    /// [`io::ErrorKind::NotFound`] if there is no directory.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Makes a file for reading and writing. The file is not durable until its directory is synced. Fails
    /// with [`io::ErrorKind::AlreadyExists`] if the file exists.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file for reading, and for writing if `write` is true.
    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file inside its directory. The new name is not durable until the directory is synced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes all creations, renames and removals in a directory durable.
    fn sync_dir(&self, directory: &Path) -> io::Result<()>;

    /// Locks a file until the guard is dropped or the process ends. An exclusive lock makes the file if there is none.
    /// Returns `None` if there is a conflicting lock.
    fn lock(&self, path: &Path, exclusive: bool) -> io::Result<Option<LockGuard>>;
}

/// A file of a [`Disk`].
///
/// # Errors
///
/// Each operation fails with errors of the system.
pub trait DiskFile: Send {
    /// Returns the length of the file, in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Reads at an offset in bytes. The call may read fewer bytes than asked for; 0 means the end of the file.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at an offset in bytes, and returns the number of bytes written, which may be fewer than asked for. The
    /// file grows for a write beyond its end. After a failure it is not known what was written.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes all writes durable, as `fdatasync` does. After a failure it is not known what is durable, and a second
    /// sync cannot tell.
    fn sync(&mut self) -> io::Result<()>;
}

/// Holds a lock until it is dropped.
pub struct LockGuard(#[expect(dead_code, reason = "held for its drop")] Box<dyn Send>);

impl LockGuard {
    /// Returns a guard that drops `held` when it is dropped.
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

/// Reads until `bytes` is full or the file ends. Returns the number of bytes read.
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
