//! Places the parts in one column, in the order of the declaration. It does so for every graph.

use crate::layout::{Placing, Point};
use crate::parts::{EDGE_LABEL, EdgePart, Parts};
use crate::placed::{Area, Form, Placed, Route};

/// The distance between two boxes.
const GAP: f64 = 34.0;
/// The room between a group and what is in it: at the top for its label, and on the other sides.
const GROUP_TOP: f64 = 30.0;
const GROUP_SIDE: f64 = 14.0;
/// The distance between two lanes, and of the first lane from the boxes.
const LANE: f64 = 16.0;
const FIRST_LANE: f64 = 26.0;

/// Places the parts.
pub(crate) fn place(parts: &Parts) -> Placed {
    let boxes = boxes(parts);
    let groups = groups(parts, &boxes);
    let all = boxes.iter().chain(&groups);
    let (left, right) = all.fold((0.0, 0.0), |(left, right): (f64, f64), area| {
        (left.min(area.x), right.max(area.right()))
    });
    let routes = routes(parts, &boxes, left, right);
    Placed {
        placing: Placing::Column,
        boxes,
        groups,
        routes,
    }
}

fn boxes(parts: &Parts) -> Vec<Area> {
    let widest = parts
        .boxes
        .iter()
        .map(|part| part.width)
        .fold(0.0, f64::max);
    let mut y = 0.0;
    let mut boxes = Vec::with_capacity(parts.boxes.len());
    for (index, part) in parts.boxes.iter().enumerate() {
        let groups = 0..parts.groups.len();
        let starts = |group: &usize| {
            parts.is_in(index, *group) && (index == 0 || !parts.is_in(index - 1, *group))
        };
        let ends = |group: &usize| {
            index > 0 && !parts.is_in(index, *group) && parts.is_in(index - 1, *group)
        };
        y += groups.clone().filter(starts).count() as f64 * GROUP_TOP;
        y += groups.filter(ends).count() as f64 * GROUP_SIDE;
        y += parts.room_above(index);
        boxes.push(Area {
            x: (widest - part.width) / 2.0,
            y,
            width: part.width,
            height: part.height,
        });
        y += part.height + GAP;
    }
    boxes
}

/// Returns the area of each group: around its boxes and the groups in it.
fn groups(parts: &Parts, boxes: &[Area]) -> Vec<Area> {
    let groups = (0..parts.groups.len()).map(|group| {
        let inside = boxes.iter().enumerate();
        let inside = inside.filter(|(index, _)| parts.is_in(*index, group));
        let bounds = inside.fold(None, |bounds: Option<[f64; 4]>, (index, area)| {
            let depth = depth(parts, index, group);
            let above = depth * GROUP_TOP + parts.room_above(index);
            let side = depth * GROUP_SIDE;
            let new = [
                area.x - side,
                area.y - above,
                area.right() + side,
                area.bottom() + side,
            ];
            Some(bounds.map_or(new, |old| {
                [
                    old[0].min(new[0]),
                    old[1].min(new[1]),
                    old[2].max(new[2]),
                    old[3].max(new[3]),
                ]
            }))
        });
        let [left, top, right, bottom] = bounds.unwrap_or_default();
        Area {
            x: left,
            y: top,
            width: right - left,
            height: bottom - top,
        }
    });
    groups.collect()
}

/// Returns the number of groups around a box, up to and with this one.
fn depth(parts: &Parts, index: usize, group: usize) -> f64 {
    let mut depth = 0.0;
    let mut at = parts.boxes[index].group;
    while let Some(inner) = at {
        depth += 1.0;
        if inner == group {
            break;
        }
        at = parts.groups[inner].parent;
    }
    depth
}

