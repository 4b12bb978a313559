//! What a submission does if another fom has its key.

use std::fmt;

use crate::{
    operation::Operation,
    runtime::{FomRef, Handle},
};

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
