//! Problems that ended no operation.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    time::Duration,
};

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
    /// The flight recorder was written to a file.
    Recorded,
    /// The watcher of the package `fom-watch` found a condition.
    Warning,
    /// The machine refused something, such as the binding of a thread to its processors.
    Machine,
    /// A person acted on the program from outside, such as through the inspector. This is no problem, but a trace of it.
    Action,
}

impl IncidentKind {
    /// All kinds, in their order.
    const ALL: [Self; 10] = [
        Self::Panicked,
        Self::Journal,
        Self::Lost,
        Self::Recovery,
        Self::Stop,
        Self::Policy,
        Self::Recorded,
        Self::Warning,
        Self::Machine,
        Self::Action,
    ];

    /// Returns the kind as one word, as in a serialized incident.
    pub fn name(self) -> &'static str {
        match self {
            Self::Panicked => "panicked",
            Self::Journal => "journal",
            Self::Lost => "lost",
            Self::Recovery => "recovery",
            Self::Stop => "stop",
            Self::Policy => "policy",
            Self::Recorded => "recorded",
            Self::Warning => "warning",
            Self::Machine => "machine",
            Self::Action => "action",
        }
    }
}

/// How many incidents of one kind a runtime has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IncidentCounter {
    /// The kind of the incidents.
    pub kind: IncidentKind,
    /// The number of incidents, with those that are no longer listed.
    pub count: u64,
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

/// The incidents of a runtime.
#[derive(Default)]
pub(crate) struct Incidents(Mutex<Log>);

#[derive(Default)]
struct Log {
    latest: VecDeque<Reported>,
    counts: BTreeMap<IncidentKind, u64>,
}

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
        let mut log = self.0.lock();
        *log.counts.entry(kind).or_default() += 1;
        let incidents = &mut log.latest;
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
        self.0.lock().latest.iter().map(shown).collect()
    }

    /// Returns how many incidents of each kind there were, also of those without any.
    pub(crate) fn counts(&self) -> Vec<IncidentCounter> {
        let log = self.0.lock();
        let counter = |kind| IncidentCounter {
            kind,
            count: log.counts.get(&kind).copied().unwrap_or(0),
        };
        IncidentKind::ALL.into_iter().map(counter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{IncidentCounter, IncidentKind, Incidents};

    #[test]
    fn each_kind_is_counted_under_its_serialized_name() {
        let incidents = Incidents::default();
        for kind in IncidentKind::ALL {
            incidents.report(kind, "a part".into(), "it broke".into(), 0);
        }
        incidents.report(IncidentKind::Lost, "a part".into(), "it broke".into(), 0);
        for IncidentCounter { kind, count } in incidents.counts() {
            assert_eq!(count, if kind == IncidentKind::Lost { 2 } else { 1 });
            let name = serde_json::to_value(kind).unwrap();
            assert_eq!(name, kind.name());
        }
        assert!(IncidentKind::ALL.is_sorted());
    }
}
