//! Where the phases of a machine are in its diagram.

use fom_draw::{Edge, Layout, Node, Point, prelude::*};
use fom_runtime::machine::Graph;
use serde_json::{Value, json};

/// Returns the positions of phases and edges. This may take a second for a large machine.
pub(crate) fn of(graph: &Graph) -> Value {
    let Layout {
        width,
        height,
        start,
        groups,
        nodes,
        edges,
        ..
    } = graph.layout();
    json!({
        "width": width,
        "height": height,
        "start": start,
        "groups": groups,
        "nodes": nodes.iter().map(node).collect::<Vec<_>>(),
        "edges": edges.iter().map(edge).collect::<Vec<_>>(),
    })
}

fn node(of: &Node) -> Value {
    json!({
        "phase": of.name,
        "label": of.label,
        "lines": of.lines,
        "x": of.x,
        "y": of.y,
        "width": of.width,
        "height": of.height,
        "count": point(&of.count),
    })
}

fn edge(of: &Edge) -> Value {
    json!({
        "from": of.from,
        "to": of.to,
        "kind": if of.kind.is_failure() { "failure" } else { "exit" },
        "points": of.points.iter().map(point).collect::<Vec<_>>(),
        "path": of.path,
        "label": point(&of.label),
    })
}

fn point(of: &Point) -> [f64; 2] {
    [of.x, of.y]
}
