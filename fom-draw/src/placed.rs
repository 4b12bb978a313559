//! Parts with their places, and the layout that they make.

use fom_runtime::machine::Graph;

use crate::curve;
use crate::layout::{
    Edge, Group, LABEL_BASE, Layout, Node, PADDING, Placing, Point, START_RADIUS, StartMark,
};
use crate::parts::Parts;
use crate::text::tenth;

/// The room around a drawing.
const MARGIN: f64 = 16.0;
/// The distance of the centre of the start mark from its box.
const START_ABOVE: f64 = 28.0;

/// The place of each part, in the order of the parts.
pub(crate) struct Placed {
    pub(crate) placing: Placing,
    pub(crate) boxes: Vec<Area>,
    pub(crate) groups: Vec<Area>,
    pub(crate) routes: Vec<Route>,
}

/// A rectangle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Area {
    pub(crate) fn right(&self) -> f64 {
        self.x + self.width
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.y + self.height
    }

    pub(crate) fn middle(&self) -> Point {
        Point::new(self.x + self.width / 2.0, self.y + self.height / 2.0)
    }

    /// Returns an area that also contains `inner`, with this room around it.
    pub(crate) fn around(&self, inner: &Self, room: f64) -> Self {
        let (x, y) = (self.x.min(inner.x - room), self.y.min(inner.y - room));
        Self {
            x,
            y,
            width: self.right().max(inner.right() + room) - x,
            height: self.bottom().max(inner.bottom() + room) - y,
        }
    }

    fn is_finite(&self) -> bool {
        let Self {
            x,
            y,
            width,
            height,
        } = self;
        [x, y, width, height].iter().all(|value| value.is_finite())
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.x < other.right()
            && other.x < self.right()
            && self.y < other.bottom()
            && other.y < self.bottom()
    }
}

/// The way of an edge.
pub(crate) struct Route {
    pub(crate) form: Form,
    pub(crate) points: Vec<Point>,
    pub(crate) label: Point,
}

/// The form of a way between its points.
pub(crate) enum Form {
    Flowing,
    /// From a box back to the same box. There are four points.
    Loop,
    Cornered,
}

impl Placed {
    /// Returns whether each part has a place, and no box lies on another one or on a group that it is not in.
    pub(crate) fn is_sound(&self, parts: &Parts) -> bool {
        let complete = self.boxes.len() == parts.boxes.len()
            && self.groups.len() == parts.groups.len()
            && self.routes.len() == parts.edges.len();
        let mut areas = self.boxes.iter().chain(&self.groups);
        let mut points = self
            .routes
            .iter()
            .flat_map(|route| route.points.iter().chain([&route.label]));
        let boxes = self.boxes.iter().enumerate();
        complete
            && areas.all(Area::is_finite)
            && points.all(|point| point.x.is_finite() && point.y.is_finite())
            && self.routes.iter().all(|route| route.points.len() >= 2)
            && !boxes
                .clone()
                .any(|(index, area)| self.boxes[..index].iter().any(|other| area.overlaps(other)))
            && !boxes.clone().any(|(index, area)| {
                let mut groups = self.groups.iter().enumerate();
                groups.any(|(group, around)| !parts.is_in(index, group) && area.overlaps(around))
            })
    }

    /// Returns the layout: moved into the upper left corner, and rounded.
    pub(crate) fn layout(mut self, graph: &Graph, parts: Parts) -> Layout {
        let (width, height) = self.moved_into_corner(&parts);
        let start = parts.start.map(|index| start_mark(&self.boxes[index]));
        let groups = parts.groups.iter().zip(&self.groups);
        let names: Vec<_> = parts.boxes.iter().map(|part| part.name).collect();
        let edges = parts.edges.iter().zip(self.routes).map(|(edge, route)| {
            let Route {
                form,
                points,
                label,
            } = route;
            let path = match (form, &*points) {
                (Form::Loop, &[a, b, c, d]) => curve::bow([a, b, c, d]),
                (Form::Cornered, points) => curve::cornered(points),
                (_, points) => curve::flowing(points),
            };
            Edge {
                from: names[edge.from],
                to: names[edge.to],
                kind: edge.kind,
                late: edge.late,
                name: edge.name,
                points: points.into_iter().map(rounded).collect(),
                path,
                label: rounded(label),
            }
        });
        let edges = edges.collect();
        let groups = groups.map(|(part, area)| Group {
            path: part.path,
            label: part.label,
            x: tenth(area.x),
            y: tenth(area.y),
            width: tenth(area.width),
            height: tenth(area.height),
        });
        Layout {
            name: graph.name(),
            operation: graph.operation(),
            placing: self.placing,
            width: tenth(width),
            height: tenth(height),
            start,
            groups: groups.collect(),
            nodes: nodes(parts.boxes, &self.boxes),
            edges,
        }
    }

    /// Moves everything into the upper left corner. Returns the width and the height of the drawing.
    fn moved_into_corner(&mut self, parts: &Parts) -> (f64, f64) {
        let mut bounds: Option<Bounds> = None;
        let mut add = |left: f64, top: f64, right: f64, bottom: f64| {
            let new = Bounds {
                left,
                top,
                right,
                bottom,
            };
            bounds = Some(bounds.map_or(new, |old| old.with(new)));
        };
        for (index, area) in self.boxes.iter().enumerate() {
            let above = parts.room_above(index);
            add(area.x, area.y - above, area.right(), area.bottom());
        }
        for area in &self.groups {
            add(area.x, area.y, area.right(), area.bottom());
        }
        for (edge, route) in parts.edges.iter().zip(&self.routes) {
            for point in &route.points {
                add(point.x, point.y, point.x, point.y);
            }
            let (label, half) = (route.label, edge.width / 2.0);
            add(label.x - half, label.y - 8.0, label.x + half, label.y + 8.0);
        }
        let Some(bounds) = bounds else {
            return (2.0 * MARGIN, 2.0 * MARGIN);
        };
        let (x, y) = (MARGIN - bounds.left, MARGIN - bounds.top);
        for area in self.boxes.iter_mut().chain(&mut self.groups) {
            area.x += x;
            area.y += y;
        }
        for route in &mut self.routes {
            for point in route.points.iter_mut().chain([&mut route.label]) {
                point.x += x;
                point.y += y;
            }
        }
        (
            bounds.right - bounds.left + 2.0 * MARGIN,
            bounds.bottom - bounds.top + 2.0 * MARGIN,
        )
    }
}

#[derive(Clone, Copy)]
struct Bounds {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Bounds {
    fn with(self, other: Self) -> Self {
        Self {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }
}

fn start_mark(area: &Area) -> StartMark {
    let x = area.middle().x;
    let mark = Point::new(x, area.y - START_ABOVE);
    let path = [Point::new(x, mark.y + START_RADIUS), Point::new(x, area.y)];
    StartMark {
        x: tenth(mark.x),
        y: tenth(mark.y),
        path: curve::flowing(&path),
    }
}

fn nodes(parts: Vec<crate::parts::Part>, areas: &[Area]) -> Vec<Node> {
    let both = parts.into_iter().zip(areas);
    let nodes = both.map(|(part, area)| Node {
        name: part.name,
        label: part.label,
        kind: part.kind,
        lines: part.lines,
        docs: part.docs,
        x: tenth(area.x),
        y: tenth(area.y),
        width: tenth(area.width),
        height: tenth(area.height),
        count: rounded(Point::new(area.right() - PADDING, area.y + LABEL_BASE)),
    });
    nodes.collect()
}

fn rounded(point: Point) -> Point {
    Point::new(tenth(point.x), tenth(point.y))
}
