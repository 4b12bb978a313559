//! Failed operations: those in quarantine, and the last ones that the quarantine does not hold.

use serde_json::Value;

use crate::{
    client::Client,
    failure::Failure,
    seen::{list, text, whole},
};

/// A failed operation, or another entry of the quarantine.
pub(super) struct Failed {
    pub(super) entry: Value,
    pub(super) place: Where,
}

/// Where a failed operation is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    /// In the journal, in quarantine.
    Quarantine,
    /// In the memory of the program.
    Memory,
}

impl Failed {
    pub(super) fn id(&self) -> u64 {
        whole(&self.entry, "id")
    }

    /// Returns whether the entry has this id or key.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.id().to_string() == name || self.entry["key"] == name
    }

    /// Returns why the operation does not run.
    pub(super) fn why(&self) -> &str {
        match text(&self.entry, "cause") {
            "" => text(&self.entry, "reason"),
            cause => cause,
        }
    }

    /// Returns where the operation is, in words.
    pub(super) fn state(&self) -> &'static str {
        match self.place {
            Where::Quarantine => "in quarantine",
            Where::Memory => "failed",
        }
    }

    /// Returns the entry as JSON, with its place.
    pub(super) fn json(&self) -> Value {
        let mut entry = self.entry.clone();
        if entry.is_object() {
            entry["state"] = self.state().into();
        }
        entry
    }
}

/// The most entries of each place that an inspector lists.
const MOST: u64 = 1000;

/// Returns the quarantine and then the last failures, the latest first, at most `limit` of them. Returns also the number of
/// all of them.
pub(super) fn all(client: &Client, limit: u64) -> Result<(Vec<Failed>, u64), Failure> {
    let asked = limit.min(MOST);
    // A program without a journal has no quarantine.
    let mut journal = client.find(&format!("journal?limit={asked}"))?;
    let quarantine = journal.as_mut().map(|journal| journal["quarantine"].take());
    let quarantine = quarantine.unwrap_or_default();
    let failures = client.get(&format!("failures?limit={asked}"))?;
    let of = |entries: &[Value], place| -> Vec<Failed> {
        let entries = entries.iter().cloned();
        entries.map(|entry| Failed { entry, place }).collect()
    };
    let mut all = of(list(&quarantine, "entries"), Where::Quarantine);
    all.extend(of(list(&failures, "failures"), Where::Memory));
    all.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok((all, whole(&quarantine, "total") + whole(&failures, "total")))
}

/// Returns the entries with this id or key.
pub(super) fn find(client: &Client, name: &str) -> Result<Vec<Failed>, Failure> {
    let (mut found, _) = all(client, u64::MAX)?;
    found.retain(|failed| failed.is_named(name));
    Ok(found)
}
