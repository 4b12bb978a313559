//! What a node knows of the cluster.

use std::fmt;

use crate::{engine::View, error::ClusterError, slot::Slot};

/// The cluster, as a node has seen it with its last answered heartbeat.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// The nodes, by their names.
    pub nodes: Vec<NodeStatus>,
    /// The slots, in their order.
    pub slots: Vec<SlotStatus>,
    /// What is wrong with slots of this node, and with its calls to other nodes.
    pub troubles: Vec<ClusterError>,
}

/// A node that lives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Where others reach it.
    pub address: String,
    /// The number of slots that it owns.
    pub slots: usize,
    /// Whether it gives its slots up.
    pub leaves: bool,
}

/// A slot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotStatus {
    /// Its number.
    pub slot: Slot,
    /// Its fencing token.
    pub term: u64,
    /// The name of the node that owns it. `None` while no living node does.
    pub owner: Option<String>,
}

impl Status {
    pub(crate) fn of(view: &View, troubles: Vec<ClusterError>) -> Self {
        let owns = |incarnation: &str| {
            let its = view.slots.iter();
            its.filter(|row| row.owner.as_deref() == Some(incarnation))
                .count()
        };
        let mut nodes: Vec<_> = view
            .nodes
            .iter()
            .map(|(incarnation, row)| NodeStatus {
                name: row.info.name.clone(),
                address: row.info.address.clone(),
                slots: owns(incarnation),
                leaves: row.info.weight == 0,
            })
            .collect();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        let slots = view.slots.iter().enumerate().map(|(at, row)| SlotStatus {
            slot: Slot(at as u16),
            term: row.term,
            owner: row
                .owner
                .as_ref()
                .and_then(|owner| Some(view.nodes.get(owner)?.info.name.clone())),
        });
        Self {
            nodes,
            slots: slots.collect(),
            troubles,
        }
    }
}

/// Writes a line for each node, for each slot without an owner, and for each trouble.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in &self.nodes {
            let leaves = if node.leaves { ", leaves" } else { "" };
            writeln!(
                f,
                "{} at {}: {} slots{leaves}",
                node.name, node.address, node.slots
            )?;
        }
        for slot in self.slots.iter().filter(|slot| slot.owner.is_none()) {
            writeln!(f, "{}: no owner, after term {}", slot.slot, slot.term)?;
        }
        self.troubles
            .iter()
            .try_for_each(|trouble| writeln!(f, "{trouble}"))
    }
}
