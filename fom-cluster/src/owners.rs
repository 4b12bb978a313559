//! Which node should own each slot. Every node computes the same answer from the same view.

use crate::{
    engine::{NodeInfo, View},
    slot::{Slot, hash},
};

/// Returns the incarnation of the node that should own a slot: that with the highest weighted hash of both names. Without it,
/// the slots of the other nodes stay where they are. The idea is the rendezvous hashing of Thaler and Ravishankar (1998).
///
/// `None` if no node takes slots.
pub(crate) fn owner(view: &View, slot: Slot) -> Option<&str> {
    let takes = view.nodes.iter().filter(|(_, row)| row.info.weight > 0);
    let scored = takes.map(|(incarnation, row)| (score(&row.info, slot), incarnation));
    // Two equal scores are decided by the incarnation.
    let best = scored.max_by(|(one, a), (other, b)| one.total_cmp(other).then_with(|| a.cmp(b)));
    best.map(|(_, incarnation)| incarnation.as_str())
}

/// Returns the score of a node for a slot. With the logarithm, a node with twice the weight gets twice the slots.
fn score(node: &NodeInfo, slot: Slot) -> f64 {
    let drawn = hash(&[node.name.as_bytes(), &slot.0.to_le_bytes()]);
    // In (0, 1).
    let drawn = ((drawn >> 12) as f64 + 0.5) / (1u64 << 52) as f64;
    -f64::from(node.weight) / drawn.ln()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use super::*;
    use crate::engine::NodeRow;

    fn view(nodes: &[(&str, u32)]) -> View {
        let nodes = nodes.iter().map(|(name, weight)| {
            let mut info = NodeInfo::new(*name, "");
            info.weight = *weight;
            ((*name).to_owned(), NodeRow::new(info, 1))
        });
        View::new(true, nodes.collect(), Vec::new(), Duration::ZERO)
    }

    fn counts(view: &View) -> BTreeMap<&str, u32> {
        let mut counts = BTreeMap::new();
        for slot in 0..10_000 {
            *counts.entry(owner(view, Slot(slot)).unwrap()).or_default() += 1;
        }
        counts
    }

    #[test]
    fn slots_are_shared_by_weight() {
        let view = view(&[("a", 1), ("b", 1), ("c", 2), ("leaves", 0)]);
        let counts = counts(&view);
        assert!((2200..2800).contains(&counts["a"]), "{counts:?}");
        assert!((2200..2800).contains(&counts["b"]), "{counts:?}");
        assert!((4700..5300).contains(&counts["c"]), "{counts:?}");
        assert!(!counts.contains_key("leaves"));
    }

    /// When a node joins or leaves, only its own slots move.
    #[test]
    fn only_the_slots_of_the_node_that_changes_move() {
        let (two, three) = (
            view(&[("a", 1), ("b", 1)]),
            view(&[("a", 1), ("b", 1), ("c", 1)]),
        );
        for slot in (0..1000).map(Slot) {
            let (before, after) = (owner(&two, slot), owner(&three, slot));
            assert!(before == after || after == Some("c"), "{slot}");
        }
        assert_eq!(owner(&view(&[]), Slot(0)), None);
    }
}
