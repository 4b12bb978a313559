//! The failures of a fom, and the errors that its callers get.

use std::{error::Error, fmt, io, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{gate::GateError, snapshot::SnapshotError};

/// The reason why a submission was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RefusedReason {
    /// The runtime has as many foms in flight as it takes.
    #[error("the runtime is full; submit it again later, or shed load")]
    Full,
    /// The runtime is shutting down or has shut down.
    #[error("the runtime is shutting down")]
    ShuttingDown,
    /// Another process has taken over the journal of this runtime.
    #[error("another process has taken the journal over; submit it there")]
    Moved,
    /// A live fom has this key. [`Refused::live`](crate::Refused::live) is its address.
    #[error("a live fom has this key already; `queue()` waits behind it")]
    KeyInUse,
    /// As many foms wait for this key as [`key_queue`](crate::Builder::key_queue) allows.
    #[error("the queue of this key is full; submit it again later, or shed load")]
    KeyFull,
    /// The key is [suspended](crate::Runtime::suspend_key), and this submission does not wait.
    #[error("the key is suspended; `queue()` waits until it is resumed")]
    KeySuspended,
    /// The submission is [chained](crate::Submission::chain), but no fom with a key submits it.
    #[error("`chain()` is for what a fom submits that has a key; use `key(..)` here")]
    NoTurn,
    /// The placement names a locality that does not exist.
    #[error("there is no such locality")]
    NoSuchLocality,
    /// The journal has an operation with this operation id (`once` of `fom-durable`), which cannot go on for now.
    #[error(
        "the operation with this id is quarantined; see `Runtime::quarantine`, and retry it or discard it"
    )]
    Quarantined,
}

/// A transition could not be kept, or what is kept could not be read. Clones share the error of the store.
///
/// `Display`, `Debug` and `source` are those of that error. With `fom-durable`, that error is a `JournalError`:
/// [`downcast_ref`](Self::downcast_ref) returns it.
#[derive(Clone)]
pub struct DurabilityError(Arc<dyn Error + Send + Sync>);

impl DurabilityError {
    /// Wraps the error of a store.
    pub fn new(source: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// Returns the error of the store, if it has this type.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for DurabilityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for DurabilityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for DurabilityError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// The reason why a fom failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Cause<E> {
    /// The phase function returned this error (for the last time, if the phase has retries).
    Error(E),
    /// The phase function panicked, with this message.
    Panicked(String),
    /// The deadline of a phase passed, and the phase has no `late` function.
    Late {
        /// The phase with the `within` that passed.
        armed_in: &'static str,
    },
    /// The fom was cancelled.
    Cancelled,
    /// The fom that has the key waits for this fom, so neither could go on. This fom never began. A fom must
    /// [chain](crate::Submission::chain) work under its own key, or not wait for the work.
    Stuck,
    /// The fom made room for another fom, and never began. In the queue of its key, a later submission that
    /// [sheds the oldest](crate::Submission::shed_oldest) took its place. In a queue in front of the localities,
    /// the policy of that queue shed it.
    Shed,
    /// The runtime was shut down before the fom ended.
    Shutdown,
    /// Another process has taken over the journal of this runtime before the fom ended. The fom goes on there, from its
    /// last committed transition.
    Moved,
    /// The submission was refused.
    Refused(RefusedReason),
    /// A blocking phase found no thread that could take over the locality.
    NoThread(BlockError),
    /// The gate of the phase never opens. For a phase with `locks`: its locks could not be taken, and waiting would not
    /// have helped.
    Gate(GateError),
    /// An interposer returned a phase that is not a declared exit.
    UndeclaredExit {
        /// The phase that the interposer returned.
        to: &'static str,
    },
    /// A transition could not be committed. The fom ends here, but not in the journal: its committed transitions stay.
    /// The fom is quarantined. It continues by itself when the journal works again, or when the program starts again.
    ///
    /// If this was the first commit of the fom, the journal does not have the fom, and the operation is in
    /// [`Failure::operation`](crate::Failure::operation). The fom can come back only if the process ends before the
    /// journal works again. To submit the operation again, use an operation id.
    Journal(DurabilityError),
    /// A statement failed that the phase commits with its transition. The transition is not made, and the phase failed as if its
    /// function had returned an error.
    Statement(DurabilityError),
    /// A transition could not be committed, because the operation or the phase cannot be saved.
    NotSaved(SnapshotError),
    /// An earlier operation with the same operation id failed. Only the text of its cause is remembered.
    Remembered {
        /// The text of the cause.
        cause: String,
    },
    /// An earlier operation with the same operation id reached one of its *ends*, but this program cannot read which
    /// one. For example, a newer release wrote it. The operation did not fail: do not repeat it under another id. A
    /// release that can read the end gives the outcome.
    Unread {
        /// The reason why the end cannot be read.
        why: String,
    },
}

impl<E: fmt::Display> fmt::Display for Cause<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            other => other.fmt_untyped(f),
        }
    }
}

