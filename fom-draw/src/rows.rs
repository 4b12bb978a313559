//! Places the parts in rows, with the crate `dagre`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use dagre::graph::{Graph, GraphOptions};
use dagre::layout::types::LabelPos;
use dagre::{EdgeLabel, LayoutOptions, NodeLabel};

use crate::effort;
use crate::layout::{Placing, Point};
use crate::parts::{EDGE_LABEL, EdgePart, Part, Parts};
use crate::placed::{Area, Form, Placed, Route};
use crate::ports;

/// The most cells that are placed in rows. More of them would take seconds.
const MOST: usize = 2500;
/// The least room between a group and the boxes in it.
const GROUP_ROOM: f64 = 14.0;
/// How far the bow of an edge from a phase to itself reaches.
const BOW: f64 = 30.0;

/// Places the parts. Returns `None` if there are too many, or if `dagre` fails.
pub(crate) fn place(parts: &Parts) -> Option<Placed> {
    if parts.boxes.is_empty() || effort::cells(parts) > MOST {
        return None;
    }
    let layered = catch_unwind(AssertUnwindSafe(|| {
        let mut graph = graph_of(parts);
        dagre::layout(&mut graph, Some(options()));
        graph
    }));
    let placed = placed(parts, &layered.ok()?)?;
    placed.is_sound(parts).then_some(placed)
}

type Layered = Graph<NodeLabel, EdgeLabel>;

fn options() -> LayoutOptions {
    LayoutOptions {
        nodesep: 36.0,
        edgesep: 18.0,
        ranksep: 46.0,
        ..LayoutOptions::default()
    }
}

fn graph_of(parts: &Parts) -> Layered {
    let mut graph = Graph::with_options(GraphOptions {
        directed: true,
        // For the ways back, which are turned around while the rows are made.
        multigraph: true,
        compound: !parts.groups.is_empty(),
    });
    for group in 0..parts.groups.len() {
        graph.set_node(group_id(group), Some(NodeLabel::default()));
    }
    // The first one is at the top, and the ways back are those that lead up from it.
    let others = (0..parts.boxes.len()).filter(|&index| parts.start != Some(index));
    for index in parts.start.into_iter().chain(others) {
        let label = NodeLabel {
            width: parts.boxes[index].width,
            height: parts.boxes[index].height + parts.room_above(index),
            ..NodeLabel::default()
        };
        graph.set_node(box_id(index), Some(label));
    }
    for (index, Part { group, .. }) in parts.boxes.iter().enumerate() {
        if let Some(group) = group {
            graph.set_parent(&box_id(index), Some(&group_id(*group)));
        }
    }
    for (index, group) in parts.groups.iter().enumerate() {
        if let Some(parent) = group.parent {
            graph.set_parent(&group_id(index), Some(&group_id(parent)));
        }
    }
    for edge in &parts.edges {
        let label = EdgeLabel {
            width: edge.width + if edge.is_loop() { BOW } else { 0.0 },
            height: EDGE_LABEL.1,
            labelpos: LabelPos::Center,
            // The usual way is the straighter one.
            weight: if edge.kind.is_failure() { 1 } else { 2 },
            ..EdgeLabel::default()
        };
        graph.set_edge(box_id(edge.from), box_id(edge.to), Some(label), None);
    }
    graph
}

fn box_id(index: usize) -> String {
    format!("box {index}")
}

fn group_id(index: usize) -> String {
    format!("group {index}")
}

fn placed(parts: &Parts, graph: &Layered) -> Option<Placed> {
    let boxes = (0..parts.boxes.len()).map(|index| {
        let mut area = area(graph.node(&box_id(index))?)?;
        let above = parts.room_above(index);
        area.y += above;
        area.height -= above;
        Some(area)
    });
    let boxes: Vec<_> = boxes.collect::<Option<_>>()?;
    let groups = (0..parts.groups.len()).map(|index| area(graph.node(&group_id(index))?));
    let mut groups: Vec<_> = groups.collect::<Option<_>>()?;
    contain(parts, &boxes, &mut groups);
    let routes = parts.edges.iter().map(|edge| {
        let label = graph.edge(&box_id(edge.from), &box_id(edge.to), None)?;
        route(edge, label, &boxes[edge.from])
    });
    let mut routes: Vec<_> = routes.collect::<Option<_>>()?;
    ports::connect(parts, &boxes, &mut routes);
    Some(Placed {
        placing: Placing::Rows,
        boxes,
        groups,
        routes,
    })
}

/// Makes each group as large as what is in it: `dagre` can leave a part outside.
fn contain(parts: &Parts, boxes: &[Area], groups: &mut [Area]) {
    for (part, area) in parts.boxes.iter().zip(boxes) {
        if let Some(group) = part.group {
            groups[group] = groups[group].around(area, GROUP_ROOM);
        }
    }
    for index in (0..groups.len()).rev() {
        if let Some(parent) = parts.groups[index].parent {
            groups[parent] = groups[parent].around(&groups[index], GROUP_ROOM / 2.0);
        }
    }
}

fn area(label: &NodeLabel) -> Option<Area> {
    let (x, y) = (label.x?, label.y?);
    Some(Area {
        x: x - label.width / 2.0,
        y: y - label.height / 2.0,
        width: label.width,
        height: label.height,
    })
}

/// Returns the way of an edge. Without a loop it has only the points between the boxes.
fn route(edge: &EdgePart, label: &EdgeLabel, from: &Area) -> Option<Route> {
    if edge.is_loop() {
        let (x, y) = (from.right(), from.middle().y);
        let bow = [(0.0, -9.0), (BOW, -26.0), (BOW, 26.0), (0.0, 9.0)];
        return Some(Route {
            form: Form::Loop,
            points: bow.map(|(dx, dy)| Point::new(x + dx, y + dy)).to_vec(),
            label: Point::new(x + BOW * 0.75 + 6.0 + edge.width / 2.0, y),
        });
    }
    let inner = label.points.get(1..label.points.len().checked_sub(1)?)?;
    Some(Route {
        form: Form::Flowing,
        points: inner
            .iter()
            .map(|point| Point::new(point.x, point.y))
            .collect(),
        label: Point::new(label.x?, label.y?),
    })
}
