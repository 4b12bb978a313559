//! Errors of calls, and of the registration and start of services.

use std::{fmt, time::Duration};

use crate::service::{DomainState, Provider, ServiceState, Signature};
use fom_runtime::{
    Key,
    error::{BlockError, RefusedReason},
};

/// Why a call was not admitted. Two calls in the same situation get equal refusals, and neither leaves anything behind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No service has this name.
    #[error(
        "there is no service `{service}`; register it, or wait for it with `Services::wait_for`"
    )]
    NotRegistered {
        /// The name of the service.
        service: String,
    },
    /// The service has other types.
    #[error(
        "service `{service}` is registered by {owner} as `{has}`, but the call is for `{asked}`"
    )]
    WrongSignature {
        /// The name of the service.
        service: String,
        /// The types of the caller.
        asked: Signature,
        /// The types of the registration.
        has: Signature,
        /// The owner that registered the service.
        owner: String,
    },
    /// Not yet: the service is being started, or all services are.
    #[error("service `{service}` is {state} and the services are in {domain}; try again later")]
    Retry {
        /// The name of the service.
        service: String,
        /// The state of the service.
        state: ServiceState,
        /// The state of all services.
        domain: DomainState,
    },
    /// The service is being stopped, or all services are, or the service was not started.
    #[error("service `{service}` is {state} and the services are in {domain}: it takes no calls")]
    NotServing {
        /// The name of the service.
        service: String,
        /// The state of the service.
        state: ServiceState,
        /// The state of all services.
        domain: DomainState,
    },
    /// The runtime has no room, or no such locality.
    #[error("service `{service}` has no room: {reason}")]
    NoRoom {
        /// The name of the service.
        service: String,
        /// The reason that the runtime gives.
        reason: RefusedReason,
    },
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallCause {
    /// The call was not admitted.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The call was cancelled before its result.
    #[error("cancelled: {0}")]
    Cancelled(CancelledBy),
    /// The function panicked with this message.
    #[error("panicked: {0}")]
    Panicked(String),
    /// The [time limit](crate::service::ServiceCall::within) passed.
    #[error("not answered within {0:?}")]
    Late(Duration),
    /// The runtime was shut down first.
    #[error("the runtime was shut down")]
    Shutdown,
    /// The call cannot block here: this thread runs a locality.
    #[error(
        "waiting here would stop the locality that this thread runs; `.await` the call, or wait in a blocking section"
    )]
    WouldBlock,
    /// The call would wait for itself. It was made, and waited for, inside a call with this key, and would queue behind
    /// that call. Other waits that [`Inspect::deadlocks`](fom_runtime::observe::Inspect::deadlocks) knows may stand
    /// between the two.
    #[error(
        "it would wait for itself: a fom in front of it in the queue of `{key}` waits for its answer; start it without waiting, or call another key"
    )]
    InsideItself {
        /// The key.
        key: Key,
    },
    /// The function blocks, and no thread was available to take over the locality.
    #[error(transparent)]
    NoThread(BlockError),
}

/// What cancelled a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CancelledBy {
    /// The caller.
    #[error("by its caller")]
    Caller,
    /// The service was unregistered.
    #[error("service `{service}` was unregistered by {owner}")]
    Unregistered {
        /// The name of the service.
        service: String,
        /// The owner that had registered the service.
        owner: String,
    },
    /// [`Runtime::cancel`](fom_runtime::Runtime::cancel) cancelled the fom of the call.
    #[error("its fom was cancelled")]
    Fom,
}

/// A call without a result.
#[non_exhaustive]
pub struct CallFailure<A> {
    /// Why the call has no result.
    pub cause: CallCause,
    /// The name of the service.
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

    /// Returns why the call was not admitted, if that is the cause.
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

/// The reason why a service was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterReason {
    /// The name is taken.
    #[error(
        "service `{service}` is already registered by {owner} as `{signature}`; unregister that one first, or use another name"
    )]
    Taken {
        /// The name of the service.
        service: String,
        /// The owner that registered the service.
        owner: String,
        /// The types of the registered service.
        signature: Signature,
    },
    /// The services are being stopped.
    #[error("service `{service}` is registered too late: the services are in {domain}")]
    TooLate {
        /// The name of the service.
        service: String,
        /// The state of all services.
        domain: DomainState,
    },
}

/// A service that was not registered, with its provider.
#[non_exhaustive]
pub struct RegisterError<A, R> {
    /// Why the service was not registered.
    pub reason: RegisterReason,
    /// The provider, given back.
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

/// The reason why services could not be started or stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LifeError {
    /// The start of a service failed. The services that were started before it have been stopped again, the last one
    /// first.
    #[error("service `{service}` could not be started: {reason}")]
    Failed {
        /// The name of the service.
        service: String,
        /// The error of the start.
        reason: String,
    },
    /// [`Runtime::cancel`](fom_runtime::Runtime::cancel) cancelled the fom that did this. The caller can try again.
    #[error("the fom that starts or stops the services was cancelled; try again")]
    Cancelled,
    /// The services are already being started or stopped.
    #[error("the services are being started or stopped already; wait for that first")]
    Busy,
    /// The runtime is shutting down.
    #[error("the runtime is shutting down")]
    ShuttingDown,
}
