//! Problems that ended no operation.

use std::{collections::VecDeque, fmt, time::Duration};

use fom_protocol::sync::Mutex;
use serde::Serialize;

use crate::{clock::elapsed, serial};

/// The most incidents that are kept. The oldest are dropped first.
const MOST: usize = 64;

/// A problem that ended no operation, such as a listener that panicked. `Display` prints the text.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Incident {
    /// The kind of the problem.
    pub kind: IncidentKind,
    /// The part of the program that has the problem, such as `Order 7` or `locality 2`.
    pub subject: String,
    /// What happened, in a sentence.
    pub text: String,
    /// How often the same happened to the same subject.
    pub count: u64,
    /// How long ago it happened last, when this value was made.
    #[serde(serialize_with = "serial::seconds")]
    pub age: Duration,
}

/// What the [incidents](Incident) of a program have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IncidentKind {
    /// The program's own code panicked where no operation can fail by it.
    Panicked,
    /// The journal is damaged, or does not take writes.
    Journal,
    /// An event or an operation was lost: its receiver was gone, or a limit of the quarantine was reached.
    Lost,
    /// The recovery could not bring everything back as it was.
    Recovery,
    /// A part of the program could not be stopped in time.
    Stop,
    /// A policy broke its rules and was removed.
    Policy,
    /// The machine refused something, such as the binding of a thread to its processors.
    Machine,
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match self.count {
            0 | 1 => Ok(()),
            count => write!(f, " ({count} times)"),
        }
    }
}

/// The latest incidents of a runtime.
#[derive(Default)]
pub(crate) struct Incidents(Mutex<VecDeque<Reported>>);

struct Reported {
    kind: IncidentKind,
    subject: String,
    text: String,
    count: u64,
    /// The time of the last one.
    at: u64,
}

impl Incidents {
    pub(crate) fn report(&self, kind: IncidentKind, subject: String, text: String, at: u64) {
        let mut incidents = self.0.lock();
        let is_same =
            |one: &Reported| (one.kind, &one.subject, &one.text) == (kind, &subject, &text);
        let before = incidents.iter().position(is_same);
        let count = before.and_then(|place| incidents.remove(place));
        if incidents.len() == MOST {
            incidents.pop_front();
        }
        incidents.push_back(Reported {
            kind,
            subject,
            text,
            count: count.map_or(0, |one| one.count) + 1,
            at,
        });
    }

    /// Returns the incidents, the latest last.
    pub(crate) fn list(&self, now: u64) -> Vec<Incident> {
        let shown = |one: &Reported| Incident {
            kind: one.kind,
            subject: one.subject.clone(),
            text: one.text.clone(),
            count: one.count,
            age: elapsed(now, one.at),
        };
        self.0.lock().iter().map(shown).collect()
    }
}
