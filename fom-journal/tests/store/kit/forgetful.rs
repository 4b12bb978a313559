//! A disk in memory that forgets unsynced data in a crash.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use fom_journal::disk::{Disk, DiskFile, LockGuard};

/// One write reaches the disk in pieces of this size, in any order.
const SECTOR: usize = 512;

/// The disk. Clones share its state.
#[derive(Clone, Default)]
pub(crate) struct Forgetful(Arc<Mutex<State>>);

#[derive(Clone, Default)]
struct State {
    files: Vec<Vec<Write>>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    /// The unsynced changes of the directory, in order.
    steps: Vec<Step>,
    locked: bool,
    failing_syncs: u32,
}

/// A change of the directory. Each change is there as a whole or not at all; of two, the second may be there alone.
#[derive(Clone)]
enum Step {
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Step {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Create(path, file) => {
                names.insert(path.clone(), *file);
            }
            Self::Rename(from, to) => {
                // Without the change that made the file, there is nothing to rename.
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Self::Remove(path) => {
                names.remove(path);
            }
        }
    }
}

#[derive(Clone)]
struct Write {
    offset: usize,
    bytes: Vec<u8>,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Pending,
    Durable,
    /// A sync of the write failed. The write may survive or not, even after later syncs.
    Doomed,
}

impl Forgetful {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Returns a disk with these files, all of them durable.
    pub(crate) fn holding(files: impl IntoIterator<Item = (PathBuf, Vec<u8>)>) -> Self {
        let mut state = State::default();
        for (path, bytes) in files {
            state.names.insert(path, state.files.len());
            state.files.push(vec![Write {
                offset: 0,
                bytes,
                fate: Fate::Durable,
            }]);
        }
        state.durable_names = state.names.clone();
        Self(Arc::new(Mutex::new(state)))
    }

    /// Makes the next sync of a file fail.
    pub(crate) fn fail_sync(&self) {
        self.state().failing_syncs += 1;
    }

    /// Makes no further sync fail.
    pub(crate) fn heal(&self) {
        self.state().failing_syncs = 0;
    }

    /// Returns the disk after a kill at this moment. The system continues, so all data is there.
    pub(crate) fn killed(&self) -> Self {
        let state = State {
            locked: false,
            failing_syncs: 0,
            ..self.state().clone()
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Returns the disk after a crash at this moment. Calls `survives` for each piece that may or may not have reached
    /// the disk.
    pub(crate) fn crash(&self, survives: impl FnMut() -> bool) -> Self {
        Self(Arc::new(Mutex::new(self.state().crash(survives))))
    }

    /// Does the same as [`crash`](Self::crash), and passes the remaining files to a function. No other operation runs
    /// meanwhile.
    pub(crate) fn fall<R>(
        &self,
        survives: impl FnMut() -> bool,
        then: impl FnOnce(Vec<(PathBuf, Vec<u8>)>) -> R,
    ) -> R {
        let state = self.state();
        let left = state.crash(survives);
        let names = left.names.into_iter();
        then(
            names
                .map(|(path, file)| (path, content(&left.files[file])))
                .collect(),
        )
    }
}

impl State {
    fn crash(&self, mut survives: impl FnMut() -> bool) -> Self {
        let state = self;
        let mut left = State {
            names: state.durable_names.clone(),
            ..State::default()
        };
        for step in &state.steps {
            if survives() {
                step.apply(&mut left.names);
            }
        }
        left.durable_names = left.names.clone();
        for writes in &state.files {
            let mut kept = Vec::new();
            let durable = writes.iter().filter(|write| write.fate == Fate::Durable);
            let known = durable.map(|write| write.offset + write.bytes.len()).max();
            for write in writes {
                if write.fate == Fate::Durable {
                    kept.push(write.clone());
                    continue;
                }
                let mut at = 0;
                while at < write.bytes.len() {
                    let length = SECTOR - (write.offset + at) % SECTOR;
                    let end = (at + length).min(write.bytes.len());
                    let offset = write.offset + at;
                    let bytes = match survives() {
                        true => write.bytes[at..end].to_vec(),
                        // A block that is new to the file may hold old data of any file.
                        false if offset >= known.unwrap_or(0) && survives() => {
                            vec![0xa5; end - at]
                        }
                        false => {
                            at = end;
                            continue;
                        }
                    };
                    kept.push(Write {
                        offset,
                        bytes,
                        fate: Fate::Durable,
                    });
                    at = end;
                }
            }
            let bytes = content(&kept);
            left.files.push(vec![Write {
                offset: 0,
                bytes,
                fate: Fate::Durable,
            }]);
        }
        left
    }
}

fn content(writes: &[Write]) -> Vec<u8> {
    let mut content = Vec::new();
    for write in writes {
        let end = write.offset + write.bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[write.offset..end].copy_from_slice(&write.bytes);
    }
    content
}

impl State {
    fn find(&self, path: &Path) -> io::Result<usize> {
        let found = self.names.get(path).copied();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn change(&mut self, step: Step) {
        step.apply(&mut self.names);
        self.steps.push(step);
    }
}

impl Disk for Forgetful {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        Ok(state.names.keys().map(name).collect())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.files.push(Vec::new());
        let file = state.files.len() - 1;
        state.change(Step::Create(path.into(), file));
        Ok(Box::new(File {
            disk: self.clone(),
            file,
        }))
    }

    fn open(&self, path: &Path, _: bool) -> io::Result<Box<dyn DiskFile>> {
        let file = self.state().find(path)?;
        Ok(Box::new(File {
            disk: self.clone(),
            file,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.find(from)?;
        state.change(Step::Rename(from.into(), to.into()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.find(path)?;
        state.change(Step::Remove(path.into()));
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.durable_names = state.names.clone();
        state.steps.clear();
        Ok(())
    }

    fn lock(&self, _: &Path, _: bool) -> io::Result<Option<LockGuard>> {
        struct Locked(Forgetful);
        impl Drop for Locked {
            fn drop(&mut self) {
                self.0.state().locked = false;
            }
        }
        if std::mem::replace(&mut self.state().locked, true) {
            return Ok(None);
        }
        Ok(Some(LockGuard::new(Locked(self.clone()))))
    }
}

struct File {
    disk: Forgetful,
    file: usize,
}

impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(content(&self.disk.state().files[self.file]).len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = content(&self.disk.state().files[self.file]);
        let from = content.get(offset as usize..).unwrap_or_default();
        let length = from.len().min(bytes.len());
        bytes[..length].copy_from_slice(&from[..length]);
        Ok(length)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.disk.state().files[self.file].push(Write {
            offset: offset as usize,
            bytes: bytes.to_vec(),
            fate: Fate::Pending,
        });
        Ok(bytes.len())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        let fate = match state.failing_syncs {
            0 => Fate::Durable,
            _ => Fate::Doomed,
        };
        state.failing_syncs = state.failing_syncs.saturating_sub(1);
        let writes = &mut state.files[self.file];
        let pending = writes
            .iter_mut()
            .filter(|write| write.fate == Fate::Pending);
        pending.for_each(|write| write.fate = fate);
        if writes.iter().all(|write| write.fate == Fate::Durable) {
            let bytes = content(writes);
            *writes = vec![Write {
                offset: 0,
                bytes,
                fate,
            }];
        }
        match fate {
            Fate::Doomed => Err(io::ErrorKind::Other.into()),
            _ => Ok(()),
        }
    }
}
