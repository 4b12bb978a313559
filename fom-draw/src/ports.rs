//! Where edges meet the boxes: each edge has its own place on the upper or lower side of a box.

use crate::layout::Point;
use crate::parts::Parts;
use crate::placed::{Area, Form, Route};

/// The least distance of a place from the corner of a box.
const CORNER: f64 = 18.0;
/// The usual distance between two places.
const APART: f64 = 18.0;

/// One end of an edge.
struct End {
    edge: usize,
    is_source: bool,
    at: usize,
    is_below: bool,
    /// The points that the edge passes, the nearest first, as far as they decide the order.
    x: f64,
    next: f64,
}

/// Adds the two ends to each way between boxes, and keeps the ways vertical beside the boxes of a row.
pub(crate) fn connect(parts: &Parts, boxes: &[Area], routes: &mut [Route]) {
    let mut ends = ends(parts, boxes, routes);
    ends.sort_by(|a, b| {
        let key = |end: &End| (end.at, end.is_below);
        let by_box = key(a).cmp(&key(b));
        let by_place = a.x.total_cmp(&b.x).then(a.next.total_cmp(&b.next));
        by_box.then(by_place).then(a.edge.cmp(&b.edge))
    });
    for route in routes.iter_mut().filter(|route| is_flowing(route)) {
        route.points = beside_rows(&route.points, boxes);
    }
    for side in ends.chunk_by(|a, b| a.at == b.at && a.is_below == b.is_below) {
        let area = &boxes[side[0].at];
        let wanted: Vec<_> = side.iter().map(|end| end.x).collect();
        for (end, x) in side.iter().zip(spread(&wanted, area)) {
            let y = if end.is_below { area.bottom() } else { area.y };
            let points = &mut routes[end.edge].points;
            let place = if end.is_source { 0 } else { points.len() };
            points.insert(place, Point::new(x, y));
        }
    }
}

fn is_flowing(route: &Route) -> bool {
    matches!(route.form, Form::Flowing)
}

fn ends(parts: &Parts, boxes: &[Area], routes: &[Route]) -> Vec<End> {
    let mut ends = Vec::new();
    for (edge, (part, route)) in parts.edges.iter().zip(routes).enumerate() {
        if !is_flowing(route) {
            continue;
        }
        for is_source in [true, false] {
            let (at, other) = match is_source {
                true => (part.from, part.to),
                false => (part.to, part.from),
            };
            let mut points = route.points.clone();
            if !is_source {
                points.reverse();
            }
            points.push(boxes[other].middle());
            ends.push(End {
                edge,
                is_source,
                at,
                is_below: points[0].y > boxes[at].middle().y,
                x: points[0].x,
                next: points[points.len().min(2) - 1].x,
            });
        }
    }
    ends
}

/// Returns places on a side of `area`: near the wanted ones, in the same order, apart from each other.
fn spread(wanted: &[f64], area: &Area) -> Vec<f64> {
    let (left, right) = (area.x + CORNER, area.right() - CORNER);
    let between = wanted.len().saturating_sub(1).max(1) as f64;
    let apart = APART.min((right - left) / between);
    let mut places: Vec<f64> = wanted.iter().map(|x| x.clamp(left, right)).collect();
    for index in 1..places.len() {
        places[index] = places[index].max(places[index - 1] + apart);
    }
    let mut most = right;
    for place in places.iter_mut().rev() {
        *place = place.min(most);
        most = *place - apart;
    }
    places
}

/// Returns the points, with two in place of each one in a row of boxes: at the upper and at the lower edge of the row.
fn beside_rows(points: &[Point], boxes: &[Area]) -> Vec<Point> {
    let mut out = Vec::with_capacity(points.len());
    for point in points {
        let beside = boxes
            .iter()
            .filter(|area| area.y < point.y && point.y < area.bottom());
        let row = beside.fold(None, |row: Option<(f64, f64)>, area| {
            let (top, bottom) = row.unwrap_or((area.y, area.bottom()));
            Some((top.min(area.y), bottom.max(area.bottom())))
        });
        match row {
            None => out.push(*point),
            Some((top, bottom)) => {
                let mut ys = [top, bottom];
                // The order of the way, which can lead up.
                if points[0].y > points[points.len() - 1].y {
                    ys.reverse();
                }
                out.extend(ys.map(|y| Point::new(point.x, y)));
            }
        }
    }
    out
}
