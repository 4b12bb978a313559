//! Why a call of an active object came to nothing.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use crate::{error::RefusedReason, sync::Mutex};

/// Why a call has no value.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The activation list had no room; the arguments are in here. Call again later, or let calls wait for room:
    /// [`WhenFull::Wait`](crate::active::WhenFull).
    #[error(
        "the activation list of the object is full; call again later, or let calls wait for room"
    )]
    Full(Arguments),
    /// The call was cancelled: it never began, or its method was told to stop and did.
    #[error("the call was cancelled")]
    Cancelled,
    /// It had no value when its time was over. If it had not begun, it never will.
    #[error("the call had no answer after {0:?}")]
    TimedOut(Duration),
    /// The method panicked. The object lives on.
    #[error("the method panicked: {0}")]
    Panicked(String),
    /// The guard of the method panicked. The method was not called.
    #[error("the guard of the method panicked: {0}")]
    GuardPanicked(String),
    /// The object had ended, or ended before the call's turn came: the runtime shuts down, or no proxy is left and the guard of the
    /// call is false.
    #[error("the object has ended")]
    Ended,
    /// The object called itself and would have waited for its own end. Call the method directly, or do not wait.
    #[error(
        "an active object cannot wait for itself; call the method directly, or do not wait for the answer"
    )]
    OwnObject,
    /// A handler thread was to be blocked, on which the object itself may have to run.
    #[error(
        "a handler thread does not wait for a call; await it, or wait inside a blocking section"
    )]
    OnHandler,
}

/// The arguments of a call that was refused.
#[derive(Clone)]
pub struct Arguments(Arc<Mutex<Option<Box<dyn Any + Send>>>>);

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Arguments")
    }
}

impl Arguments {
    pub(super) fn new(arguments: impl Any + Send) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(arguments)))))
    }

    /// The arguments as a tuple, in the order of the method. Once: there is one of each. None, when they were taken already, or
    /// are of other types.
    ///
    /// ```
    /// # use fom_runtime::active::CallError;
    /// fn again(error: &CallError) -> Option<(String, u64)> {
    ///     match error {
    ///         CallError::Full(arguments) => arguments.take(),
    ///         _ => None,
    ///     }
    /// }
    /// ```
    pub fn take<Args: 'static>(&self) -> Option<Args> {
        let arguments = self.0.lock().take()?;
        match arguments.downcast::<Args>() {
            Ok(arguments) => Some(*arguments),
            Err(others) => {
                *self.0.lock() = Some(others);
                None
            }
        }
    }
}

/// An object was not activated. It is in here.
#[non_exhaustive]
pub struct NotActivated<A> {
    /// Why.
    pub reason: RefusedReason,
    /// The object.
    pub object: A,
}

impl<A> fmt::Debug for NotActivated<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NotActivated({:?})", self.reason)
    }
}

impl<A> fmt::Display for NotActivated<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the object was not activated: {}", self.reason)
    }
}

impl<A> std::error::Error for NotActivated<A> {}
