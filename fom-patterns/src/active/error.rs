//! Errors of calls and activations.

use std::{any::Any, error::Error, fmt, sync::Arc, time::Duration};

use fom_protocol::sync::Mutex;
use fom_runtime::error::RefusedReason;

/// The reason why a call has no value.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActiveCallError {
    /// The activation list is full; the variant holds the arguments. Call again later, or let calls wait for room:
    /// [`WhenFull::Wait`](crate::active::WhenFull).
    #[error(
        "the activation list of the object is full; call again later, or let calls wait for room"
    )]
    Full(Arguments),
    /// The call was cancelled: the method was never called, or was told to stop and did.
    #[error("the call was cancelled")]
    Cancelled,
    /// The deadline passed without an answer. If the method had not been called by then, it never is.
    #[error("the call had no answer after {0:?}")]
    TimedOut(Duration),
    /// The method panicked. The object lives on, unless it [ends on a panic](crate::active::Activation::end_on_panic).
    #[error("the method panicked: {0}")]
    Panicked(String),
    /// The guard of the method panicked. The method was not called.
    #[error("the guard of the method panicked: {0}")]
    GuardPanicked(String),
    /// The object had ended, or ended before the call's turn came. An object ends at the shutdown of the runtime. It
    /// also ends when no proxy is left and no waiting call can run, because all their guards are false. With
    /// [`end_on_panic`](crate::active::Activation::end_on_panic), a panic in a method ends it.
    #[error("the object has ended")]
    Ended,
    /// The object is elsewhere, and there is no answer from there. If an answer was lost, the method may have run.
    #[error("the object is elsewhere, and there is no answer from there: {0}")]
    Elsewhere(#[source] Arc<dyn Error + Send + Sync>),
    /// The object called itself and would wait for itself forever. Call the method directly, or do not wait.
    #[error(
        "an active object cannot wait for itself; call the method directly, or do not wait for the answer"
    )]
    OwnObject,
    /// The wait would block a handler thread, which the object itself may need.
    #[error("a handler thread cannot wait for a call; await it, or wait inside a blocking section")]
    OnHandler,
}

/// The arguments of a refused call.
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

    /// Takes the arguments as a tuple, in the order of the method's parameters. The arguments can be taken once.
    /// Returns `None` if they were already taken, or have other types.
    ///
    /// ```
    /// # use fom_patterns::active::ActiveCallError;
    /// fn again(error: &ActiveCallError) -> Option<(String, u64)> {
    ///     match error {
    ///         ActiveCallError::Full(arguments) => arguments.take(),
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

/// The error of a failed activation. Holds the object.
#[non_exhaustive]
pub struct NotActivated<A> {
    /// The reason.
    pub reason: RefusedReason,
    /// The object that was not activated.
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
