//! The life cycle, and Motr's table of admissions.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of all services of a runtime together.
///
/// A runtime begins in [`Normal`](Self::Normal). [`Services::start_all`](crate::service::Services::start_all) goes to
/// [`Init`](Self::Init) and, when all services are started, back to `Normal`.
/// [`Services::stop_all`](crate::service::Services::stop_all) goes to [`Drain`](Self::Drain),
/// [`Stopping`](Self::Stopping) and [`Stopped`](Self::Stopped). While the runtime shuts down, this state is at least as
/// far as the state of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum DomainState {
    /// The services are being started, or the last start failed.
    Init = 0,
    /// Calls are admitted.
    Normal = 1,
    /// Admitted calls run to their end. Each service decides whether to take more.
    Drain = 2,
    /// No call is admitted, and the services are being stopped.
    Stopping = 3,
    /// All services are stopped.
    Stopped = 4,
}

impl DomainState {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Init,
        Self::Normal,
        Self::Drain,
        Self::Stopping,
        Self::Stopped,
    ];

    /// Returns what happens to a call of a service in this state.
    ///
    /// ```
    /// use fom_patterns::service::{Admits, DomainState, ServiceState};
    ///
    /// assert_eq!(DomainState::Normal.admits(ServiceState::Started), Admits::Admit);
    /// assert_eq!(DomainState::Normal.admits(ServiceState::Starting), Admits::Retry);
    /// assert_eq!(DomainState::Drain.admits(ServiceState::Started), Admits::Ask);
    /// ```
    pub const fn admits(self, service: ServiceState) -> Admits {
        use ServiceState as S;
        match (self, service) {
            (Self::Init, _) | (Self::Normal, S::Starting) => Admits::Retry,
            (Self::Normal, S::Started) => Admits::Admit,
            (Self::Normal, S::Stopping) | (Self::Drain, S::Started | S::Stopping) => Admits::Ask,
            (Self::Normal | Self::Drain | Self::Stopping | Self::Stopped, _) => Admits::Refuse,
        }
    }

    pub(super) const fn of(number: u8) -> Self {
        match number {
            0 => Self::Init,
            1 => Self::Normal,
            2 => Self::Drain,
            3 => Self::Stopping,
            _ => Self::Stopped,
        }
    }
}

impl fmt::Display for DomainState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Init => "init",
            Self::Normal => "normal",
            Self::Drain => "drain",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        })
    }
}

/// The state of one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ServiceState {
    /// The service is registered and waits for its start.
    Registered,
    /// The start is running.
    Starting,
    /// The service takes calls.
    Started,
    /// The service is being stopped: admitted calls run to their end.
    Stopping,
    /// The service was stopped.
    Stopped,
    /// The start failed.
    Failed,
}

impl ServiceState {
    /// All states.
    pub const ALL: [Self; 6] = [
        Self::Registered,
        Self::Starting,
        Self::Started,
        Self::Stopping,
        Self::Stopped,
        Self::Failed,
    ];
}

impl fmt::Display for ServiceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Registered => "registered",
            Self::Starting => "starting",
            Self::Started => "started",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        })
    }
}

/// The decision of the table about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admits {
    /// The call is admitted.
    Admit,
    /// The service [decides](crate::service::Provider::accepts). A service without such a function refuses the call.
    Ask,
    /// The call is refused for now.
    Retry,
    /// The call is refused.
    Refuse,
}
