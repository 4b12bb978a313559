//! A disk in memory with one directory: names alone identify files.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fom_durable::journal::disk::{Disk, DiskFile, LockGuard};

type Bytes = Arc<Mutex<Vec<u8>>>;

/// The disk. Clones share the files.
#[derive(Clone, Default)]
pub(super) struct Memory(Arc<Mutex<BTreeMap<PathBuf, Bytes>>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name(path: &Path) -> PathBuf {
    path.file_name().unwrap_or_default().into()
}

impl Memory {
    pub(super) fn put(&self, path: PathBuf, bytes: Vec<u8>) {
        lock(&self.0).insert(name(&path), Arc::new(Mutex::new(bytes)));
    }

    /// Returns the files by name.
    pub(super) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let files = lock(&self.0);
        let files = files.iter();
        files
            .map(|(path, bytes)| (path.clone(), lock(bytes).clone()))
            .collect()
    }

    fn find(&self, path: &Path) -> io::Result<Bytes> {
        let found = lock(&self.0).get(&name(path)).cloned();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for Memory {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        let files = lock(&self.0);
        let names = files.keys().filter_map(|path| path.file_name()?.to_str());
        Ok(names.map(str::to_owned).collect())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        if self.find(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.put(path.into(), Vec::new());
        self.open(path, true)
    }

    fn open(&self, path: &Path, _: bool) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File(self.find(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.find(from)?;
        let mut files = lock(&self.0);
        files.remove(&name(from));
        files.insert(name(to), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.find(path)?;
        lock(&self.0).remove(&name(path));
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _: &Path, _: bool) -> io::Result<Option<LockGuard>> {
        Ok(Some(LockGuard::new(())))
    }
}

struct File(Bytes);

impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(lock(&self.0).len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = lock(&self.0);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let from = content.get(offset..).unwrap_or_default();
        let length = from.len().min(bytes.len());
        bytes[..length].copy_from_slice(&from[..length]);
        Ok(length)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut content = lock(&self.0);
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let end = offset + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[offset..end].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
