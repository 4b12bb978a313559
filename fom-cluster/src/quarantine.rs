//! What a slot has in quarantine.

use std::fmt;

use fom_runtime::{FomId, Key};
use serde::{Deserialize, Serialize};

use crate::slot::{Slot, wire_key};

/// An operation or an event in quarantine, in the runtime of its slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InQuarantine {
    /// The slot.
    pub slot: Slot,
    /// The id in its slot. An event has an id of its own.
    pub id: FomId,
    /// The operation type, if it can be read. For an event, this field and `key` describe the receiver.
    pub operation: Option<String>,
    /// The phase.
    pub phase: Option<String>,
    /// The key that it was submitted with.
    #[serde(with = "wire_key")]
    pub key: Option<Key>,
    /// Why it does not run, and what to do.
    pub reason: String,
}

impl fmt::Display for InQuarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.slot, self.id)?;
        if let Some(operation) = &self.operation {
            write!(f, " {operation}")?;
        }
        if let Some(key) = &self.key {
            write!(f, " {key}")?;
        }
        if let Some(phase) = &self.phase {
            write!(f, " in {phase}")?;
        }
        write!(f, ": {}", self.reason)
    }
}
