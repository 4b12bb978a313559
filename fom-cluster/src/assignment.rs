//! What operators have said about which node owns which slot. It is kept in the engine.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::slot::Slot;

/// What operators have said about which node owns which slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Assignment {
    /// The number of changes.
    pub version: u64,
    /// The names of the nodes that own no slots, as long as other nodes can.
    pub drained: BTreeSet<String>,
    /// The names of the nodes that own these slots, as long as they live.
    pub pinned: BTreeMap<Slot, String>,
}

/// What an operator changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Drain(String),
    Undrain(String),
    Pin(Slot, String),
    Unpin(Slot),
}

impl Assignment {
    /// Returns the assignment after a change.
    pub(crate) fn with(&self, change: &Change) -> Self {
        let mut next = self.clone();
        next.version += 1;
        match change {
            Change::Drain(node) => {
                next.drained.insert(node.clone());
            }
            Change::Undrain(node) => {
                next.drained.remove(node);
            }
            Change::Pin(slot, node) => {
                next.pinned.insert(*slot, node.clone());
            }
            Change::Unpin(slot) => {
                next.pinned.remove(slot);
            }
        }
        next
    }
}
