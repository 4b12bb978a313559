//! What a submission asks for where another one has its key.

use std::fmt;

use crate::{
    durable::Rare,
    operation::Operation,
    runtime::{FomRef, Handle},
};

/// What becomes of a submission whose key is not free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// It is refused.
    #[default]
    Refuse,
    /// It waits behind those that were there before it.
    Queue {
        /// It may have the key together with others that may.
        shared: bool,
        full: Full,
    },
    /// It has the key together with the fom that submits it.
    Chain,
}

impl Order {
    /// The order as the journal keeps it. `sent`: an outbox sent the fom, and the fom has not begun.
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

/// What becomes of a submission whose key has as many waiting as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// It is refused.
    Refuse,
    /// The one that has waited longest makes room for it.
    Shed,
    /// It waits: a place is kept for it, or it is in the journal already.
    Ignore,
}

/// What became of a submission that [joins](crate::Submission::join).
pub enum Joined<O: Operation> {
    /// Nobody had the key: it has started.
    Started(Handle<O>),
    /// Another one has the key.
    Live {
        /// The one that has the key, or is the next to have it.
        fom: FomRef<O>,
        /// The operation that was submitted, which was not started.
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