impl<E> Cause<E> {
    /// Maps the error of [`Cause::Error`], and keeps all other causes.
    pub fn map<F>(self, map: impl FnOnce(E) -> F) -> Cause<F> {
        match self {
            Self::Error(error) => Cause::Error(map(error)),
            Self::Panicked(message) => Cause::Panicked(message),
            Self::Late { armed_in } => Cause::Late { armed_in },
            Self::Cancelled => Cause::Cancelled,
            Self::Stuck => Cause::Stuck,
            Self::Shed => Cause::Shed,
            Self::Gate(error) => Cause::Gate(error),
            Self::Shutdown => Cause::Shutdown,
            Self::Moved => Cause::Moved,
            Self::Refused(reason) => Cause::Refused(reason),
            Self::NoThread(error) => Cause::NoThread(error),
            Self::UndeclaredExit { to } => Cause::UndeclaredExit { to },
            Self::Journal(error) => Cause::Journal(error),
            Self::Statement(error) => Cause::Statement(error),
            Self::NotSaved(error) => Cause::NotSaved(error),
            Self::Remembered { cause } => Cause::Remembered { cause },
            Self::Unread { why } => Cause::Unread { why },
        }
    }

    /// Returns the error behind a cause that is not [`Cause::Error`], if there is one.
    pub(crate) fn untyped_source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused(reason) => Some(reason),
            Self::NoThread(error) => Some(error),
            Self::Gate(error) => Some(error),
            Self::Journal(error) | Self::Statement(error) => Some(error),
            Self::NotSaved(error) => Some(error),
            _ => None,
        }
    }

    /// Returns whether the phase failed. Other causes come from elsewhere, such as a cancel.
    pub(crate) fn is_of_phase(&self) -> bool {
        matches!(
            self,
            Self::Error(_)
                | Self::Panicked(_)
                | Self::Late { .. }
                | Self::NoThread(_)
                | Self::Gate(_)
                | Self::UndeclaredExit { .. }
                | Self::Statement(_)
        )
    }

    /// Formats the cause for any error type. The error itself is left out.
    fn fmt_untyped(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(_) => f.write_str(self.name()),
            Self::Panicked(message) => write!(f, "panicked: {message}"),
            Self::Late { armed_in } => write!(f, "the deadline of `{armed_in}` passed"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Stuck => f.write_str(
                "the fom that has its key waited for it; chain it (`chain()`), or do not wait for it",
            ),
            Self::Shed => f.write_str(
                "it was shed: it made room for another one in its queue; submit it again later",
            ),
            Self::Shutdown => f.write_str("the runtime was shut down"),
            Self::Moved => f.write_str(
                "another process has taken the journal over, and the operation goes on there",
            ),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
            Self::NoThread(error) => write!(f, "{error}"),
            Self::Gate(error) => write!(f, "{error}"),
            Self::UndeclaredExit { to } => {
                write!(f, "an interposer went to `{to}`, which is no declared exit")
            }
            Self::Journal(error) | Self::Statement(error) => write!(f, "{error}"),
            Self::NotSaved(error) => write!(f, "{error}"),
            Self::Remembered { cause } => f.write_str(cause),
            Self::Unread { why } => write!(
                f,
                "it ended, and what is remembered of that cannot be read: {why}"
            ),
        }
    }

    /// Returns the cause as text, for any error type. The error itself is left out.
    pub(crate) fn text(&self) -> String {
        struct Untyped<'a, E>(&'a Cause<E>);
        impl<E> fmt::Display for Untyped<'_, E> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt_untyped(f)
            }
        }
        Untyped(self).to_string()
    }

    /// Returns the cause as one word, as in listings and transitions.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Error(_) => "error",
            Self::Panicked(_) => "panicked",
            Self::Late { .. } => "late",
            Self::Cancelled => "cancelled",
            Self::Stuck => "stuck",
            Self::Shed => "shed",
            Self::Shutdown => "shutdown",
            Self::Moved => "moved",
            Self::Refused(_) => "refused",
            Self::NoThread(_) => "no thread",
            Self::Gate(error) => error.gate(),
            Self::UndeclaredExit { .. } => "undeclared exit",
            Self::Journal(_) => "journal",
            Self::Statement(_) => "statement",
            Self::NotSaved(_) => "not saved",
            Self::Remembered { .. } => "remembered",
            Self::Unread { .. } => "unread",
        }
    }
}

/// An event that could not be delivered. The error gives it back.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError<E> {
    /// The fom has ended.
    #[error("the fom has ended; the event was not delivered")]
    Ended(E),
    /// The mailbox of the fom is full of events that the fom has not taken yet.
    #[error("the fom's mailbox is full; send it again later, or drop it")]
    Full(E),
}

impl<E> SendError<E> {
    /// Returns the event.
    pub fn into_event(self) -> E {
        match self {
            Self::Ended(event) | Self::Full(event) => event,
        }
    }
}

impl<E> fmt::Debug for SendError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended(_) => "Ended(..)",
            Self::Full(_) => "Full(..)",
        })
    }
}

/// A request was dropped without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request was dropped without an answer")]
pub struct Unanswered;

/// Enter-block failed. The fom still has its locality.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// No thread could be created to take over the locality.
    #[error(
        "no thread can take over the locality: {0}; raise the limit of threads, or lower `Followers::most`"
    )]
    NoThread(#[source] io::Error),
    /// The calling thread does not hold a locality now.
    #[error("not inside a phase, or inside a blocking section already")]
    NotInPhase,
}

/// A wait reached its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not reached within {0:?}")]
pub struct TimedOut(pub Duration);
