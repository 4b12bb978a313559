//! A layout: where each part of the drawing of a machine is, as plain data.

mod style;
mod svg;

use serde::Serialize;

pub use style::Scheme;

/// The size of the letters of a label, in pixels.
pub(crate) const LABEL: f64 = 13.5;
/// The size of the letters of a line below a label, and of the label of an edge.
pub(crate) const LINE: f64 = 11.0;
/// The distance between two lines.
pub(crate) const LINE_STEP: f64 = 15.0;
/// The room between the border of a box and its text.
pub(crate) const PADDING: f64 = 12.0;
/// The base line of a label below the upper edge of its box.
pub(crate) const LABEL_BASE: f64 = 22.0;
/// The radius of the start mark.
pub(crate) const START_RADIUS: f64 = 6.0;

/// Where the phases and the edges of a machine are in its drawing.
///
/// All lengths are in pixels of a drawing at its natural size, rounded to a tenth. The origin is the upper left corner,
/// and `y` grows downwards. The same graph has the same layout, in each run of each program.
///
/// The field names of the serialized form are part of the API.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Layout {
    /// The name of the enum of phases.
    pub name: &'static str,
    /// The name of the operation's type.
    pub operation: &'static str,
    /// How the parts were placed.
    pub placing: Placing,
    /// The width of the drawing, with its margin.
    pub width: f64,
    /// The height of the drawing, with its margin.
    pub height: f64,
    /// The mark of the start. Its `path` leads to the start phase. `None` if the graph has no start.
    pub start: Option<StartMark>,
    /// The layers, outer ones before the ones in them.
    pub groups: Vec<Group>,
    /// The phases. The index of a phase is its index in the graph.
    pub nodes: Vec<Node>,
    /// The edges, in the order of their declaration.
    pub edges: Vec<Edge>,
}

/// How the parts of a drawing were placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Placing {
    /// In rows: each phase is below the phases that lead to it, except for ways back.
    Rows,
    /// In one column, in the order of the declaration. Graphs that are too large for rows get this, and graphs on which
    /// the placing in rows fails.
    Column,
}

/// The dot that marks the start of a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StartMark {
    /// The centre of the dot.
    pub x: f64,
    /// The centre of the dot.
    pub y: f64,
    /// The arrow from the dot to the start phase, as the `d` of an SVG path.
    pub path: String,
}

/// A layer: the phases of what is inside, in a box.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// The common prefix of the names of its phases.
    pub path: &'static str,
    /// The last part of `path`, to write at the top of the box.
    pub label: &'static str,
    /// The left edge of the box.
    pub x: f64,
    /// The upper edge of the box.
    pub y: f64,
    /// The width of the box.
    pub width: f64,
    /// The height of the box.
    pub height: f64,
}

/// A phase, drawn as a box.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Node {
    /// The name of the phase.
    pub name: &'static str,
    /// The name without the layers, to write in the box. A long one is cut.
    pub label: String,
    /// The form of the box.
    pub kind: NodeKind,
    /// Lines to write below the label: gate, events, deadline, retries. There is room for one line in any case.
    pub lines: Vec<String>,
    /// The first paragraph of the doc comment.
    pub docs: String,
    /// The left edge of the box.
    pub x: f64,
    /// The upper edge of the box.
    pub y: f64,
    /// The width of the box.
    pub width: f64,
    /// The height of the box.
    pub height: f64,
    /// Where a count of foms ends, on the base line of the label. To its left is room for eight digits.
    pub count: Point,
}

/// The form of a phase in a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NodeKind {
    /// A phase with an `async fn`.
    Async,
    /// A phase with a plain `fn` that does not wait.
    Sync,
    /// A phase with a plain `fn` that may block.
    Blocking,
    /// An end.
    End,
    /// An end that is a failure.
    FailureEnd,
}

/// A declared edge from one phase to another, or back to the same one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Edge {
    /// The name of the phase that a fom leaves.
    pub from: &'static str,
    /// The name of the phase that a fom enters.
    pub to: &'static str,
    /// When foms take the edge.
    pub kind: EdgeKind,
    /// Whether the function for a missed deadline can take the edge, too.
    pub late: bool,
    /// The name of the edge: `to(Ring = "found")`.
    pub name: Option<&'static str>,
    /// The points of the edge, from the border of one box to the border of the other.
    pub points: Vec<Point>,
    /// A curve through the points, as the `d` of an SVG path.
    pub path: String,
    /// The middle of the room for a label. It is as wide as the name, and at least as a rate such as `98.4/s`.
    pub label: Point,
}

/// When foms take an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EdgeKind {
    /// The function of the phase returns the edge: `to(..)`.
    Plain,
    /// Only after a failure of the phase: `failed(..)`.
    Failed,
    /// Only after a failure or a cancel: `failed(..), cancelled`.
    FailedOrCancelled,
}

impl EdgeKind {
    /// Whether foms take the edge only after a failure or a cancel.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Plain)
    }

    /// Returns the text on an edge with this name.
    pub(crate) fn text(self, name: Option<&'static str>) -> Option<&'static str> {
        name.or(match self {
            Self::Plain => None,
            Self::Failed => Some("failed"),
            Self::FailedOrCancelled => Some("failed or cancelled"),
        })
    }
}

/// A point of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Point {
    /// The distance from the left edge.
    pub x: f64,
    /// The distance from the upper edge.
    pub y: f64,
}

impl Point {
    pub(crate) const fn new(x: f64, y: f64) -> Self {
        Self { x, y }
    }
}
