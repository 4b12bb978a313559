//! Why a long lock was not given.

use std::time::Duration;

use crate::lock::{LockMode, LongLock};

/// A long lock, or a set of them, was not given. Nothing of it is held then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Whoever asks has it already, or waits for it already, and would wait for itself for ever.
    #[error(
        "the lock `{lock}` is taken again by the one that has it to {held}, who would wait for itself; use the guard that it has, or drop that first"
    )]
    Reentrant {
        /// The lock.
        lock: LongLock,
        /// How it has it, or waits for it.
        held: LockMode,
    },
    /// Whoever asks to write has it to read. Two that do so would wait for each other.
    #[error(
        "the lock `{lock}` is held to read by the one that asks to write; take it to write from the start, or give it back first"
    )]
    Upgrade {
        /// The lock.
        lock: LongLock,
    },
    /// It cannot be had at once.
    #[error("the lock `{lock}` is not free; wait for it, or try again later")]
    Busy {
        /// The lock.
        lock: LongLock,
    },
    /// It could not be had in time.
    #[error(
        "the lock `{lock}` could not be had within {after:?}; see `Runtime::operations` for who has it"
    )]
    TimedOut {
        /// The lock.
        lock: LongLock,
        /// The time that was given.
        after: Duration,
    },
    /// A phase asks for a lock that stands before one that is held from the phase before: waiting for it could go round in
    /// a circle.
    #[error(
        "the lock `{lock}` stands before `{held}`, which is held from an earlier phase; name `{lock}` in that phase, too, or put a phase without `locks` in between"
    )]
    Order {
        /// The lock.
        lock: LongLock,
        /// The last in order of those that are held.
        held: LongLock,
    },
    /// This thread runs a locality, or a fom: it must not wait.
    #[error(
        "waiting for the lock `{lock}` would hold a thread that runs foms; await it, or declare `locks` on the phase"
    )]
    OnHandler {
        /// The lock.
        lock: LongLock,
    },
}

impl LockError {
    /// The lock that was not given.
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

    /// As far as `lock` is asked for to do this by one that has it, or waits for it, in that way.
    pub(super) fn again(lock: &LongLock, held: LockMode, wanted: LockMode) -> Self {
        let lock = lock.clone();
        match (held, wanted) {
            (LockMode::Read, LockMode::Write) => Self::Upgrade { lock },
            _ => Self::Reentrant { lock, held },
        }
    }
}
