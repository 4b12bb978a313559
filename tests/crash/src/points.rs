//! The kill points of the child.

use std::{
    fmt,
    path::Path,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use fom_durable::journal::{
    JournalError,
    disk::{Fault, FaultyDisk, Operation, RealDisk},
};
use fom_runtime::error::BuildError;

use crate::{faults::Faults, history::History, power::Power};

/// A place in the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// Anywhere: the parent kills the child at a random time.
    Outside,
    /// Before the journal gets a batch.
    BeforeCommit,
    /// After a batch is durable, and before any caller knows.
    AfterCommit,
    /// Before the journal makes room.
    BeforeTidy,
    /// After a slice of that work.
    AfterTidy,
    /// Before the journal is read.
    BeforeRecovery,
    /// While the journal is read.
    InRecovery,
    /// After the journal was read, before any fom runs.
    AfterRecovery,
    /// In a listener, before it writes to the history.
    Hearing,
    /// In a listener, after it wrote to the history.
    Heard,
    /// In a phase function, before its effect.
    BeforeEffect,
    /// In a phase function, after its effect.
    AfterEffect,
    /// In a phase function of a fom that has its turn before an earlier one.
    Overtaking,
    /// Before an operation of the disk.
    BeforeDisk(Operation),
    /// After an operation of the disk.
    AfterDisk(Operation),
    /// After a part of a write.
    InWrite,
    /// The disk is full for a while; then the parent kills the child.
    FullDisk,
    /// A sync fails; then the parent kills the child.
    FailedSync,
}

const DISK: [(Operation, &str, u64); 7] = [
    (Operation::Write, "write", 80),
    (Operation::Sync, "sync", 80),
    (Operation::Create, "create", 5),
    (Operation::Rename, "rename", 6),
    (Operation::SyncDir, "sync-dir", 10),
    (Operation::Open, "open", 8),
    (Operation::Read, "read", 40),
];

const OTHERS: [(Point, &str, u64); 16] = [
    (Point::Outside, "from outside", 1),
    (Point::BeforeCommit, "before commit", 60),
    (Point::AfterCommit, "after commit", 60),
    (Point::BeforeTidy, "before tidy", 60),
    (Point::AfterTidy, "after tidy", 60),
    (Point::BeforeRecovery, "before recovery", 1),
    (Point::InRecovery, "in recovery", 60),
    (Point::AfterRecovery, "after recovery", 1),
    (Point::Hearing, "hearing of a transition", 600),
    (Point::Heard, "heard of a transition", 600),
    (Point::BeforeEffect, "before an effect", 600),
    (Point::AfterEffect, "after an effect", 600),
    (Point::Overtaking, "overtaking in a queue", 3),
    (Point::InWrite, "in a write", 80),
    (Point::FullDisk, "full disk", 60),
    (Point::FailedSync, "failed sync", 60),
];

impl Point {
    /// Returns all points, each with about how often a life of a child passes it.
    pub fn all() -> Vec<(Self, u64)> {
        let disk = DISK.iter().flat_map(|(operation, _, times)| {
            [
                (Self::BeforeDisk(*operation), *times),
                (Self::AfterDisk(*operation), *times),
            ]
        });
        let others = OTHERS.iter().map(|(point, _, times)| (*point, *times));
        others.chain(disk).collect()
    }

    /// Returns whether this point is why a runtime could not be built.
    pub(crate) fn explains(self, error: &BuildError) -> bool {
        let BuildError::Journal(error) = error else {
            return false;
        };
        match self {
            Self::FullDisk => matches!(error.downcast_ref(), Some(JournalError::Full { .. })),
            Self::FailedSync => matches!(error.downcast_ref(), Some(JournalError::Io { .. })),
            _ => false,
        }
    }

    /// Returns whether the parent kills the child, at any time.
    pub(crate) fn is_outside(self) -> bool {
        matches!(self, Self::Outside | Self::FullDisk | Self::FailedSync)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |operation: &Operation| {
            let found = DISK.iter().find(|(of, ..)| of == operation);
            found.map_or("?", |(_, name, _)| name)
        };
        match self {
            Self::BeforeDisk(operation) => write!(f, "before {}", of(operation)),
            Self::AfterDisk(operation) => write!(f, "after {}", of(operation)),
            other => {
                let found = OTHERS.iter().find(|(point, ..)| point == other);
                f.write_str(found.map_or("?", |(_, name, _)| name))
            }
        }
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::all().into_iter().map(|(point, _)| point);
        found
            .into_iter()
            .find(|point| point.to_string() == name)
            .ok_or_else(|| format!("there is no point `{name}`"))
    }
}

/// The one point at which this child dies, and the number of the pass at which it dies there.
#[derive(Clone)]
pub(crate) struct Points {
    point: Point,
    left: Arc<AtomicU64>,
    history: History,
    /// Set if the child dies by a power cut.
    power: Option<Power>,
}

impl Points {
    pub(crate) fn new(point: Point, nth: u64, history: &History, power: Option<Power>) -> Self {
        Self {
            power,
            point,
            left: Arc::new(AtomicU64::new(nth)),
            history: history.clone(),
        }
    }

    /// Dies if this is the kill point.
    pub(crate) fn pass(&self, point: Point) {
        if self.point == point && self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.die();
        }
    }

    fn die(&self) {
        if let Some(power) = &self.power {
            power.cut(&self.point.to_string());
        }
        self.history.line(format_args!("! {}", self.point));
        // Dies as from a kill by another process: no destructor and no other thread runs any more.
        // SAFETY: a system call with plain numbers; this process must end here.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        loop {
            std::thread::park();
        }
    }

    /// Returns the disk with the kill point and the other faults in it.
    pub(crate) fn disk(&self, nth: u64, faults: &Faults) -> FaultyDisk {
        let disk = match &self.power {
            Some(power) => FaultyDisk::new(power.disk.clone()),
            None => FaultyDisk::new(RealDisk),
        };
        // Of two faults at the same operation, the first counts. So the child dies where it should.
        let dying = self.clone();
        let die = move |_: &Path| dying.die();
        match self.point {
            Point::BeforeDisk(operation) => disk.inject(operation, nth, Fault::before(die)),
            Point::AfterDisk(operation) => disk.inject(operation, nth, Fault::after(die)),
            Point::InWrite => {
                // The length of the write differs each time, and any number of bytes is possible.
                disk.inject(
                    Operation::Write,
                    nth,
                    Fault::Short((nth * 37 % 600) as usize),
                );
                disk.inject(Operation::Write, nth + 1, Fault::before(die));
            }
            Point::FullDisk => {
                for after in 0..5 {
                    let full =
                        Fault::Torn((nth * 11 % 300) as usize, std::io::ErrorKind::StorageFull);
                    disk.inject(Operation::Write, nth + after, full);
                }
            }
            Point::FailedSync => {
                disk.inject(
                    Operation::Sync,
                    nth,
                    Fault::FailAfter(std::io::ErrorKind::Other),
                );
            }
            _ => {}
        }
        faults.inject(&disk);
        disk
    }
}
