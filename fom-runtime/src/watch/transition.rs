//! What listeners are told.

use std::{fmt, ops::Deref, time::Duration};

use crate::{
    error::SnapshotError,
    fom::Header,
    id::{FomId, Key},
    operation::Operation,
    snapshot::{Meta, Snapshot},
};

/// Why a fom went where it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransitionCause {
    /// It was started.
    Started,
    /// It was restored from a snapshot.
    Resumed,
    /// Its phase function returned this exit.
    Returned,
    /// The deadline passed, and the `late` function returned this exit.
    Late,
    /// The last attempt failed, and the `exhausted` function returned this exit.
    Exhausted,
    /// It failed; the word is [`Cause::name`](crate::Cause::name). Its phase has a `failed` function, which returned this exit, or it
    /// ended in the standard failed outcome.
    Failed(&'static str),
}

impl fmt::Display for TransitionCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Started => "started",
            Self::Resumed => "resumed",
            Self::Returned => "returned",
            Self::Late => "late",
            Self::Exhausted => "exhausted",
            Self::Failed(word) => word,
        })
    }
}

/// One transition of one fom.
#[derive(Clone, Debug)]
pub struct Transition<'a> {
    id: FomId,
    key: Option<&'a Key>,
    operation: &'static str,
    machine: &'static str,
    from: Option<&'static str>,
    to: Option<&'static str>,
    cause: TransitionCause,
    at: u64,
    stayed: u64,
    locality: usize,
    attempt: u32,
    left: Option<u64>,
}

impl<'a> Transition<'a> {
    pub(crate) fn new(
        header: &'a Header,
        from: Option<&'static str>,
        to: Option<&'static str>,
        cause: TransitionCause,
        at: u64,
        stayed: u64,
    ) -> Self {
        Self {
            id: header.id(),
            key: header.key(),
            operation: header.type_name(),
            machine: header.graph().name(),
            from,
            to,
            cause,
            at,
            stayed,
            locality: header.home_index(),
            attempt: header.attempt(),
            left: header
                .deadline()
                .map(|deadline| deadline.saturating_sub(at)),
        }
    }

    /// With this number of failed attempts, instead of those in the phase that it is in by now.
    pub(crate) fn tried(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// The fom.
    pub fn id(&self) -> FomId {
        self.id
    }

    /// The key that it was submitted with.
    pub fn key(&self) -> Option<&'a Key> {
        self.key
    }

    /// The operation type.
    pub fn operation_type(&self) -> &'static str {
        self.operation
    }

    /// The enum of phases.
    pub fn machine(&self) -> &'static str {
        self.machine
    }

    /// The phase that it left; `None` when it begins.
    pub fn from(&self) -> Option<&'static str> {
        self.from
    }

    /// The phase that it entered; `None` for the standard failed outcome.
    pub fn to(&self) -> Option<&'static str> {
        self.to
    }

    /// Why.
    pub fn cause(&self) -> TransitionCause {
        self.cause
    }

    /// When, on the runtime's clock.
    pub fn at(&self) -> Duration {
        Duration::from_nanos(self.at)
    }

    /// How long it was in the phase that it left (or in the queue, when it begins).
    pub fn stayed(&self) -> Duration {
        Duration::from_nanos(self.stayed)
    }

    /// The locality that it runs in.
    pub fn locality(&self) -> usize {
        self.locality
    }

    /// Failed attempts before, in the phase that it left.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}

impl fmt::Display for Transition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.operation, self.id)?;
        if let Some(from) = self.from {
            write!(f, "{from} -> ")?;
        }
        write!(f, "{} ({})", self.to.unwrap_or("failed"), self.cause)
    }
}

/// A transition of a known operation type.
pub struct TransitionOf<'a, O: Operation> {
    pub(super) transition: &'a Transition<'a>,
    pub(super) operation: &'a O,
    pub(super) phase: Option<&'a O::Phase>,
}

impl<O: Operation> fmt::Debug for TransitionOf<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.transition.fmt(f)
    }
}

impl<'a, O: Operation> TransitionOf<'a, O> {
    /// The operation, between two phase functions.
    pub fn operation(&self) -> &'a O {
        self.operation
    }

    /// The phase that it entered, with its data; `None` for the standard failed outcome.
    pub fn phase(&self) -> Option<&'a O::Phase> {
        self.phase
    }

    /// Saves the fom as it enters the phase; the time left of its deadline at that moment is saved with it. The key and
    /// the events that it has not taken are not.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::Transient`] for a transient machine and for the failed outcome, which is no phase; what the
    /// user's `Serialize` says.
    pub fn snapshot(&self) -> Result<Snapshot, SnapshotError> {
        let (Some(codec), Some(phase)) = (O::CODEC, self.phase) else {
            return Err(SnapshotError::Transient);
        };
        let meta = Meta {
            id: self.transition.id.get(),
            attempt: 0,
            left: self.transition.left,
            resumed: false,
        };
        (codec.save)(self.operation, phase, meta)
    }
}

impl<'a, O: Operation> Deref for TransitionOf<'a, O> {
    type Target = Transition<'a>;

    fn deref(&self) -> &Transition<'a> {
        self.transition
    }
}
