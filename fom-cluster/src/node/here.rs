//! What a phase knows of its node and its slot.

use std::sync::{Arc, Weak};

use fom_runtime::Runtime;

use super::Node;
use crate::{commits::Owned, slot::Slot};

/// The node and the slot of a runtime: a resource of it.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    node: Weak<Node>,
    pub(crate) slot: Slot,
    /// The number of slots of the cluster.
    pub(crate) slots: u16,
    owned: Weak<Owned>,
}

impl Here {
    pub(crate) fn new(node: &Arc<Node>, owned: &Arc<Owned>) -> Self {
        Self {
            node: Arc::downgrade(node),
            slot: owned.slot,
            slots: node.settings.slots,
            owned: Arc::downgrade(owned),
        }
    }

    pub(crate) fn node(&self) -> Option<Arc<Node>> {
        self.node.upgrade()
    }

    /// Returns the runtime of the slot, once the node serves it.
    pub(crate) fn runtime(&self) -> Option<Runtime> {
        let (_, runtime) = self.node()?.serving(self.slot)?;
        Some(runtime)
    }

    /// Returns the term of the slot.
    pub(crate) fn term(&self) -> u64 {
        self.owned.upgrade().map_or(0, |owned| owned.term())
    }
}
