//! Long locks: fair reader/writer locks that foms wait for without a thread, and hold over phases.
//!
//! Readers share the lock, and a writer has it alone. A request gets the lock at once if no request waits and the holders
//! allow it. Otherwise the request joins the queue, and no request overtakes it. A released lock goes to the front
//! of the queue: to one writer, or to all readers before the next writer. The thread that releases the lock records the
//! grant in the lock. The wake that follows only reports the grant. After any other wake the waiter is still in the
//! queue.
//!
//! The idea is Motr's `m0_long_lock`, without its flaw: in Motr, a waiting fom enters its next phase before it has the
//! lock.

mod acquire;
mod error;
mod gate;
mod guard;
mod line;
mod listed;
mod of_fom;
mod owner;
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
pub use error::LockError;
pub use gate::LockGate;
pub use guard::LockGuard;
pub use owner::Locker;
pub use set::{AcquireSet, LockSet, LockSetGuard};
pub use stats::LockStats;
pub use table::{LockTableStats, LongLocks};

use self::state::State;
use fom_protocol::sync::{Mutex, MutexGuard};
use fom_runtime::{Cx, Key, Runtime, extension};

/// Whether a lock is taken to read or to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Together with other readers.
    Read,
    /// Alone.
    Write,
}

impl LockMode {
    /// Whether two requests with these modes cannot have the lock together.
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

/// A fair reader/writer lock for foms. A fom waits for it without a thread, and may hold it over any number of phases.
///
/// A clone is another handle to the same lock. Requests are granted strictly in their order: adjacent readers have the
/// lock together, a writer has it alone, and no request overtakes another. The lock protects no data by itself: the
/// program decides what the lock stands for. The name appears in listings.
///
/// If a phase needs a lock from its first line, declare the lock on the phase with `locks`. Then the runtime takes the
/// lock before the function runs. Take several locks as a [`LockSet`], and get a lock for each key from [`LongLocks`].
///
/// ```
/// use fom_patterns::{lock::{LockMode, LongLock}, prelude::*};
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
    /// The lock's place in the order of all locks, or the place of its table.
    number: u64,
    of: Of,
    state: Mutex<State>,
}

enum Of {
    Itself(Cow<'static, str>),
    Table(table::Place),
}

/// Returns the number of the next lock or table.
fn next_number() -> u64 {
    // Only a counter. The type in `fom_protocol::sync` cannot be in a static.
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

impl LongLock {
    /// Creates a lock with a name for listings.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self(Arc::new(Inner {
            number: next_number(),
            of: Of::Itself(name.into()),
            state: Mutex::new(State::default()),
        }))
    }

    /// Waits until the lock is granted to read, beside other readers.
    ///
    /// # Errors
    ///
    /// Fails with [`LockError::Reentrant`] if this fom already has the lock or waits for it.
    pub fn read(&self, who: &impl Locker) -> Acquire {
        Acquire::new(self.clone(), LockMode::Read, who.owner())
    }

    /// Waits until the lock is granted to write, to this fom alone.
    ///
    /// # Errors
    ///
    /// Fails with [`LockError::Reentrant`] if this fom already has the lock to write or waits to write. Fails with
    /// [`LockError::Upgrade`] if the fom has the lock to read or waits to read.
    pub fn write(&self, who: &impl Locker) -> Acquire {
        Acquire::new(self.clone(), LockMode::Write, who.owner())
    }

    /// As [`read`](Self::read), for at most this time on the runtime's clock.
    ///
    /// # Errors
    ///
    /// Fails as [`read`](Self::read), and with [`LockError::TimedOut`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it leaves the queue.
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
    /// Fails as [`write`](Self::write), and with [`LockError::TimedOut`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it leaves the queue.
    pub async fn write_within<E>(
        &self,
        cx: &Cx<'_, E>,
        time: Duration,
    ) -> Result<LockGuard, LockError> {
        acquire::within(self.write(cx), cx, time).await
    }

    /// Takes the lock to read if no request waits and no writer has the lock.
    ///
    /// # Errors
    ///
    /// Fails with [`LockError::Busy`], or as [`read`](Self::read).
    pub fn try_read(&self, who: &impl Locker) -> Result<LockGuard, LockError> {
        self.read(who).at_once()
    }

    /// Takes the lock to write if no request waits and the lock has no holder.
    ///
    /// # Errors
    ///
    /// Fails with [`LockError::Busy`], or as [`write`](Self::write).
    pub fn try_write(&self, who: &impl Locker) -> Result<LockGuard, LockError> {
        self.write(who).at_once()
    }

    /// Blocks this thread until the lock is granted to read. For threads outside of foms.
    ///
    /// # Errors
    ///
    /// Fails with [`LockError::OnHandler`] on a thread that runs foms.
    pub fn read_blocking(&self, runtime: &Runtime) -> Result<LockGuard, LockError> {
        self.may_block()?;
        fom_protocol::sync::block_on(self.read(runtime))
    }

    /// Blocks this thread until the lock is granted to write. For threads outside of foms.
    ///
    /// # Errors
    ///
    /// Fails with [`LockError::OnHandler`] on a thread that runs foms.
    pub fn write_blocking(&self, runtime: &Runtime) -> Result<LockGuard, LockError> {
        self.may_block()?;
        fom_protocol::sync::block_on(self.write(runtime))
    }

    fn may_block(&self) -> Result<(), LockError> {
        if extension::runs_foms() {
            return Err(LockError::OnHandler { lock: self.clone() });
        }
        Ok(())
    }

    /// Returns the key of the lock in its [table](LongLocks).
    pub fn key(&self) -> Option<&Key> {
        match &self.0.of {
            Of::Itself(_) => None,
            Of::Table(place) => Some(place.key()),
        }
    }

    /// Returns the mode in which this fom has the lock, if any. A late function can check here whether its phase got
    /// the lock.
    pub fn held_by(&self, who: &impl Locker) -> Option<LockMode> {
        let id = who.owner().id();
        self.state().holder(id).map(|hold| hold.mode)
    }

    /// Returns the counts and times of the lock so far.
    pub fn stats(&self) -> LockStats {
        self.state().stats()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    /// Returns the lock's place in the order in which sets are taken.
    fn order(&self) -> (u64, Option<&Key>) {
        (self.0.number, self.key())
    }
}

/// Writes the name of the lock, and its key if the lock is in a [table](LongLocks).
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

/// Compares the locks themselves, not their names.
impl PartialEq for LongLock {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LongLock {}
