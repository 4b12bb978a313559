//! What a node knows of the cluster.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    engine::View,
    error::ClusterError,
    owners::{newer, owner},
    slot::Slot,
};

/// The cluster, as a node has seen it with its last answered heartbeat.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// The nodes, by their names.
    pub nodes: Vec<NodeStatus>,
    /// The slots, in their order.
    pub slots: Vec<SlotStatus>,
    /// The names of all drained nodes, also of those that do not live.
    pub drained: Vec<String>,
    /// What is wrong with slots of this node, and with its calls to other nodes.
    pub troubles: Vec<ClusterError>,
}

/// A node that lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Where others reach it.
    pub address: String,
    /// The number of slots that it owns.
    pub slots: usize,
    /// Whether it gives its slots up, because it leaves.
    pub leaves: bool,
    /// Whether an operator has [drained](crate::Operator::drain) it.
    pub drained: bool,
}

/// A slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SlotStatus {
    /// Its number.
    pub slot: Slot,
    /// Its fencing token.
    pub term: u64,
    /// The name of the node that owns it. `None` while no living node does.
    pub owner: Option<String>,
    /// How long it has had this owner, in time of the cluster. Without an owner, how long this node has seen none.
    pub since: Duration,
    /// The name of the node that should own it. `None` while no node takes slots. Where this is not the owner, the slot moves.
    pub target: Option<String>,
    /// What that node cannot read, because a newer release has had the slot. It waits a minute for a node that can.
    pub unread: Vec<String>,
    /// The name of the node to which an operator has [pinned](crate::Operator::pin) it. The node may not live.
    pub pinned: Option<String>,
}

impl Status {
    /// `now` is the time of this node, as `ownerless` has it.
    pub(crate) fn of(view: &View, ownerless: &BTreeMap<Slot, Duration>, now: Duration) -> Self {
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
                drained: view.assignment.drained.contains(&row.info.name),
            })
            .collect();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        let name = |incarnation: &str| Some(view.nodes.get(incarnation)?.info.name.clone());
        let slots = view.slots.iter().enumerate().map(|(at, row)| {
            let slot = Slot(at as u16);
            let owner_name = row.owner.as_deref().and_then(name);
            let since = match owner_name {
                Some(_) => view.time.saturating_sub(row.since),
                None => now.saturating_sub(ownerless.get(&slot).copied().unwrap_or(now)),
            };
            let target = owner(view, slot).and_then(|target| view.nodes.get(target));
            let unread = target.map_or_else(Vec::new, |node| newer(&node.info, &row.holds));
            SlotStatus {
                slot,
                term: row.term,
                owner: owner_name,
                since,
                target: target.map(|node| node.info.name.clone()),
                unread: unread.into_iter().map(str::to_owned).collect(),
                pinned: view.assignment.pinned.get(&slot).cloned(),
            }
        });
        Self {
            nodes,
            slots: slots.collect(),
            drained: view.assignment.drained.iter().cloned().collect(),
            troubles: Vec::new(),
        }
    }
}

/// Writes a line for each node, for each slot without an owner, and for each trouble.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in &self.nodes {
            let leaves = if node.leaves { ", leaves" } else { "" };
            let drained = if node.drained { ", drained" } else { "" };
            let (name, address, slots) = (&node.name, &node.address, node.slots);
            writeln!(f, "{name} at {address}: {slots} slots{leaves}{drained}")?;
        }
        for slot in self.slots.iter().filter(|slot| slot.owner.is_none()) {
            writeln!(f, "{}: no owner, after term {}", slot.slot, slot.term)?;
        }
        self.troubles
            .iter()
            .try_for_each(|trouble| writeln!(f, "{trouble}"))
    }
}

/// Writes the slot with its owner. Without one, also why, as far as it is known.
impl fmt::Display for SlotStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (slot, term, seconds) = (self.slot, self.term, self.since.as_secs());
        match (&self.owner, &self.target) {
            (Some(owner), _) => write!(f, "{slot}: {owner} for {seconds} s, term {term}")?,
            (None, Some(target)) => write!(
                f,
                "{slot}: no owner for {seconds} s, after term {term}; {target} is to claim it"
            )?,
            (None, None) => write!(
                f,
                "{slot}: no owner for {seconds} s, after term {term}; no node takes slots, so start one"
            )?,
        }
        if let (Some(owner), Some(target)) = (&self.owner, &self.target)
            && owner != target
        {
            write!(f, "; moves to {target}")?;
        }
        if self.owner.is_none() && !self.unread.is_empty() {
            let unread = self.unread.join(", ");
            write!(
                f,
                ", but a newer release wrote {unread}: start a node of it"
            )?;
        }
        match &self.pinned {
            Some(node) => write!(f, "; pinned to {node}"),
            None => Ok(()),
        }
    }
}
