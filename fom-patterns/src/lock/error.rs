//! The reasons why a long lock was not granted.

use std::time::Duration;

use crate::lock::{LockMode, LongLock};

/// The error when a long lock, or a set of them, was not granted. Then no lock of the request is held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The fom already has the lock or waits for it, and would wait for itself forever.
    #[error(
        "the lock `{lock}` is taken again by the caller that has it to {held}; that caller would wait for itself; use its guard, or drop the guard first"
    )]
    Reentrant {
        /// The lock.
        lock: LongLock,
        /// How the fom has the lock, or waits for it.
        held: LockMode,
    },
    /// The fom has the lock to read, or waits to read, and asks to write. Two foms that do so would wait for each
    /// other.
    #[error(
        "the lock `{lock}` is held to read by the one that asks to write; take it to write from the start, or give it back first"
    )]
    Upgrade {
        /// The lock.
        lock: LongLock,
    },
    /// The lock is not available at once.
    #[error("the lock `{lock}` is not free; wait for it, or try again later")]
    Busy {
        /// The lock.
        lock: LongLock,
    },
    /// The lock was not available in time.
    #[error(
        "the lock `{lock}` was not granted within {after:?}; `Runtime::operations` names its holder"
    )]
    TimedOut {
        /// The lock.
        lock: LongLock,
        /// The time limit.
        after: Duration,
    },
    /// A phase asks for a lock that comes before a lock that is held from the phase before. Such a wait could close a
    /// cycle.
    #[error(
        "the lock `{lock}` stands before `{held}`, which is held from an earlier phase; name `{lock}` in that phase, too, or put a phase without `locks` in between"
    )]
    Order {
        /// The lock.
        lock: LongLock,
        /// The last held lock in the order.
        held: LongLock,
    },
    /// This thread runs a locality or a fom, and must not wait.
    #[error(
        "waiting for the lock `{lock}` would hold a thread that runs foms; await it, or declare `locks` on the phase"
    )]
    OnHandler {
        /// The lock.
        lock: LongLock,
    },
}

impl LockError {
    /// Returns the lock that was not granted.
    pub fn lock(&self) -> &LongLock {
        match self {
            Self::Reentrant { lock, .. }
            | Self::Upgrade { lock }
            | Self::Busy { lock }
            | Self::TimedOut { lock, .. }
            | Self::Order { lock, .. }
            | Self::OnHandler { lock } => lock,
        }
    }

    /// Returns the error for a request of an owner that already has `lock`, or waits for it, in the mode `held`.
    pub(super) fn again(lock: &LongLock, held: LockMode, wanted: LockMode) -> Self {
        let lock = lock.clone();
        match (held, wanted) {
            (LockMode::Read, LockMode::Write) => Self::Upgrade { lock },
            _ => Self::Reentrant { lock, held },
        }
    }
}
