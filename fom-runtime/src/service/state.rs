//! The life cycle, and what is admitted when: Motr's table.

use std::fmt;

use serde::{Deserialize, Serialize};

/// In which part of their life the services of a runtime are, all together.
///
/// A runtime begins in [`Normal`](Self::Normal). [`Services::start_all`](crate::service::Services::start_all) goes to
/// [`Init`](Self::Init) and, when all are started, back; [`Services::stop_all`](crate::service::Services::stop_all) goes to
/// [`Drain`](Self::Drain), [`Stopping`](Self::Stopping) and [`Stopped`](Self::Stopped). A runtime that shuts down is at least
/// as far as its own state says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum DomainState {
    /// Services are being started, or the last attempt at that failed.
    Init = 0,
    /// Calls are taken.
    Normal = 1,
    /// What was admitted runs to its end; services decide on more.
    Drain = 2,
    /// Nothing is taken; services are being stopped.
    Stopping = 3,
    /// All services are stopped.
    Stopped = 4,
}

impl DomainState {
    /// Every one.
    pub const ALL: [Self; 5] = [
        Self::Init,
        Self::Normal,
        Self::Drain,
        Self::Stopping,
        Self::Stopped,
    ];

    /// What becomes of a call to a service in this state.
    ///
    /// ```
    /// use fom_runtime::service::{Admission, DomainState, ServiceState};
    ///
    /// assert_eq!(DomainState::Normal.admits(ServiceState::Started), Admission::Admit);
    /// assert_eq!(DomainState::Normal.admits(ServiceState::Starting), Admission::Retry);
    /// assert_eq!(DomainState::Drain.admits(ServiceState::Started), Admission::Ask);
    /// ```
    pub const fn admits(self, service: ServiceState) -> Admission {
        use ServiceState as S;
        match (self, service) {
            (Self::Init, _) | (Self::Normal, S::Starting) => Admission::Retry,
            (Self::Normal, S::Started) => Admission::Admit,
            (Self::Normal, S::Stopping) | (Self::Drain, S::Started | S::Stopping) => Admission::Ask,
            (Self::Normal | Self::Drain | Self::Stopping | Self::Stopped, _) => Admission::Refuse,
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

/// In which part of its life a service is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ServiceState {
    /// Registered; it has something to do before it can be called, and nobody has started it.
    Registered,
    /// Its start is under way.
    Starting,
    /// It can be called.
    Started,
    /// It is told to stop: what was admitted runs to its end.
    Stopping,
    /// It was stopped.
    Stopped,
    /// Its start failed.
    Failed,
}

impl ServiceState {
    /// Every one.
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

/// What the table says of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admission {
    /// It is admitted.
    Admit,
    /// The service [decides](crate::service::Provider::accepts); one that does not say is not asked, and refuses.
    Ask,
    /// It is refused for now.
    Retry,
    /// It is refused.
    Refuse,
}
