//! Several locks at once, in an order that is the same for all.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use fom_runtime::Cx;

use crate::lock::{
    Acquire, LockError, LockGuard, LockMode, Locker, LongLock,
    acquire::{self, Attempt},
    owner::Owner,
};

/// Several locks, each to read or to write, that are taken together: all of them or none.
///
/// The locks are taken one after the other, in an order that is the same for all sets. The locks are ordered by age,
/// and inside a table by key. So sets never wait for each other in a cycle, in whatever order they were built. The
/// order does not protect a fom that takes a second set while it holds a first one.
///
/// ```
/// use fom_patterns::lock::{LockMode, LockSet, LongLocks};
///
/// let accounts = LongLocks::new("account");
/// let set = LockSet::new()
///     .write(&accounts.of(9))
///     .read(&accounts.of(7))
///     .read(&accounts.of(9));
/// // Each lock once, and to write is more than to read.
/// let order: Vec<_> = set.iter().map(|(lock, mode)| (lock.to_string(), mode)).collect();
/// assert_eq!(order, [("account 7".into(), LockMode::Read), ("account 9".into(), LockMode::Write)]);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LockSet {
    /// The locks in the order in which they are taken, each once.
    wanted: Vec<(LongLock, LockMode)>,
}

impl LockSet {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds this lock, to read.
    #[must_use]
    pub fn read(self, lock: &LongLock) -> Self {
        self.with(lock, LockMode::Read)
    }

    /// Adds this lock, to write.
    #[must_use]
    pub fn write(self, lock: &LongLock) -> Self {
        self.with(lock, LockMode::Write)
    }

    /// Adds this lock. A lock that is added twice is taken once, and to write if either mode is write.
    #[must_use]
    pub fn with(mut self, lock: &LongLock, mode: LockMode) -> Self {
        match self
            .wanted
            .binary_search_by(|(wanted, _)| wanted.order().cmp(&lock.order()))
        {
            Ok(place) => {
                let wanted = &mut self.wanted[place].1;
                *wanted = mode.max(*wanted);
            }
            Err(place) => self.wanted.insert(place, (lock.clone(), mode)),
        }
        self
    }

    /// Returns the number of locks in the set.
    pub fn len(&self) -> usize {
        self.wanted.len()
    }

    /// Returns `true` if the set has no lock.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Returns the locks in the order in which they are taken.
    pub fn iter(&self) -> impl Iterator<Item = (&LongLock, LockMode)> {
        self.wanted.iter().map(|(lock, mode)| (lock, *mode))
    }

    /// Waits until all locks are granted.
    ///
    /// # Errors
    ///
    /// Fails as [`LongLock::write`]. Then no lock is held.
    pub fn lock(&self, who: &impl Locker) -> AcquireSet {
        self.clone().take_for(who.owner())
    }

    pub(super) fn take_for(self, owner: Owner) -> AcquireSet {
        AcquireSet::new(self.wanted.into(), owner)
    }

    /// As [`lock`](Self::lock), for at most this time on the runtime's clock.
    ///
    /// # Errors
    ///
    /// Fails as [`lock`](Self::lock), and with [`LockError::TimedOut`], which has the lock that was waited for. Then no
    /// lock is held.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it gives back the locks that it has, and leaves the queue.
    pub async fn lock_within<E>(
        &self,
        cx: &Cx<'_, E>,
        time: Duration,
    ) -> Result<LockSetGuard, LockError> {
        acquire::within(self.lock(cx), cx, time).await
    }

    /// Takes all locks if each is available at once.
    ///
    /// # Errors
    ///
    /// Fails with [`LockError::Busy`], which has the first lock that is not available, or as [`lock`](Self::lock). Then
    /// no lock is held.
    pub fn try_lock(&self, who: &impl Locker) -> Result<LockSetGuard, LockError> {
        let owner = who.owner();
        let each = |(lock, mode): &(LongLock, LockMode)| {
            Acquire::new(lock.clone(), *mode, owner.clone()).at_once()
        };
        let guards = self.wanted.iter().map(each).collect::<Result<_, _>>()?;
        Ok(LockSetGuard { guards })
    }
}

impl fmt::Debug for LockSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.wanted.iter().map(|(lock, mode)| (lock, mode)))
            .finish()
    }
}

/// Holds the locks of a [`LockSet`] until the guard is dropped, as a [`LockGuard`] holds one lock.
#[must_use = "the locks are given back when this is dropped"]
#[derive(Default)]
pub struct LockSetGuard {
    pub(super) guards: Vec<LockGuard>,
}

impl LockSetGuard {
    /// Returns the held locks, in the order in which they were taken.
    pub fn iter(&self) -> impl Iterator<Item = &LockGuard> {
        self.guards.iter()
    }
}

impl fmt::Debug for LockSetGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.guards).finish()
    }
}

/// Waits for the locks of a [`LockSet`].
///
/// # Cancel safety
///
/// If the future is dropped, it gives back the locks that it has, and leaves the queue.
#[must_use = "it does nothing until it is awaited"]
pub struct AcquireSet {
    owner: Owner,
    rest: VecDeque<(LongLock, LockMode)>,
    current: Option<Acquire>,
    held: LockSetGuard,
}

impl fmt::Debug for AcquireSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireSet")
            .field("held", &self.held)
            .field("current", &self.current)
            .field("rest", &self.rest)
            .finish()
    }
}

impl AcquireSet {
    pub(super) fn new(wanted: VecDeque<(LongLock, LockMode)>, owner: Owner) -> Self {
        Self {
            owner,
            rest: wanted,
            current: None,
            held: LockSetGuard::default(),
        }
    }

    fn fail(&mut self, error: LockError) -> LockError {
        self.rest.clear();
        drop(std::mem::take(&mut self.held));
        error
    }
}

impl Future for AcquireSet {
    type Output = Result<LockSetGuard, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let this = &mut *self;
            let current = match &mut this.current {
                Some(current) => current,
                None => match this.rest.pop_front() {
                    Some((lock, mode)) => {
                        this.current
                            .insert(Acquire::new(lock, mode, this.owner.clone()))
                    }
                    None => return Poll::Ready(Ok(std::mem::take(&mut this.held))),
                },
            };
            let Poll::Ready(done) = Pin::new(current).poll(cx) else {
                return Poll::Pending;
            };
            this.current = None;
            match done {
                Ok(guard) => this.held.guards.push(guard),
                Err(error) => return Poll::Ready(Err(this.fail(error))),
            }
        }
    }
}

impl Attempt for AcquireSet {
    type Guard = LockSetGuard;

    fn current(&self) -> Option<&Acquire> {
        self.current.as_ref()
    }
}
