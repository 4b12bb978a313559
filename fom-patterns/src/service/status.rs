//! The state of all services as a value to show, write or send.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::service::{DomainState, ServiceState, Services, entry::Entry, registry::Registry};
use fom_protocol::sync::atomic::Ordering;
use fom_runtime::{Runtime, extension::Listed, observe::PartInfo, time::Instant};

/// One service. See [`ServicesStatus`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServiceStatus {
    /// The name of the service.
    pub name: String,
    /// The types of its function.
    pub signature: String,
    /// The owner that registered the service.
    pub owner: String,
    /// The level of the start and the stop.
    pub level: u32,
    /// The state of the service.
    pub state: ServiceState,
    /// Why the service failed.
    pub reason: Option<String>,
    /// The time in this state, on the runtime's clock.
    pub since: Duration,
    /// Admitted calls before the entry of their function.
    pub waiting: usize,
    /// Calls with a function that was entered and has not returned.
    pub running: usize,
    /// Waiting and running calls with a waiting caller or a callback.
    pub callers: usize,
    /// Calls with a result.
    pub done: u64,
    /// Calls that failed, for example by a panic or a missed time limit.
    pub failed: u64,
    /// Calls that were cancelled.
    pub cancelled: u64,
    /// Calls that were not admitted.
    pub refused: u64,
}

/// The state of all services. `Display` is a table; serde writes and reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServicesStatus {
    /// The state of all services together.
    pub domain: DomainState,
    /// Each service, by level and registration. An unregistered service is listed while something of it runs.
    pub services: Vec<ServiceStatus>,
    /// Calls of services that are not registered or have other types.
    pub unknown: u64,
}

impl ServiceStatus {
    fn of(entry: &Entry, now: Instant) -> Self {
        let calls = entry.calls();
        let callers = calls.iter().filter(|call| call.is_awaited()).count();
        entry.lifecycle(|lifecycle| Self {
            name: entry.name.clone(),
            signature: entry.signature.to_string(),
            owner: entry.owner.clone(),
            level: entry.level,
            state: lifecycle.state,
            reason: lifecycle.reason.clone(),
            since: now - lifecycle.since,
            waiting: lifecycle.totals.waiting,
            running: lifecycle.totals.running,
            callers,
            done: lifecycle.totals.done,
            failed: lifecycle.totals.failed,
            cancelled: lifecycle.totals.cancelled,
            refused: lifecycle.totals.refused,
        })
    }

    fn part(self) -> PartInfo {
        let mut info = PartInfo::new("service", self.name)
            .queued(self.waiting)
            .with("signature", self.signature)
            .with("owner", self.owner)
            .with("state", self.state.to_string())
            .with("since", self.since);
        if let Some(reason) = self.reason {
            info = info.with("reason", reason);
        }
        info.with("running", self.running)
            .with("callers", self.callers)
            .with("done", self.done)
            .with("failed", self.failed)
            .with("cancelled", self.cancelled)
            .with("refused", self.refused)
    }
}

/// Each service is a part of the runtime.
impl Listed for Registry {
    fn parts(self: Arc<Self>, runtime: &Runtime) -> Vec<PartInfo> {
        let now = runtime.now();
        let part = |entry: Arc<Entry>| ServiceStatus::of(&entry, now).part();
        self.all().into_iter().map(part).collect()
    }
}

impl Services {
    /// Returns the state of all services at this moment. Asks no locality.
    pub fn status(&self) -> ServicesStatus {
        let now = self.runtime.now();
        let one = |entry: Arc<Entry>| ServiceStatus::of(&entry, now);
        ServicesStatus {
            domain: self.domain(),
            services: self.registry.all().into_iter().map(one).collect(),
            unknown: self.registry.unknown.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Display for ServicesStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the services are in {}", self.domain)?;
        writeln!(
            f,
            "{:<16} {:<10} {:>8} {:>7} {:>7} {:>7} {:>9} {:>6} {:>9} {:>7}  signature, owner",
            "service",
            "state",
            "since",
            "waiting",
            "running",
            "callers",
            "done",
            "failed",
            "cancelled",
            "refused"
        )?;
        for one in &self.services {
            write!(
                f,
                "{:<16} {:<10} {:>8} {:>7} {:>7} {:>7} {:>9} {:>6} {:>9} {:>7}  {}, {}",
                one.name,
                one.state,
                format!("{:.1?}", one.since),
                one.waiting,
                one.running,
                one.callers,
                one.done,
                one.failed,
                one.cancelled,
                one.refused,
                one.signature,
                one.owner
            )?;
            match &one.reason {
                Some(reason) => writeln!(f, ": {reason}")?,
                None => writeln!(f)?,
            }
        }
        if self.unknown > 0 {
            writeln!(
                f,
                "{} calls to services that do not exist, or have other types",
                self.unknown
            )?;
        }
        Ok(())
    }
}
