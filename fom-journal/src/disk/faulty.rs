//! A disk that fails where a test says.

use std::{collections::HashMap, fmt, io, path::Path, sync::Arc};

use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile, LockGuard};

/// An operation that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// [`Disk::create`] and [`Disk::create_dir`].
    Create,
    /// [`Disk::open`].
    Open,
    /// [`DiskFile::write_at`].
    Write,
    /// [`DiskFile::sync`].
    Sync,
    /// [`Disk::sync_dir`].
    SyncDir,
    /// [`Disk::rename`].
    Rename,
    /// [`Disk::remove`].
    Remove,
    /// [`DiskFile::read_at`] and [`DiskFile::length`].
    Read,
    /// [`Disk::list`].
    List,
}

/// What happens in place of an operation.
#[derive(Clone)]
#[non_exhaustive]
pub enum Fault {
    /// The operation is not done, and fails with this error.
    Fail(io::ErrorKind),
    /// The operation is done, and fails with this error all the same.
    FailAfter(io::ErrorKind),
    /// A write writes at most this many bytes, and returns their number.
    Short(usize),
    /// A write writes at most this many bytes, and fails with this error.
    Torn(usize, io::ErrorKind),
    /// The closure is called with the path, then the operation is done.
    Before(Arc<dyn Fn(&Path) + Send + Sync>),
    /// The operation is done, then the closure is called with the path.
    After(Arc<dyn Fn(&Path) + Send + Sync>),
}

impl Fault {
    /// Returns a fault that calls `then` before the operation. `then` may end the process.
    pub fn before(then: impl Fn(&Path) + Send + Sync + 'static) -> Self {
        Self::Before(Arc::new(then))
    }

    /// Returns a fault that calls `then` after the operation. `then` may end the process.
    pub fn after(then: impl Fn(&Path) + Send + Sync + 'static) -> Self {
        Self::After(Arc::new(then))
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail(kind) => f.debug_tuple("Fail").field(kind).finish(),
            Self::FailAfter(kind) => f.debug_tuple("FailAfter").field(kind).finish(),
            Self::Short(bytes) => f.debug_tuple("Short").field(bytes).finish(),
            Self::Torn(bytes, kind) => f.debug_tuple("Torn").field(bytes).field(kind).finish(),
            Self::Before(_) => f.write_str("Before(..)"),
            Self::After(_) => f.write_str("After(..)"),
        }
    }
}

/// A disk that passes operations on to another disk, except for the planned faults. All clones are the same disk.
///
/// ```
/// use std::io::ErrorKind;
/// use fom_journal::{disk::{Fault, FaultyDisk, Operation, RealDisk}, FileJournal, Journal};
///
/// let disk = FaultyDisk::new(RealDisk);
/// // The third sync from now on fails.
/// disk.inject(Operation::Sync, 3, Fault::Fail(ErrorKind::Other));
/// let options = FileJournal::options().disk(disk.clone());
/// # drop(options);
/// assert_eq!(disk.count(Operation::Sync), 0);
/// ```
#[derive(Clone)]
pub struct FaultyDisk {
    disk: Arc<dyn Disk>,
    plan: Arc<Mutex<Plan>>,
}

#[derive(Debug, Default)]
struct Plan {
    counts: HashMap<Operation, u64>,
    faults: Vec<Planned>,
}

#[derive(Debug)]
struct Planned {
    operation: Operation,
    /// The count at which the fault happens.
    at: u64,
    /// Whether the fault also happens at all later counts.
    from: bool,
    fault: Fault,
}

impl FaultyDisk {
    /// Returns a disk that passes operations on to `disk`.
    pub fn new(disk: impl Disk) -> Self {
        Self {
            disk: Arc::new(disk),
            plan: Arc::default(),
        }
    }

    /// Plans a fault for the `nth` operation of a kind from now on, counted from 1.
    pub fn inject(&self, operation: Operation, nth: u64, fault: Fault) {
        self.plan(operation, nth, false, fault);
    }

    /// Plans a fault for the `nth` operation of a kind from now on, counted from 1, and for all later ones, until
    /// [`heal`](Self::heal).
    pub fn inject_from(&self, operation: Operation, nth: u64, fault: Fault) {
        self.plan(operation, nth, true, fault);
    }

