//! What listeners are told of failed attempts.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    attempt::Tried,
    fom::{CarriedBy, Header},
    id::{FomId, Key},
    instant::Instant,
};

/// One failed attempt of one fom at a phase.
#[derive(Clone, Debug)]
pub struct FailedAttempt<'a> {
    id: FomId,
    key: Option<&'a Key>,
    operation: &'static str,
    machine: &'static str,
    phase: &'static str,
    attempt: &'a Tried,
    cause: &'static str,
    next: Option<u64>,
    locality: usize,
    carried: CarriedBy<'a>,
}

impl<'a> FailedAttempt<'a> {
    /// Returns an attempt with this cause, as one word. `next`: when the next attempt is due.
    pub(crate) fn new(
        header: &'a Header,
        phase: &'static str,
        attempt: &'a Tried,
        cause: &'static str,
        next: Option<u64>,
    ) -> Self {
        Self {
            id: header.id(),
            key: header.key(),
            operation: header.type_name(),
            machine: header.graph().name(),
            phase,
            attempt,
            cause,
            next,
            locality: header.home_index(),
            carried: CarriedBy(header),
        }
    }

    /// Returns the id of the fom.
    pub fn id(&self) -> FomId {
        self.id
    }

    /// Returns the key that the fom was submitted with.
    pub fn key(&self) -> Option<&'a Key> {
        self.key
    }

    /// Returns the value of this type that the fom [carries](crate::Builder::carry).
    pub fn carried<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.carried.get()
    }

    /// Returns the name of the operation type.
    pub fn operation_type(&self) -> &'static str {
        self.operation
    }

    /// Returns the name of the enum of phases.
    pub fn machine(&self) -> &'static str {
        self.machine
    }

    /// Returns the phase.
    pub fn phase(&self) -> &'static str {
        self.phase
    }

    /// Returns the number of the attempt in its visit of the phase. The first attempt has number 1.
    pub fn number(&self) -> u32 {
        self.attempt.number
    }

    /// Returns the text of the error, and of its [sources](std::error::Error::source), joined by `: `. At most 400
    /// characters.
    pub fn error(&self) -> &'a str {
        &self.attempt.error
    }

    /// Returns the cause as one word, as [`Cause::name`](crate::Cause::name) does.
    pub fn cause(&self) -> &'static str {
        self.cause
    }

    /// Returns when the attempt failed, on the runtime's clock.
    pub fn at(&self) -> Instant {
        Instant::from_nanos(self.attempt.at)
    }

    /// Returns when the next attempt is due, on the runtime's clock. Returns `None` if this was the last attempt.
    pub fn next(&self) -> Option<Instant> {
        self.next.map(Instant::from_nanos)
    }

    /// Returns the index of the fom's locality.
    pub fn locality(&self) -> usize {
        self.locality
    }
}

impl fmt::Display for FailedAttempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.operation, self.id)?;
        if let Some(key) = self.key {
            write!(f, " {key}")?;
        }
        write!(f, ": {} failed, attempt {}", self.phase, self.number())?;
        match self.next {
            Some(next) => {
                let pause = Duration::from_nanos(next.saturating_sub(self.attempt.at));
                write!(f, ", the next in {pause:?}")?;
            }
            None => f.write_str(", the last")?,
        }
        write!(f, ": {}", self.error())
    }
}
