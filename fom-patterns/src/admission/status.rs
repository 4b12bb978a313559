//! The status of an intake.

use std::{fmt, time::Duration};

use fom_runtime::{Key, extension::serialized};
use serde::Serialize;

use crate::admission::Level;

/// The status of one policy of an intake.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PolicyStatus {
    /// The name that the policy gives itself.
    pub name: String,
    /// Requests that the policy has.
    pub queued: usize,
    /// Requests that the policy gave so far.
    pub started: u64,
    /// Requests that the policy declined so far.
    pub declined: u64,
    /// Whether new requests go to this policy. The other policies are being emptied, except the policy behind them all.
    pub in_use: bool,
}

/// The requests of one client and one class in the queue.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct QueueStatus {
    /// The client, if one was given.
    #[serde(serialize_with = "serialized::some_text")]
    pub client: Option<Key>,
    /// The class, if one was given.
    #[serde(serialize_with = "serialized::some_text")]
    pub class: Option<Key>,
    /// The number of requests.
    pub queued: usize,
    /// How long the oldest request has waited.
    #[serde(serialize_with = "serialized::seconds")]
    pub longest: Duration,
}

/// The state of an intake. `Display` prints a table.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct AdmissionStatus {
    /// The name of the intake.
    pub name: String,
    /// Whether a policy did not return within 100 ms. Then the policies, the queues by client and the numbers of the
    /// requests that run, ended, were cancelled and were shed are missing.
    pub busy: bool,
    /// The policies. The first has the requests that the others decline; the last is in use.
    pub policies: Vec<PolicyStatus>,
    /// The queued requests by client and class.
    pub queues: Vec<QueueStatus>,
    /// Requests in the queue.
    pub queued: usize,
    /// Foms of this intake that run.
    pub running: usize,
    /// The most foms of this intake that may run; see [`running`](Self::running).
    pub in_flight: usize,
    /// Submissions that wait for room.
    pub waiting_for_room: usize,
    /// How full the queue is.
    pub level: Level,
    /// How often the queue became full.
    pub filled: u64,
    /// Submissions that were given back.
    pub refused: u64,
    /// Requests that were started and have ended.
    pub ended: u64,
    /// Requests that were cancelled in the queue.
    pub cancelled: u64,
    /// Requests that were shed.
    pub shed: u64,
    /// The time until a throttled request may start, if only its rate holds it back.
    #[serde(serialize_with = "serialized::some_seconds")]
    pub throttled_for: Option<Duration>,
}

impl AdmissionStatus {
    fn fmt_busy(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (queued, refused) = (self.queued, self.refused);
        writeln!(
            f,
            "busy: a policy does not return; {queued} queued, {refused} refused"
        )
    }
}

impl fmt::Display for AdmissionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.busy {
            return self.fmt_busy(f);
        }
        writeln!(
            f,
            "{} queued, {} of {} running, {} ended, {} cancelled, {} shed, {} refused; full {} times{}",
            self.queued,
            self.running,
            self.in_flight,
            self.ended,
            self.cancelled,
            self.shed,
            self.refused,
            self.filled,
            if self.level == Level::Full {
                ", and now"
            } else {
                ""
            }
        )?;
        if self.waiting_for_room > 0 {
            writeln!(f, "{} wait for room", self.waiting_for_room)?;
        }
        if let Some(time) = self.throttled_for {
            writeln!(f, "throttled for {time:?}")?;
        }
        writeln!(
            f,
            "\n{:<40} {:>8} {:>9} {:>9}",
            "policy", "queued", "started", "declined"
        )?;
        for policy in &self.policies {
            let name = format!("{}{}", policy.name, if policy.in_use { " *" } else { "" });
            writeln!(
                f,
                "{name:<40} {:>8} {:>9} {:>9}",
                policy.queued, policy.started, policy.declined
            )?;
        }
        if !self.queues.is_empty() {
            writeln!(
                f,
                "\n{:<24} {:<15} {:>8} {:>12}",
                "client", "class", "queued", "oldest waits"
            )?;
        }
        for queue in &self.queues {
            let name = |key: &Option<Key>| key.as_ref().map_or("-".to_owned(), Key::to_string);
            writeln!(
                f,
                "{:<24} {:<15} {:>8} {:>12}",
                name(&queue.client),
                name(&queue.class),
                queue.queued,
                format!("{:?}", queue.longest)
            )?;
        }
        Ok(())
    }
}