    /// Removes all faults.
    pub fn heal(&self) {
        self.plan.lock().faults.clear();
    }

    /// Returns how many operations of a kind began.
    pub fn count(&self, operation: Operation) -> u64 {
        self.plan.lock().count(operation)
    }

    fn plan(&self, operation: Operation, nth: u64, from: bool, fault: Fault) {
        let mut plan = self.plan.lock();
        let at = plan.count(operation) + nth.max(1);
        plan.faults.push(Planned {
            operation,
            at,
            from,
            fault,
        });
    }

    /// Runs an operation. `run` gets the most bytes that a write may write.
    fn run<R>(
        &self,
        operation: Operation,
        path: &Path,
        run: impl FnOnce(usize) -> io::Result<R>,
    ) -> io::Result<R> {
        // Not locked while a closure runs: the closure may ask for counts, or end the process.
        let fault = self.plan.lock().next(operation);
        match fault {
            None => run(usize::MAX),
            Some(Fault::Fail(kind)) => Err(kind.into()),
            Some(Fault::FailAfter(kind)) => {
                run(usize::MAX)?;
                Err(kind.into())
            }
            Some(Fault::Short(most)) => run(most),
            Some(Fault::Torn(most, kind)) => {
                run(most)?;
                Err(kind.into())
            }
            Some(Fault::Before(then)) => {
                then(path);
                run(usize::MAX)
            }
            Some(Fault::After(then)) => {
                let done = run(usize::MAX)?;
                then(path);
                Ok(done)
            }
        }
    }
}

impl Plan {
    fn count(&self, operation: Operation) -> u64 {
        self.counts.get(&operation).copied().unwrap_or(0)
    }

    fn next(&mut self, operation: Operation) -> Option<Fault> {
        let count = self.counts.entry(operation).or_default();
        *count += 1;
        let hit = |planned: &&Planned| {
            planned.operation == operation
                && (planned.at == *count || planned.from && planned.at < *count)
        };
        let planned = self.faults.iter().find(hit);
        planned.map(|planned| planned.fault.clone())
    }
}

impl fmt::Debug for FaultyDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyDisk")
            .field("plan", &*self.plan.lock())
            .finish_non_exhaustive()
    }
}

impl Disk for FaultyDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.run(Operation::Create, path, |_| self.disk.create_dir(path))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.run(Operation::List, directory, |_| self.disk.list(directory))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.run(Operation::Create, path, |_| self.disk.create(path))?;
        Ok(self.wrap(path, file))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn DiskFile>> {
        let file = self.run(Operation::Open, path, |_| self.disk.open(path, write))?;
        Ok(self.wrap(path, file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run(Operation::Rename, from, |_| self.disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.run(Operation::Remove, path, |_| self.disk.remove(path))
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        self.run(Operation::SyncDir, directory, |_| {
            self.disk.sync_dir(directory)
        })
    }

    fn lock(&self, path: &Path, exclusive: bool) -> io::Result<Option<LockGuard>> {
        self.disk.lock(path, exclusive)
    }
}

impl FaultyDisk {
    fn wrap(&self, path: &Path, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(FaultyFile {
            file,
            path: path.into(),
            disk: self.clone(),
        })
    }
}

struct FaultyFile {
    file: Box<dyn DiskFile>,
    path: Box<Path>,
    disk: FaultyDisk,
}

impl DiskFile for FaultyFile {
    fn length(&self) -> io::Result<u64> {
        let length = |_| self.file.length();
        self.disk.run(Operation::Read, &self.path, length)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = |_| self.file.read_at(bytes, offset);
        self.disk.run(Operation::Read, &self.path, read)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let write = |most| {
            let length = bytes.len().min(most);
            self.file.write_at(&bytes[..length], offset)
        };
        self.disk.run(Operation::Write, &self.path, write)
    }

    fn sync(&mut self) -> io::Result<()> {
        let sync = |_| self.file.sync();
        self.disk.run(Operation::Sync, &self.path, sync)
    }
}
