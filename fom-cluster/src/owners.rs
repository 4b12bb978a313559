//! Which node should own each slot. Every node computes the same answer from the same view.

use std::cmp::Reverse;

use crate::{
    engine::{Assignment, NodeInfo, NodeRow, Versions, View},
    slot::{Slot, hash},
};

/// Returns the incarnation of the node that should own a slot: that to which an operator has pinned it, if it can read the versions in
/// the slot. Otherwise the first in this order:
///
/// 1. It can read the versions in the slot: with another owner, operations would wait in quarantine.
/// 2. It is not drained. If all are drained, one of them owns the slot: a slot without an owner would be worse.
/// 3. It knows the most of the operation types in the slot.
/// 4. It has the highest weighted hash of its name and the slot. When a node goes, the slots of the other nodes stay where they are.
///    The idea is the rendezvous hashing of Thaler and Ravishankar (1998).
///
/// `None` if no node takes slots.
pub(crate) fn owner(view: &View, slot: Slot) -> Option<&str> {
    static EMPTY: Versions = Versions::new();
    let holds = view.slots.get(usize::from(slot.0));
    let holds = holds.map_or(&EMPTY, |row| &row.holds);
    let reads = |row: &NodeRow| newer(&row.info, holds).is_empty();
    let takes = || view.nodes.iter().filter(|(_, row)| row.info.weight > 0);
    let Assignment {
        pinned, drained, ..
    } = &view.assignment;
    if let Some(name) = pinned.get(&slot)
        && let Some((incarnation, _)) =
            takes().find(|(_, row)| row.info.name == *name && reads(row))
    {
        return Some(incarnation);
    }
    let ranked = takes().map(|(incarnation, row)| {
        let is_drained = drained.contains(&row.info.name);
        let first = (reads(row), !is_drained, Reverse(unread(&row.info, holds)));
        (first, score(&row.info, slot), incarnation)
    });
    // Two equal scores are decided by the incarnation.
    let best = ranked.max_by(|(first, one, a), (other_first, other, b)| {
        let first = first.cmp(other_first);
        first.then_with(|| one.total_cmp(other).then_with(|| a.cmp(b)))
    });
    best.map(|(_, _, incarnation)| incarnation.as_str())
}

/// Returns how many operation types a node cannot read, of those that a slot holds.
fn unread(node: &NodeInfo, holds: &Versions) -> usize {
    let is_unread = |(operation, version): &(&String, &u32)| {
        let own = node.reads.get(*operation);
        own.is_none_or(|own| own < *version)
    };
    holds.iter().filter(is_unread).count()
}

/// Returns what a slot holds in a later version than a node reads, such as `Selling Order`. A fom with such data would go into
/// quarantine there.
pub(crate) fn newer<'a>(node: &NodeInfo, holds: &'a Versions) -> Vec<&'a str> {
    let is_newer = |(operation, version): &(&String, &u32)| {
        let own = node.reads.get(*operation);
        own.is_some_and(|own| own < *version)
    };
    let newer = holds.iter().filter(is_newer);
    newer.map(|(operation, _)| operation.as_str()).collect()
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
    use std::{
        collections::{BTreeMap, BTreeSet},
        time::Duration,
    };

    use super::*;
    use crate::{assignment::Change, engine::SlotRow};

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

    fn view_with(names: &[&str], changes: &[Change]) -> View {
        let nodes: Vec<_> = names.iter().map(|name| (*name, 1)).collect();
        let mut view = view(&nodes);
        let first = Assignment::default();
        view.assignment = changes.iter().fold(first, |kept, change| kept.with(change));
        view
    }

    #[test]
    fn a_drained_node_owns_no_slots_and_the_others_keep_theirs() {
        let before = view_with(&["a", "b", "c"], &[]);
        let drained = view_with(&["a", "b", "c"], &[Change::Drain("c".into())]);
        for slot in (0..1000).map(Slot) {
            let (before, after) = (owner(&before, slot), owner(&drained, slot));
            assert_ne!(after, Some("c"), "{slot}");
            assert!(before == after || before == Some("c"), "{slot}");
        }
        let all = ["a", "b"].map(|name| Change::Drain(name.into()));
        let all_drained = view_with(&["a", "b"], &all);
        let owners = counts(&all_drained).len();
        assert_eq!(owners, 2, "a slot without an owner would be worse");
    }

    #[test]
    fn a_pinned_slot_belongs_to_its_node_while_that_lives() {
        let pin = Change::Pin(Slot(7), "b".into());
        for drained in ["a", "b"].map(|name| Change::Drain(name.into())) {
            let pinned = view_with(&["a", "b"], &[pin.clone(), drained]);
            assert_eq!(owner(&pinned, Slot(7)), Some("b"), "stronger than a drain");
        }
        let dead = view_with(&["a"], std::slice::from_ref(&pin));
        assert_eq!(owner(&dead, Slot(7)), Some("a"));
        let changes = [pin, Change::Drain("b".into()), Change::Unpin(Slot(7))];
        assert_eq!(owner(&view_with(&["a", "b"], &changes), Slot(7)), Some("a"));
        let changes = [Change::Drain("a".into()), Change::Undrain("a".into())];
        let (back, never) = (
            view_with(&["a", "b"], &changes),
            view_with(&["a", "b"], &[]),
        );
        assert_eq!(counts(&back), counts(&never));
    }

    /// A slot that a newer release has had stays with nodes of that release, as long as there is one.
    #[test]
    fn an_owner_can_read_the_slot_if_any_node_can() {
        let versions = |all: &[(&str, u32)]| -> Versions {
            let all = all.iter();
            all.map(|(name, version)| ((*name).to_owned(), *version))
                .collect()
        };
        let mut view = view(&[("a", 1), ("b", 1), ("c", 1)]);
        view.slots = vec![SlotRow::default(); 100];
        for (name, reads) in [
            ("a", versions(&[("Order", 1)])),
            ("b", versions(&[("Order", 2)])),
            ("c", versions(&[("Order", 2), ("Parcel", 1)])),
        ] {
            view.nodes.get_mut(name).unwrap().info.reads = reads;
        }
        let owners = |view: &View| -> BTreeSet<String> {
            let slots = (0..100).map(Slot);
            slots
                .map(|slot| owner(view, slot).unwrap().to_owned())
                .collect()
        };
        for (holds, expected) in [
            (&[][..], &["a", "b", "c"][..]),
            (&[("Order", 1)], &["a", "b", "c"]),
            (&[("Order", 2)], &["b", "c"]),
            (&[("Order", 1), ("Parcel", 1)], &["c"]),
            // None reads all of it: those that read the most.
            (&[("Order", 2), ("Gone", 1)], &["b", "c"]),
            (&[("Order", 9)], &["a", "b", "c"]),
        ] {
            for row in &mut view.slots {
                row.holds = versions(holds);
            }
            let expected: BTreeSet<_> = expected.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(owners(&view), expected, "{holds:?}");
        }
        // What a node cannot read, no operator moves there.
        for row in &mut view.slots {
            row.holds = versions(&[("Order", 2), ("Parcel", 1)]);
        }
        let b_and_c = ["b", "c"].map(|name| Change::Drain(name.into()));
        let changes = b_and_c
            .into_iter()
            .chain([Change::Pin(Slot(3), "a".into())]);
        let first = Assignment::default();
        view.assignment = changes.fold(first, |kept, change| kept.with(&change));
        assert_eq!(owners(&view), BTreeSet::from(["c".to_owned()]));
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
