//! Why a call did not come to a result, and why a service could not be registered or started.

use std::{fmt, time::Duration};

use crate::{
    error::BlockError,
    id::Key,
    service::{DomainState, Provider, ServiceState, Signature},
};

/// Why a call was not admitted. Two calls in the same situation get equal refusals, and neither leaves anything behind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Nobody has registered this name.
    #[error(
        "there is no service `{service}`; register it, or wait for it with `Services::wait_for`"
    )]
    NotRegistered {
        /// The name.
        service: String,
    },
    /// The service has other types.
    #[error(
        "service `{service}` is `{has}`, as {owner} registered it, and was asked for as `{asked}`"
    )]
    WrongSignature {
        /// The name.
        service: String,
        /// The types that it was asked for with.
        asked: Signature,
        /// The types that it was registered with.
        has: Signature,
        /// Who registered it.
        owner: String,
    },
    /// Not yet: it is being started, or all are.
    #[error("service `{service}` is {state} and the services are in {domain}; try again later")]
    Retry {
        /// The name.
        service: String,
        /// The service's state.
        state: ServiceState,
        /// That of all of them.
        domain: DomainState,
    },
    /// No more: it is being stopped, or all are; or it was not started.
    #[error("service `{service}` is {state} and the services are in {domain}: it takes no calls")]
    NotServing {
        /// The name.
        service: String,
        /// The service's state.
        state: ServiceState,
        /// That of all of them.
        domain: DomainState,
    },
    /// The runtime has no room, or no such locality.
    #[error("service `{service}` has no room: {reason}")]
    NoRoom {
        /// The name.
        service: String,
        /// What the runtime says.
        reason: crate::RefusedReason,
    },
}

/// Why a call came to no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallCause {
    /// It was not admitted.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Somebody cancelled it before it came to its result.
    #[error("cancelled: {0}")]
    Cancelled(CancelledBy),
    /// The function panicked, with this message.
    #[error("panicked: {0}")]
    Panicked(String),
    /// Its [time](crate::service::Call::within) passed.
    #[error("not answered within {0:?}")]
    Late(Duration),
    /// The runtime was shut down first.
    #[error("the runtime was shut down")]
    Shutdown,
    /// It cannot block here: this thread has a locality to run.
    #[error(
        "waiting here would stop the locality that this thread runs; `.await` the call, or wait in a blocking section"
    )]
    WouldBlock,
    /// It would wait for itself: it was made, and waited for, inside a call with this key, behind which it would stand.
    #[error(
        "it would wait for itself: it is made from inside `{key}`, behind which it would stand; start it without waiting, or call another key"
    )]
    InsideItself {
        /// The key.
        key: Key,
    },
    /// The function blocks, and no thread could be had to leave the locality to.
    #[error(transparent)]
    NoThread(BlockError),
}

/// Who cancelled a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CancelledBy {
    /// Who made it.
    #[error("by its caller")]
    Caller,
    /// The service was unregistered.
    #[error("service `{service}` was unregistered by {owner}")]
    Unregistered {
        /// The name.
        service: String,
        /// Who had registered it.
        owner: String,
    },
    /// Its fom was cancelled, by [`Runtime::cancel`](crate::Runtime::cancel).
    #[error("its fom was cancelled")]
    Fom,
}

/// A call that came to no result.
#[non_exhaustive]
pub struct CallFailure<A> {
    /// Why.
    pub cause: CallCause,
    /// The service.
    pub service: String,
    /// The argument, if the function was not entered.
    pub argument: Option<A>,
}

impl<A> CallFailure<A> {
    pub(super) fn new(service: &str, cause: impl Into<CallCause>, argument: Option<A>) -> Self {
        Self {
            cause: cause.into(),
            service: service.to_owned(),
            argument,
        }
    }

    /// Why it was not admitted, if that is the cause.
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.cause {
            CallCause::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

impl<A> fmt::Debug for CallFailure<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallFailure")
            .field("cause", &self.cause)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

impl<A> fmt::Display for CallFailure<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call of `{}` failed: {}", self.service, self.cause)
    }
}

impl<A> std::error::Error for CallFailure<A> {}

/// Why a service was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterReason {
    /// The name is taken.
    #[error(
        "service `{service}` is registered already, by {owner}, as `{signature}`; unregister that one first, or take another name"
    )]
    Taken {
        /// The name.
        service: String,
        /// Who registered it.
        owner: String,
        /// With which types.
        signature: Signature,
    },
    /// The services are being stopped.
    #[error("service `{service}` comes too late: the services are in {domain}")]
    TooLate {
        /// The name.
        service: String,
        /// The state of all of them.
        domain: DomainState,
    },
}

/// A service that was not registered; what was to provide it is given back.
#[non_exhaustive]
pub struct RegisterError<A, R> {
    /// Why.
    pub reason: RegisterReason,
    /// What was to provide it.
    pub provider: Box<Provider<A, R>>,
}

impl<A, R> fmt::Debug for RegisterError<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RegisterError").field(&self.reason).finish()
    }
}

impl<A, R> fmt::Display for RegisterError<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<A, R> std::error::Error for RegisterError<A, R> {}

/// Services could not be started or stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LifeError {
    /// The start of one failed; those that were started before it have been stopped again, the last one first.
    #[error("service `{service}` could not be started: {reason}")]
    Failed {
        /// The name.
        service: String,
        /// What its start returned.
        reason: String,
    },
    /// The fom that did it was cancelled, by [`Runtime::cancel`](crate::Runtime::cancel). It can be done again.
    #[error("the fom that did it was cancelled; do it again")]
    Cancelled,
    /// They are being started or stopped at this moment.
    #[error("the services are being started or stopped already; wait for that first")]
    Busy,
    /// The runtime is shutting down.
    #[error("the runtime is shutting down")]
    ShuttingDown,
}
