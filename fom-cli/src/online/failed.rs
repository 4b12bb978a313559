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

/// Returns the quarantine, and then the last failures, the latest first.
pub(super) fn all(client: &Client) -> Result<Vec<Failed>, Failure> {
    let of = |entries: &[Value], place| -> Vec<Failed> {
        let entries = entries.iter().cloned();
        entries.map(|entry| Failed { entry, place }).collect()
    };
    // A program without a journal has no quarantine.
    let journal = client.find("journal")?.unwrap_or_default();
    let mut all = of(list(&journal["quarantine"], "entries"), Where::Quarantine);
    let failures = client.get("failures")?;
    all.extend(of(list(&failures, "failures"), Where::Memory));
    Ok(all)
}

/// Returns the entries with this id or key.
pub(super) fn find(client: &Client, name: &str) -> Result<Vec<Failed>, Failure> {
    let mut found = all(client)?;
    found.retain(|failed| failed.is_named(name));
    Ok(found)
}
