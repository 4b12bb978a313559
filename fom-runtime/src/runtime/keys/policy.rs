//! What a submission does if another fom has its key.

use std::fmt;

use crate::{
    durable::Rare,
    operation::Operation,
    runtime::{FomRef, Handle},
};

/// What happens to a submission if its key is not free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// It is refused.
    #[default]
    Refuse,
    /// It waits behind those that came before it.
    Queue {
        /// Whether the fom may have the key together with other sharing foms.
        shared: bool,
        full: Full,
    },
    /// It has the key together with the fom that submits it.
    Chain,
}

impl Order {
    /// Returns the order as the journal keeps it. `sent`: an outbox sent the fom, and the fom has
    /// not begun.
    pub(crate) fn stored(self, sent: bool) -> Option<Box<Rare>> {
        match self {
            Self::Queue { shared, .. } if shared || sent => Some(Box::new(Rare {
                shared,
                queues: sent,
                ..Rare::default()
            })),
            _ => None,
        }
    }
}

/// What happens to a submission if as many wait for its key as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// It is refused.
    Refuse,
    /// The fom that has waited longest makes room for it.
    Shed,
    /// It waits: a place is kept for it, or it is in the journal already.
    Ignore,
}

/// The result of a submission that [joins](crate::Submission::join).
pub enum Joined<O: Operation> {
    /// No fom had the key; the submitted one has started.
    Started(Handle<O>),
    /// Another fom has the key.
    Live {
        /// The fom that has the key, or is the next to have it.
        fom: FomRef<O>,
        /// The submitted operation, which was not started.
        operation: O,
    },
}

impl<O: Operation> fmt::Debug for Joined<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started(handle) => f.debug_tuple("Started").field(handle).finish(),
            Self::Live { fom, .. } => f
                .debug_struct("Live")
                .field("fom", fom)
                .finish_non_exhaustive(),
        }
    }
}
