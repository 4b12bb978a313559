//! The curves of edges, as SVG paths.

use std::fmt::Write as _;

use crate::layout::Point;
use crate::text::number;

/// Returns a smooth way through these points that is vertical in each of them.
pub(crate) fn flowing(points: &[Point]) -> String {
    let mut path = begin(points);
    let is_straight = |from: Point, to: Point| (from.x - to.x).abs() < 0.05;
    for (index, pair) in points.windows(2).enumerate() {
        let (from, to) = (pair[0], pair[1]);
        if is_straight(from, to) {
            // One line for all points in a column.
            if !points
                .get(index + 2)
                .is_some_and(|next| is_straight(to, *next))
            {
                let _ = write!(path, "V{}", number(to.y));
            }
            continue;
        }
        let middle = (from.y + to.y) / 2.0;
        cubic(
            &mut path,
            Point::new(from.x, middle),
            Point::new(to.x, middle),
            to,
        );
    }
    path
}

/// Returns a way from the first point to the last, with the two points between as the handles of the curve.
pub(crate) fn bow(points: [Point; 4]) -> String {
    let mut path = begin(&points);
    cubic(&mut path, points[1], points[2], points[3]);
    path
}

/// Returns straight lines between these points, with round corners. Each line is horizontal or vertical.
pub(crate) fn cornered(points: &[Point]) -> String {
    const RADIUS: f64 = 8.0;
    let mut path = begin(points);
    for trio in points.windows(3) {
        let (before, corner, after) = (trio[0], trio[1], trio[2]);
        let (into, out) = (
            toward(corner, before, RADIUS),
            toward(corner, after, RADIUS),
        );
        let _ = write!(
            path,
            "L{} {}Q{} {} {} {}",
            number(into.x),
            number(into.y),
            number(corner.x),
            number(corner.y),
            number(out.x),
            number(out.y)
        );
    }
    if let Some(last) = points.last() {
        let _ = write!(path, "L{} {}", number(last.x), number(last.y));
    }
    path
}

/// Returns the point at this distance from `from` on the way to `to`, and at most half way.
fn toward(from: Point, to: Point, distance: f64) -> Point {
    let (x, y) = (to.x - from.x, to.y - from.y);
    let length = x.hypot(y).max(0.001);
    let part = (distance / length).min(0.5);
    Point::new(from.x + x * part, from.y + y * part)
}

fn begin(points: &[Point]) -> String {
    points.first().map_or_else(String::new, |first| {
        format!("M{} {}", number(first.x), number(first.y))
    })
}

fn cubic(path: &mut String, first: Point, second: Point, to: Point) {
    let _ = write!(
        path,
        "C{} {} {} {} {} {}",
        number(first.x),
        number(first.y),
        number(second.x),
        number(second.y),
        number(to.x),
        number(to.y)
    );
}
