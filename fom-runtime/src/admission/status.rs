//! What is seen of an intake.

use std::{fmt, time::Duration};

use crate::{admission::Level, id::Key};

/// One policy of an intake.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PolicyStatus {
    /// As it calls itself.
    pub name: String,
    /// Requests that it has.
    pub queued: usize,
    /// Requests that it gave, so far.
    pub started: u64,
    /// Requests that it declined, so far.
    pub declined: u64,
    /// What comes now goes to it. The others are being emptied, but for the one behind them all.
    pub in_use: bool,
}

/// What one client has in the queue, in one class.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueStatus {
    /// The client, if it was said.
    pub client: Option<Key>,
    /// The class, if there is one.
    pub class: Option<Key>,
    /// How many requests.
    pub queued: usize,
    /// How long the oldest has waited.
    pub longest: Duration,
}

/// The state of an intake. `Display` is a table.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AdmissionStatus {
    /// The policies: first the one that has what the others decline, last the one in use.
    pub policies: Vec<PolicyStatus>,
    /// What is queued, by client and class.
    pub queues: Vec<QueueStatus>,
    /// Requests in the queue.
    pub queued: usize,
    /// Foms of this intake that run, and how many may.
    pub running: usize,
    /// See [`running`](Self::running).
    pub in_flight: usize,
    /// Submitters who wait for room.
    pub waiting_for_room: usize,
    /// How full it is.
    pub level: Level,
    /// How often it became full.
    pub filled: u64,
    /// Submissions that were given back.
    pub refused: u64,
    /// Requests that were started and have ended.
    pub ended: u64,
    /// Requests that were cancelled in the queue.
    pub cancelled: u64,
    /// Requests that were shed.
    pub shed: u64,
    /// How long until a throttled request may start, when that is all it waits for.
    pub throttled_for: Option<Duration>,
}

/// What of it stands behind the gate's lock.
pub(super) struct Marks {
    pub(super) waiting: usize,
    pub(super) level: Level,
    pub(super) filled: u64,
    pub(super) refused: u64,
}

impl fmt::Display for AdmissionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
