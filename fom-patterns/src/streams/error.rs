//! Why a request was not taken in.

use std::fmt;

use crate::streams::inlet::Item;

/// Why a request was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushReason {
    /// The locality of this key has as many requests in flight as the stream may hold
    /// there.
    #[error("the stream is full; push again later, wait for room, or shed load")]
    Full,
    /// As many requests as one key may have already wait behind its head.
    #[error(
        "the queue of this key is full; push again when its head has moved on, or wait for room"
    )]
    KeyFull,
    /// The runtime is shutting down or has shut down.
    #[error("the runtime is shutting down")]
    ShuttingDown,
}

/// A request that was not taken in. It gives back the key and the operation.
pub struct PushError<O, K>(Box<(PushReason, Item<O, K>)>);

impl<O, K> PushError<O, K> {
    #[cold]
    pub(super) fn new(reason: PushReason, item: Item<O, K>) -> Self {
        Self(Box::new((reason, item)))
    }

    pub(super) fn into_item(self) -> Item<O, K> {
        self.0.1
    }

    /// Returns why the request was not taken in.
    pub fn reason(&self) -> PushReason {
        self.0.0
    }

    /// Returns the operation, as it was pushed.
    pub fn into_operation(self) -> O {
        self.0.1.operation
    }

    /// Returns the key and the operation.
    pub fn into_parts(self) -> (K, O) {
        let (_, item) = *self.0;
        (item.key, item.operation)
    }
}

impl<O, K> fmt::Debug for PushError<O, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushError")
            .field("reason", &self.reason())
            .finish_non_exhaustive()
    }
}

impl<O, K> fmt::Display for PushError<O, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a request was not taken in: {}", self.reason())
    }
}

impl<O, K> std::error::Error for PushError<O, K> {}
