//! What listeners are told.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use crate::{
    clock::elapsed,
    fom::{CarriedBy, Header},
    graph::Graph,
    id::{FomId, Key},
    instant::Instant,
};

/// Why a fom made a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransitionCause {
    /// The fom was started.
    Started,
    /// The fom was restored from a snapshot.
    Resumed,
    /// The phase function returned this exit.
    Returned,
    /// The deadline passed, and the `late` function returned this exit.
    Late,
    /// The last attempt failed, and the `exhausted` function returned this exit.
    Exhausted,
    /// The phase failed; the word is [`Cause::name`](crate::Cause::name). The `failed` function of the phase returned
    /// this exit, or the fom ended in the standard failed outcome.
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
#[derive(Clone)]
pub struct Transition<'a> {
    id: FomId,
    key: Option<&'a Key>,
    operation: &'static str,
    graph: &'static Graph,
    from: Option<usize>,
    to: Option<usize>,
    cause: TransitionCause,
    time: Time<'a>,
    attempt: u32,
    error: Option<String>,
}

/// The time of a transition. A read of the clock takes longer than a transition, so the first listener that asks makes
/// it.
#[derive(Clone)]
struct Time<'a> {
    header: &'a Header,
    at: OnceLock<u64>,
    /// When the phase that the fom left began.
    before: u64,
}

impl Time<'_> {
    fn at(&self) -> u64 {
        *self.at.get_or_init(|| self.header.env().clock.nanos())
    }
}

impl fmt::Debug for Transition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transition")
            .field("id", &self.id)
            .field("key", &self.key)
            .field("operation", &self.operation)
            .field("machine", &self.graph.name())
            .field("from", &self.from())
            .field("to", &self.to())
            .field("edge", &self.edge())
            .field("cause", &self.cause)
            .field("at", &self.at())
            .field("attempt", &self.attempt)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<'a> Transition<'a> {
    pub(crate) fn new(
        header: &'a Header,
        from: Option<usize>,
        to: Option<usize>,
        cause: TransitionCause,
        before: u64,
    ) -> Self {
        Self {
            id: header.id(),
            key: header.key(),
            operation: header.type_name(),
            graph: header.graph(),
            from,
            to,
            cause,
            time: Time {
                header,
                at: OnceLock::new(),
                before,
            },
            attempt: header.visit().attempt(),
            error: None,
        }
    }

    /// Sets the number of failed attempts, in place of that of the phase that the fom is in by now.
    pub(crate) fn tried(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Sets the last error of the phase that the fom left.
    pub(crate) fn after(mut self, error: Option<String>) -> Self {
        self.error = error;
        self
    }

    /// Returns the time until the deadline of the phase that the fom entered, in nanoseconds.
    pub(crate) fn left(&self) -> Option<u64> {
        let deadline = self.time.header.visit().deadline()?;
        Some(deadline.saturating_sub(self.time.at()))
    }

    /// Returns the time of the transition, if a listener asked for it.
    pub(crate) fn asked_time(&self) -> Option<u64> {
        self.time.at.get().copied()
    }

    /// Returns the id of the fom.
    pub fn id(&self) -> FomId {
        self.id
    }

    /// Returns the key that the fom was submitted with.
    pub fn key(&self) -> Option<&'a Key> {
        self.key
    }

    /// Returns the name of the operation type.
    pub fn operation_type(&self) -> &'static str {
        self.operation
    }

    /// Returns the name of the enum of phases.
    pub fn machine(&self) -> &'static str {
        self.graph.name()
    }

    /// Returns the phase that the fom left, or `None` when it begins.
    pub fn from(&self) -> Option<&'static str> {
        self.from.map(|from| self.graph.phases()[from].name())
    }

    /// Returns the index of the phase that the fom left in [`Graph::phases`].
    pub fn from_index(&self) -> Option<usize> {
        self.from
    }

    /// Returns the phase that the fom entered, or `None` for the standard failed outcome.
    pub fn to(&self) -> Option<&'static str> {
        self.to.map(|to| self.graph.phases()[to].name())
    }

    /// Returns whether the fom ends with this transition.
    pub fn ends(&self) -> bool {
        self.to.is_none_or(|to| self.graph.phases()[to].is_end())
    }

    /// Returns the index of the phase that the fom entered in [`Graph::phases`].
    pub fn to_index(&self) -> Option<usize> {
        self.to
    }

    /// Returns the name of the edge that the fom took: `to(Ring = "found")`. Returns `None` for an edge without a name.
    pub fn edge(&self) -> Option<&'static str> {
        let phases = self.graph.phases();
        self.graph.edge_name(&phases[self.from?], &phases[self.to?])
    }

    /// Returns the cause of the transition.
    pub fn cause(&self) -> TransitionCause {
        self.cause
    }

    /// Returns the text of the last failure in the phase that the fom left, with the sources of its error. Returns
    /// `None` if no attempt at that phase failed.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns the time of the transition, on the runtime's clock. The first call reads the clock.
    pub fn at(&self) -> Instant {
        Instant::from_nanos(self.time.at())
    }

    /// Returns how long the fom was in the phase that it left, or in the queue when it begins. For a fom that came
    /// out of a journal, this is the time in the phase that it continues.
    pub fn stayed(&self) -> Duration {
        elapsed(self.time.at(), self.time.before)
    }

    /// Returns the index of the fom's locality.
    pub fn locality(&self) -> usize {
        self.time.header.home_index()
    }

    /// Returns the value of this type that the fom [carries](crate::Builder::carry).
    pub fn carried<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        CarriedBy(self.time.header).get()
    }

    /// Returns the number of failed attempts in the phase that the fom left.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}

impl fmt::Display for Transition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.operation, self.id)?;
        if let Some(key) = self.key {
            write!(f, " {key}")?;
        }
        f.write_str(": ")?;
        if let Some(from) = self.from() {
            write!(f, "{from} -> ")?;
        }
        write!(f, "{} ({}", self.to().unwrap_or("failed"), self.cause)?;
        if let Some(edge) = self.edge() {
            write!(f, ", {edge}")?;
        }
        f.write_str(")")?;
        match &self.error {
            Some(error) if *error != self.cause.to_string() => write!(f, ": {error}"),
            _ => Ok(()),
        }
    }
}
