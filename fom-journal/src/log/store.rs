//! What a log is kept in.

use std::{any::TypeId, time::Duration};

use crate::{Committed, JournalError, Lease, Statement};

/// Keeps a log of bodies. Each body has a number, and a later body has a higher one.
pub trait LogStore: Send + 'static {
    /// Returns the number of the last body of the log, as it was when this process got the log. 0 if the log is empty: a
    /// body never has this number.
    fn last(&self) -> u64;

    /// Appends bodies, and executes the statements in the same transaction: all of that, or nothing. Each statement comes with
    /// the number of its group, in order. Returns the numbers of the bodies.
    ///
    /// # Errors
    ///
    /// After an error, nothing of that is in the store when a later call succeeds. [`JournalError::Fenced`] is final. With
    /// [`JournalError::Statement`], nothing is in the store now.
    fn append(
        &mut self,
        bodies: Vec<Vec<u8>>,
        statements: Vec<(usize, Statement)>,
    ) -> Result<Vec<u64>, JournalError>;

    /// Returns whether [`append_later`](Self::append_later) can begin. Default: `false`.
    fn appends_later(&self) -> bool {
        false
    }

    /// Begins to append as [`append`](Self::append) does, and does not wait for the end. Returns the numbers that the bodies have
    /// if that succeeds. `done` learns of the end, once, on another thread, and not inside this call.
    ///
    /// # Errors
    ///
    /// Returns `done` if the store has not begun. The default always does.
    fn append_later(
        &mut self,
        bodies: Vec<Vec<u8>>,
        statements: Vec<(usize, Statement)>,
        done: Committed,
    ) -> Result<Vec<u64>, Committed> {
        let _ = (bodies, statements);
        Err(done)
    }

    /// Returns bodies with the numbers from `from` to `to`, in their order. These are all, or some first ones. No body
    /// means that there is none, as when `from` is greater than `to`.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read.
    fn load(&mut self, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, JournalError>;

    /// Deletes the bodies up to this number.
    ///
    /// # Errors
    ///
    /// After an error, the bodies may be there or not. A later call deletes them.
    fn delete_until(&mut self, last: u64) -> Result<(), JournalError>;

    /// Returns the length of the longest body that the store takes, in bytes.
    fn longest(&self) -> usize;

    /// Returns the error for a body that cannot be read, and `what` is wrong with it.
    fn damaged(&self, number: u64, what: &'static str) -> JournalError;

    /// Returns what [`Journal::executes`](crate::Journal::executes) returns.
    fn executes(&self) -> Option<TypeId> {
        None
    }

    /// Returns what [`Journal::lease`](crate::Journal::lease) returns.
    fn lease(&self) -> Option<Lease> {
        None
    }

    /// Returns what [`Journal::time`](crate::Journal::time) returns.
    fn time(&self) -> Option<Duration> {
        None
    }
}
