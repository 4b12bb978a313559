//! The disk of the system.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::DirBuilderExt,
    path::Path,
    process,
};

use crate::disk::{Disk, DiskFile, LockGuard};

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        let above = match path.parent() {
            Some(above) if !above.as_os_str().is_empty() => above,
            _ => Path::new("."),
        };
        if !above.exists() {
            self.create_dir(above)?;
        }
        // Operations carry private data. To let other users read it, make the directory beforehand.
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
            done => done?,
        }
        self.sync_dir(above)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        Ok(Box::new(file))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(
            OpenOptions::new().read(true).write(write).open(path)?,
        ))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }

    fn lock(&self, path: &Path, exclusive: bool) -> io::Result<Option<LockGuard>> {
        let mut options = OpenOptions::new();
        options.read(true).write(exclusive).create(exclusive);
        let file = options.open(path)?;
        let locked = match exclusive {
            true => file.try_lock(),
            false => file.try_lock_shared(),
        };
        match locked {
            Ok(()) => Ok(Some(LockGuard::new(Locked::new(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// A locked file.
struct Locked {
    file: File,
    /// The process that locked the file.
    process: u32,
}

impl Locked {
    fn new(file: File) -> Self {
        let process = process::id();
        Self { file, process }
    }
}

impl Drop for Locked {
    /// Unlocks the file. Closing it is not enough: a new child process shares the file, and with it the lock, until it
    /// executes its program. A process that only forked must not unlock the file of its parent.
    fn drop(&mut self) {
        if self.process == process::id() {
            let _ = self.file.unlock();
        }
    }
}

#[cfg(unix)]
impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, bytes, offset)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::write_at(self, bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
