//! The whole cluster, as all of its nodes see it.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::status::{NodeStatus, SlotStatus};

/// The whole cluster: what each node tells of itself, and the slots as the asked node has seen them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The nodes, by their names.
    pub nodes: Vec<NodeReport>,
    /// The slots, in their order.
    pub slots: Vec<SlotStatus>,
    /// The names of all drained nodes, also of those that do not live.
    pub drained: Vec<String>,
}

/// A node of a [`Report`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NodeReport {
    /// The node, as the asked node has seen it.
    pub node: NodeStatus,
    /// What the node tells. `None` if it has not answered the asked node.
    pub load: Option<NodeLoad>,
}

/// What a node tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NodeLoad {
    /// The number of foms in flight. A letter is one, and each slot has one for each slot that it took letters from.
    pub foms: usize,
    /// The number of [letters](crate::ClusterCxExt::letters) that are not delivered yet.
    pub letters: usize,
    /// The age of the oldest of these letters.
    pub oldest_letter: Duration,
    /// The number of entries in quarantine.
    pub quarantined: usize,
    /// What is wrong with its slots, and with its calls to other nodes.
    pub troubles: Vec<String>,
}

/// Writes a table of the nodes, and a line for each slot that has no owner, moves or is pinned, for each drained node that does not
/// live, and for each trouble.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = |of: fn(&NodeReport) -> usize, title: &str| {
            self.nodes
                .iter()
                .map(of)
                .max()
                .unwrap_or(0)
                .max(title.len())
        };
        let name = longest(|node| node.node.name.len(), "NODE");
        let address = longest(|node| node.node.address.len(), "ADDRESS");
        writeln!(
            f,
            "{:name$}  {:address$}  {:>5}  {:>9}  {:>9}  {:>11}",
            "NODE", "ADDRESS", "SLOTS", "FOMS", "LETTERS", "QUARANTINED"
        )?;
        for NodeReport { node, load } in &self.nodes {
            write!(
                f,
                "{:name$}  {:address$}  {:>5}",
                node.name, node.address, node.slots
            )?;
            match load {
                Some(load) => write!(
                    f,
                    "  {:>9}  {:>9}  {:>11}",
                    load.foms, load.letters, load.quarantined
                )?,
                None => f.write_str("  does not answer")?,
            }
            if node.leaves {
                f.write_str("  leaves")?;
            }
            if node.drained {
                f.write_str("  drained")?;
            }
            writeln!(f)?;
        }
        let is_usual = |slot: &&SlotStatus| {
            slot.owner.is_some() && slot.owner == slot.target && slot.pinned.is_none()
        };
        for slot in self.slots.iter().filter(|slot| !is_usual(slot)) {
            writeln!(f, "{slot}")?;
        }
        let lives = |name: &&String| self.nodes.iter().any(|node| node.node.name == **name);
        for name in self.drained.iter().filter(|name| !lives(name)) {
            writeln!(f, "{name}: drained, and does not live")?;
        }
        for NodeReport { node, load } in &self.nodes {
            let Some(load) = load else { continue };
            let seconds = load.oldest_letter.as_secs();
            if seconds > 0 {
                writeln!(f, "{}: its oldest letter waits for {seconds} s", node.name)?;
            }
            for trouble in &load.troubles {
                writeln!(f, "{}: {trouble}", node.name)?;
            }
        }
        Ok(())
    }
}
