//! The parts of a drawing with their sizes, before they have a place.

use fom_runtime::machine::{Graph, Mode, PhaseInfo};

use crate::layout::{EdgeKind, LABEL, LABEL_BASE, LINE, LINE_STEP, NodeKind, PADDING};
use crate::text;

/// The room for a count beside a label.
const COUNT: f64 = 66.0;
/// The most width of text in a box.
const MOST: f64 = 236.0;
/// The room for the label of an edge.
pub(crate) const EDGE_LABEL: (f64, f64) = (50.0, 16.0);
/// The room for the start mark above its box.
const START_ROOM: f64 = 34.0;

/// The parts of a graph.
pub(crate) struct Parts {
    pub(crate) boxes: Vec<Part>,
    pub(crate) groups: Vec<GroupPart>,
    pub(crate) edges: Vec<EdgePart>,
    /// The index of the box in which the operation starts.
    pub(crate) start: Option<usize>,
}

/// A phase.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) label: String,
    pub(crate) kind: NodeKind,
    pub(crate) lines: Vec<String>,
    pub(crate) docs: String,
    /// The index of the innermost group around it.
    pub(crate) group: Option<usize>,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// A layer. Groups around it have lower indexes.
pub(crate) struct GroupPart {
    pub(crate) path: &'static str,
    pub(crate) label: &'static str,
    pub(crate) parent: Option<usize>,
}

/// An edge between the boxes with these indexes.
pub(crate) struct EdgePart {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) kind: EdgeKind,
    pub(crate) late: bool,
    pub(crate) name: Option<&'static str>,
    /// The width of the room for its label.
    pub(crate) width: f64,
}

impl EdgePart {
    pub(crate) fn is_loop(&self) -> bool {
        self.from == self.to
    }
}

impl Parts {
    pub(crate) fn of(graph: &Graph) -> Self {
        let mut groups = Vec::new();
        let boxes = graph.phases().iter().map(|phase| {
            let group = group_of(phase.name(), &mut groups);
            part(graph, phase, group)
        });
        Self {
            boxes: boxes.collect(),
            groups,
            edges: edges(graph),
            start: graph.phases().iter().position(PhaseInfo::is_start),
        }
    }

    /// Returns the room above the box with this index: that of the start mark, if the operation starts there.
    pub(crate) fn room_above(&self, index: usize) -> f64 {
        match self.start == Some(index) {
            true => START_ROOM,
            false => 0.0,
        }
    }

    /// Returns whether the box with this index is in this group, or in a group inside it.
    pub(crate) fn is_in(&self, index: usize, group: usize) -> bool {
        let mut at = self.boxes[index].group;
        while let Some(inner) = at {
            if inner == group {
                return true;
            }
            at = self.groups[inner].parent;
        }
        false
    }
}

/// Returns the innermost group of a phase. Adds its groups if they are new.
fn group_of(name: &'static str, groups: &mut Vec<GroupPart>) -> Option<usize> {
    let mut parent = None;
    for (end, _) in name.match_indices('.') {
        let path = &name[..end];
        let known = groups.iter().position(|group| group.path == path);
        parent = Some(known.unwrap_or_else(|| {
            let label = path.rsplit('.').next().unwrap_or(path);
            groups.push(GroupPart {
                path,
                label,
                parent,
            });
            groups.len() - 1
        }));
    }
    parent
}

fn part(graph: &Graph, phase: &'static PhaseInfo, group: Option<usize>) -> Part {
    let name = phase.name();
    let label = name.rsplit('.').next().unwrap_or(name);
    let label = text::fitted(label, LABEL, MOST - COUNT);
    let lines = graph.conditions(phase);
    let lines: Vec<_> = lines
        .iter()
        .map(|line| text::fitted(line, LINE, MOST))
        .collect();
    let widest = lines.iter().map(|line| text::width(line, LINE));
    let widest = widest.fold(text::width(&label, LABEL) + COUNT, f64::max);
    let below = lines.len().max(1) as f64 * LINE_STEP;
    Part {
        name,
        label,
        kind: kind(phase),
        docs: text::first_paragraph(phase.docs()),
        group,
        width: (widest + 2.0 * PADDING).ceil(),
        height: LABEL_BASE + below + 13.0,
        lines,
    }
}

fn kind(phase: &PhaseInfo) -> NodeKind {
    match phase.mode() {
        Mode::Sync => NodeKind::Sync,
        Mode::Blocking => NodeKind::Blocking,
        Mode::End if phase.is_failure() => NodeKind::FailureEnd,
        Mode::End => NodeKind::End,
        _ => NodeKind::Async,
    }
}

fn edges(graph: &Graph) -> Vec<EdgePart> {
    let mut edges: Vec<EdgePart> = Vec::new();
    let phases = graph.phases();
    for (from, phase) in phases.iter().enumerate() {
        let first = edges.len();
        for to in phase.exit_indexes().iter().copied().map(usize::from) {
            // Only a graph written by hand has an edge to no phase, or an edge twice.
            let Some(exit) = phases.get(to) else { continue };
            if edges[first..].iter().any(|edge| edge.to == to) {
                continue;
            }
            let name = graph.edge_name(phase, exit);
            let kind = match graph.is_for_failure(phase, exit) {
                false => EdgeKind::Plain,
                true if phase.hears_cancel() => EdgeKind::FailedOrCancelled,
                true => EdgeKind::Failed,
            };
            let label = kind
                .text(name)
                .map_or(0.0, |label| text::width(label, LINE) + 8.0);
            edges.push(EdgePart {
                from,
                to,
                kind,
                late: phase.deadline().is_late() && !kind.is_failure(),
                name,
                width: label.max(EDGE_LABEL.0).ceil(),
            });
        }
    }
    edges
}
