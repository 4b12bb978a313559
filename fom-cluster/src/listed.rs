//! The cluster among the parts of a program, for listings and the inspector.

use std::time::Duration;

use fom_runtime::observe::{PartInfo, PartValue};

use crate::{
    report::{NodeReport, Report},
    status::{NodeStatus, SlotStatus, Status},
};

/// Describes what this node has seen of the cluster.
pub(crate) fn of_status(name: &str, status: &Status) -> PartInfo {
    let nodes = status.nodes.iter().map(|node| row(node, Vec::new()));
    let part = part(name, nodes.collect(), &status.slots);
    troubles(part, status.troubles.iter().map(ToString::to_string))
}

/// Describes what all nodes tell.
pub(crate) fn of_report(name: &str, report: &Report) -> PartInfo {
    let nodes = report.nodes.iter().map(|NodeReport { node, load }| {
        let tells = match load {
            Some(load) => vec![
                ("foms", load.foms.into()),
                ("letters", load.letters.into()),
                ("letter_age", load.oldest_letter.into()),
                ("quarantined", load.quarantined.into()),
            ],
            None => vec![("failure", "does not answer".into())],
        };
        row(node, tells)
    });
    let mut part = part(name, nodes.collect(), &report.slots);
    let loads = || report.nodes.iter().filter_map(|node| node.load.as_ref());
    part = part.queued(loads().map(|load| load.letters).sum());
    part.oldest = loads()
        .map(|load| load.oldest_letter)
        .max()
        .filter(|oldest| *oldest > Duration::ZERO);
    let mut all = Vec::new();
    for NodeReport { node, load } in &report.nodes {
        let of_node = load.iter().flat_map(|load| &load.troubles);
        all.extend(of_node.map(|trouble| format!("{}: {trouble}", node.name)));
    }
    troubles(part, all)
}

fn part(name: &str, nodes: Vec<PartValue>, slots: &[SlotStatus]) -> PartInfo {
    let ownerless = slots.iter().filter(|slot| slot.owner.is_none()).count();
    let slots = slots.iter().map(slot).collect();
    PartInfo::new("cluster", format!("the cluster, seen by {name}"))
        .with("slots_without_owner", ownerless)
        .with("nodes", PartValue::List(nodes))
        .with("slots", PartValue::List(slots))
}

fn troubles(part: PartInfo, troubles: impl IntoIterator<Item = String>) -> PartInfo {
    let troubles: Vec<_> = troubles.into_iter().map(PartValue::Text).collect();
    match troubles.is_empty() {
        true => part,
        false => part.with("troubles", PartValue::List(troubles)),
    }
}

fn row(node: &NodeStatus, tells: Vec<(&'static str, PartValue)>) -> PartValue {
    let mut fields = vec![
        ("node", (&*node.name).into()),
        ("address", (&*node.address).into()),
        ("slots", node.slots.into()),
    ];
    fields.extend(tells);
    if node.leaves {
        fields.push(("leaves", true.into()));
    }
    if node.drained {
        fields.push(("drained", true.into()));
    }
    PartValue::Fields(fields)
}

fn slot(slot: &SlotStatus) -> PartValue {
    let text = |name: &Option<String>| name.as_deref().unwrap_or_default().into();
    let mut fields = vec![
        ("slot", u64::from(slot.slot.0).into()),
        ("owner", text(&slot.owner)),
        ("term", slot.term.into()),
        ("since", slot.since.into()),
    ];
    if slot.owner.is_none() {
        fields.push(("reason", slot.to_string().into()));
    } else if slot.owner != slot.target {
        fields.push(("moves_to", text(&slot.target)));
    }
    if slot.pinned.is_some() {
        fields.push(("pinned_to", text(&slot.pinned)));
    }
    PartValue::Fields(fields)
}