/// Returns the ways: down on the right, up on the left, each in its own lane where it would meet another one.
fn routes(parts: &Parts, boxes: &[Area], left: f64, right: f64) -> Vec<Route> {
    let mut order: Vec<usize> = (0..parts.edges.len()).collect();
    let span = |edge: &EdgePart| edge.from.abs_diff(edge.to);
    order.sort_by_key(|&index| (span(&parts.edges[index]), index));
    let mut lanes = [Lanes::default(), Lanes::default()];
    let mut ports = Ports::of(parts, boxes);
    let mut labels = Labels::default();
    let mut routes: Vec<Option<Route>> = parts.edges.iter().map(|_| None).collect();
    for index in order {
        let edge = &parts.edges[index];
        let (from, to) = (&boxes[edge.from], &boxes[edge.to]);
        let is_up = edge.to < edge.from;
        let (start, end) = (ports.next(edge.from, is_up), ports.next(edge.to, is_up));
        let lane = lanes[usize::from(is_up)].take(start.min(end), start.max(end));
        let away = FIRST_LANE + lane as f64 * LANE;
        let (x, from_x, to_x) = match is_up {
            true => (left - away, from.x, to.x),
            false => (right + away, from.right(), to.right()),
        };
        let out = if is_up { -1.0 } else { 1.0 };
        let beside = x + out * (edge.width / 2.0 - 10.0);
        routes[index] = Some(Route {
            form: Form::Cornered,
            points: vec![
                Point::new(from_x, start),
                Point::new(x, start),
                Point::new(x, end),
                Point::new(to_x, end),
            ],
            label: labels.take(beside, edge.width, start.min(end), start.max(end)),
        });
    }
    routes.into_iter().flatten().collect()
}

/// The labels that have a place.
#[derive(Default)]
struct Labels {
    taken: Vec<Area>,
}

impl Labels {
    /// Takes a place between these heights, if possible one without another label.
    fn take(&mut self, x: f64, width: f64, top: f64, bottom: f64) -> Point {
        let (_, height) = EDGE_LABEL;
        let at = |part: f64| Area {
            x: x - width / 2.0,
            y: top + (bottom - top) * part - height / 2.0,
            width,
            height,
        };
        let parts = [0.5, 0.35, 0.65, 0.2, 0.8, 0.1, 0.9];
        let is_free = |area: &Area| !self.taken.iter().any(|other| area.overlaps(other));
        let place = parts.map(at).into_iter().find(is_free);
        let place = place.unwrap_or_else(|| at(0.5));
        self.taken.push(place);
        place.middle()
    }
}

/// The places at which edges meet the sides of the boxes.
struct Ports {
    /// For each box and side: the next place, and the distance between two.
    sides: Vec<[(f64, f64); 2]>,
}

impl Ports {
    fn of(parts: &Parts, boxes: &[Area]) -> Self {
        let mut counts = vec![[0.0; 2]; boxes.len()];
        for edge in &parts.edges {
            let side = usize::from(edge.to < edge.from);
            counts[edge.from][side] += 1.0;
            counts[edge.to][side] += 1.0;
        }
        let sides = counts.iter().zip(boxes).map(|(counts, area)| {
            counts.map(|count: f64| {
                let step = area.height / (count + 1.0);
                (area.y + step, step)
            })
        });
        Self {
            sides: sides.collect(),
        }
    }

    fn next(&mut self, index: usize, is_left: bool) -> f64 {
        let (next, step) = &mut self.sides[index][usize::from(is_left)];
        let place = *next;
        *next += *step;
        place
    }
}

/// The lanes on one side, each with the parts of it that are taken.
#[derive(Default)]
struct Lanes {
    taken: Vec<Vec<(f64, f64)>>,
}

impl Lanes {
    /// Takes the first lane that is free from `top` to `bottom`. Returns its index.
    fn take(&mut self, top: f64, bottom: f64) -> usize {
        let is_free = |lane: &Vec<(f64, f64)>| {
            lane.iter()
                .all(|(from, to)| bottom + 4.0 < *from || *to + 4.0 < top)
        };
        let lane = self.taken.iter().position(is_free);
        let lane = lane.unwrap_or(self.taken.len());
        if lane == self.taken.len() {
            self.taken.push(Vec::new());
        }
        self.taken[lane].push((top, bottom));
        lane
    }
}
