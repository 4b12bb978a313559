//! Long locks: fair reader/writer locks that foms wait for without a thread, and hold over phases.
//!
//! Who asks is granted the lock at once, if nobody waits and the lock's holders allow it; else it stands in the queue, and nobody
//! overtakes it. When the lock is given back, it goes to the one in front: to a writer alone, to all readers up to the next
//! writer together. The grant is made by whoever gives the lock back, in the lock itself, and the wake that follows only says so:
//! a wake by anybody else finds the waiter where it was, in the queue.
//!
//! The idea is Motr's `m0_long_lock`, without its flaws: there, the waiting fom is put into its next phase before it has the lock.

mod acquire;
mod declared;
mod error;
mod guard;
mod line;
mod of_fom;
mod owner;
mod report;
mod set;
mod state;
mod stats;
mod table;

use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

pub use acquire::Acquire;
pub(crate) use declared::Declared;
pub use error::LockError;
pub use guard::LockGuard;
pub(crate) use line::Place;
pub(crate) use of_fom::FomLocks;
pub use owner::Locker;
pub(crate) use report::waiting_for;
pub use set::{AcquireSet, LockSet, LockSetGuard};
pub use stats::LockStats;
pub use table::{LockTableStats, LongLocks};

use self::state::State;
use crate::{
    Cx, Key, Runtime,
    sync::{Mutex, MutexGuard},
};

/// What a lock is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Beside other readers.
    Read,
    /// Alone.
    Write,
}

impl LockMode {
    /// Whether two cannot have it together.
    fn conflicts(self, other: Self) -> bool {
        (self, other) != (Self::Read, Self::Read)
    }
}

impl fmt::Display for LockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// A fair reader/writer lock for foms, which wait for it without a thread and may hold it over any number of phases.
///
/// A clone is another handle to the same lock. The order is strictly that in which was asked: readers that stand next to each
/// other have it together, a writer has it alone, and nobody overtakes anybody. It protects nothing by itself: what it is the
/// lock of is for the program to say, and the name stands in listings.
///
/// What a phase needs from its first line is better declared on the phase, with `locks`, where the runtime takes it before the
/// function runs; several locks are taken as a [`LockSet`], and a lock for each key out of [`LongLocks`].
///
/// ```
/// use fom_runtime::{LockMode, LongLock, prelude::*};
///
/// struct Count(LongLock);
///
/// #[fom(operation(Count), transient)]
/// enum Counting {
///     #[phase(start, to(Done))]
///     Add,
///     #[phase(end)]
///     Done,
/// }
///
/// impl CountingTransitions for Count {
///     async fn add(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
///         let guard = self.0.write(cx).await?;
///         assert_eq!(guard.mode(), LockMode::Write);
///         Ok(())
///     }
/// }
///
/// # fn main() -> Result<(), BoxError> {
/// let runtime = Runtime::new()?;
/// let lock = LongLock::new("the count");
/// runtime.submit(Count(lock.clone())).start()?.wait()?;
/// assert_eq!(lock.stats().writes, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LongLock(Arc<Inner>);

struct Inner {
    /// Its place among all locks, or that of its table.
    number: u64,
    of: Of,
    state: Mutex<State>,
}

enum Of {
    Itself(Cow<'static, str>),
    Table(table::Place),
}

/// The number of the next lock or table.
fn next_number() -> u64 {
    // Only a number; not of `crate::sync`, where it could not be in a static.
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

impl LongLock {
    /// A lock with a name for listings.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self(Arc::new(Inner {
            number: next_number(),
            of: Of::Itself(name.into()),
            state: Mutex::new(State::default()),
        }))
    }

    /// Waits until it can be read beside other readers, if there are any.
    ///
    /// # Errors
    ///
    /// [`LockError::Reentrant`] when this fom has it or waits for it already.
    pub fn read(&self, who: &impl Locker) -> Acquire {
        Acquire::new(self.clone(), LockMode::Read, who.owner())
    }

    /// Waits until it is this fom's alone.
    ///
    /// # Errors
    ///
    /// [`LockError::Reentrant`] when this fom has it or waits for it already, [`LockError::Upgrade`] when it has it to read.
    pub fn write(&self, who: &impl Locker) -> Acquire {
        Acquire::new(self.clone(), LockMode::Write, who.owner())
    }

    /// As [`read`](Self::read), for at most this time on the runtime's clock.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`LockError::TimedOut`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves the queue.
    pub async fn read_within<E>(
        &self,
        cx: &Cx<'_, E>,
        time: Duration,
    ) -> Result<LockGuard, LockError> {
        acquire::within(self.read(cx), cx, time).await
    }

    /// As [`write`](Self::write), for at most this time on the runtime's clock.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), and [`LockError::TimedOut`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves the queue.
    pub async fn write_within<E>(
        &self,
        cx: &Cx<'_, E>,
        time: Duration,
    ) -> Result<LockGuard, LockError> {
        acquire::within(self.write(cx), cx, time).await
    }

    /// Takes it to read if nobody waits for it and no writer has it.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`], or as [`read`](Self::read).
    pub fn try_read(&self, who: &impl Locker) -> Result<LockGuard, LockError> {
        self.read(who).at_once()
    }

    /// Takes it to write if nobody waits for it and nobody has it.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`], or as [`write`](Self::write).
    pub fn try_write(&self, who: &impl Locker) -> Result<LockGuard, LockError> {
        self.write(who).at_once()
    }

    /// Blocks this thread until it can be read. For threads outside of foms.
    ///
    /// # Errors
    ///
    /// [`LockError::OnHandler`] on a thread that runs foms.
    pub fn read_blocking(&self, runtime: &Runtime) -> Result<LockGuard, LockError> {
        self.may_block()?;
        crate::sync::block_on(self.read(runtime))
    }

    /// Blocks this thread until it is this thread's alone. For threads outside of foms.
    ///
    /// # Errors
    ///
    /// [`LockError::OnHandler`] on a thread that runs foms.
    pub fn write_blocking(&self, runtime: &Runtime) -> Result<LockGuard, LockError> {
        self.may_block()?;
        crate::sync::block_on(self.write(runtime))
    }

    fn may_block(&self) -> Result<(), LockError> {
        if crate::locality::runs_foms() {
            return Err(LockError::OnHandler { lock: self.clone() });
        }
        Ok(())
    }

    /// The key that it has in its [table](LongLocks).
    pub fn key(&self) -> Option<&Key> {
        match &self.0.of {
            Of::Itself(_) => None,
            Of::Table(place) => Some(place.key()),
        }
    }

    /// How this fom has it, if it does. A function for lateness finds out here whether its phase had got so far.
    pub fn held_by(&self, who: &impl Locker) -> Option<LockMode> {
        let id = who.owner().id();
        self.state().holder(id).map(|hold| hold.mode)
    }

    /// What was counted of it so far.
    pub fn stats(&self) -> LockStats {
        self.state().stats()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    /// Its place in the order in which sets are taken.
    fn order(&self) -> (u64, Option<&Key>) {
        (self.0.number, self.key())
    }
}

/// Its name, and its key if it is one of a [table](LongLocks).
impl fmt::Display for LongLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.of {
            Of::Itself(name) => f.write_str(name),
            Of::Table(place) => write!(f, "{} {}", place.table_name(), place.key()),
        }
    }
}

impl fmt::Debug for LongLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LongLock({self})")
    }
}

/// Whether they are the same lock, whatever their names.
impl PartialEq for LongLock {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LongLock {}
