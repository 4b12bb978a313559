//! Writes a layout as SVG.

use std::fmt::Write as _;

use super::style::{self, Scheme};
use super::{
    Edge, LABEL_BASE, LINE_STEP, Layout, Node, NodeKind, PADDING, START_RADIUS, StartMark,
};
use crate::text::{escaped, number};

impl Layout {
    /// Returns the drawing as an SVG document, in the colours of the reader's scheme.
    ///
    /// The document contains no script and refers to nothing outside itself. Several of them can be in one page. Each
    /// phase is a `g` with `data-phase`, each edge a `path` with `data-from` and `data-to`.
    #[must_use]
    pub fn svg(&self) -> String {
        self.svg_in(Scheme::Reader)
    }

    /// Returns the drawing as an SVG document in these colours.
    #[must_use]
    pub fn svg_in(&self, scheme: Scheme) -> String {
        let mut out = String::new();
        let ids = Ids::of(self);
        let (width, height) = (number(self.width), number(self.height));
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fom-graph\" role=\"img\" width=\"{width}\" \
             height=\"{height}\" viewBox=\"0 0 {width} {height}\">"
        );
        let (name, operation) = (escaped(self.name), escaped(self.operation));
        let _ = writeln!(out, "<title>{name}, the phases of {operation}</title>");
        let _ = writeln!(out, "<desc>{}</desc>", escaped(&self.sentence()));
        let _ = writeln!(out, "<style>{}</style>", style::sheet(scheme));
        ids.markers(&mut out);
        let _ = writeln!(
            out,
            "<rect class=\"fom-back\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"12\"/>",
            number(self.width - 1.0),
            number(self.height - 1.0)
        );
        self.groups(&mut out);
        for edge in &self.edges {
            ids.edge(edge, &mut out);
        }
        if let Some(start) = &self.start {
            ids.start(start, &mut out);
        }
        for node in &self.nodes {
            write_node(node, &mut out);
        }
        for edge in &self.edges {
            write_label(edge, &mut out);
        }
        out.push_str("</svg>\n");
        out
    }

    /// Returns the graph as a sentence, for readers that do not see it.
    fn sentence(&self) -> String {
        let ways = self.nodes.iter().map(|node| {
            let exits = self.edges.iter().filter(|edge| edge.from == node.name);
            let exits: Vec<_> = exits.map(|edge| edge.to).collect();
            match node.kind {
                NodeKind::End => format!("{} is an end.", node.name),
                NodeKind::FailureEnd => format!("{} is an end, a failure.", node.name),
                _ => format!("{} leads to {}.", node.name, exits.join(", ")),
            }
        });
        ways.collect::<Vec<_>>().join(" ")
    }

    fn groups(&self, out: &mut String) {
        for group in &self.groups {
            let _ = writeln!(
                out,
                "<g class=\"fom-group\" data-group=\"{}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"10\"/>\
                 <text x=\"{}\" y=\"{}\">{}</text></g>",
                escaped(group.path),
                number(group.x),
                number(group.y),
                number(group.width),
                number(group.height),
                number(group.x + 11.0),
                number(group.y + 18.0),
                escaped(group.label)
            );
        }
    }
}

/// The ids of the markers. They differ between machines: a page that hides one drawing must not hide another's arrows.
struct Ids {
    prefix: String,
}

impl Ids {
    fn of(layout: &Layout) -> Self {
        let name = format!("fom-{}-{}", layout.operation, layout.name);
        let letter = |letter: char| match letter {
            letter if letter.is_ascii_alphanumeric() => letter,
            _ => '-',
        };
        Self {
            prefix: name.chars().map(letter).collect(),
        }
    }

    fn markers(&self, out: &mut String) {
        let prefix = &self.prefix;
        let marker = |id: &str, x: &str, content: &str| {
            format!(
                "<marker id=\"{prefix}-{id}\" viewBox=\"0 0 10 10\" refX=\"{x}\" refY=\"5\" markerWidth=\"10\" \
                 markerHeight=\"10\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">{content}</marker>"
            )
        };
        let arrow = "M0 1L9.5 5L0 9L2 5z";
        let _ = writeln!(
            out,
            "<defs>{}{}{}{}</defs>",
            marker(
                "arrow",
                "9.5",
                &format!("<path class=\"fom-arrow\" d=\"{arrow}\"/>")
            ),
            marker(
                "begin",
                "9.5",
                &format!("<path class=\"fom-start\" d=\"{arrow}\"/>")
            ),
            marker("open", "9", "<path class=\"fom-open\" d=\"M1 1L9 5L1 9\"/>"),
            marker(
                "late",
                "1",
                "<circle class=\"fom-late\" cx=\"5\" cy=\"5\" r=\"3\"/>"
            ),
        );
    }

    fn start(&self, start: &StartMark, out: &mut String) {
        let _ = writeln!(
            out,
            "<circle class=\"fom-start\" cx=\"{}\" cy=\"{}\" r=\"{START_RADIUS}\"/>\
             <path class=\"fom-begin\" d=\"{}\" marker-end=\"url(#{}-begin)\"/>",
            number(start.x),
            number(start.y),
            start.path,
            self.prefix
        );
    }

    fn edge(&self, edge: &Edge, out: &mut String) {
        let prefix = &self.prefix;
        let (class, arrow) = match edge.kind.is_failure() {
            true => ("fom-edge fom-failed", "open"),
            false => ("fom-edge", "arrow"),
        };
        let late = match edge.late {
            true => format!(" marker-start=\"url(#{prefix}-late)\""),
            false => String::new(),
        };
        let mut title = format!("{} to {}", edge.from, edge.to);
        if let Some(label) = edge.kind.text(edge.name) {
            let _ = write!(title, ": {label}");
        }
        if edge.late {
            title.push_str(", also when late");
        }
        let _ = writeln!(
            out,
            "<path class=\"{class}\" data-from=\"{}\" data-to=\"{}\" d=\"{}\" marker-end=\"url(#{prefix}-{arrow})\"{late}>\
             <title>{}</title></path>",
            escaped(edge.from),
            escaped(edge.to),
            edge.path,
            escaped(&title)
        );
    }
}

fn write_node(node: &Node, out: &mut String) {
    let class = match node.kind {
        NodeKind::End => "fom-node fom-end",
        NodeKind::FailureEnd => "fom-node fom-end fom-bad",
        _ => "fom-node",
    };
    let _ = write!(
        out,
        "<g class=\"{class}\" data-phase=\"{}\">",
        escaped(node.name)
    );
    let title = match node.docs.is_empty() {
        true => node.name.to_owned(),
        false => format!("{}: {}", node.name, node.docs),
    };
    let _ = write!(out, "<title>{}</title>", escaped(&title));
    let is_end = class != "fom-node";
    write_box(node, "fom-outer", 0.0, out);
    if is_end {
        write_box(node, "fom-inner", 3.5, out);
    }
    // The room for a line is empty here, so a label without lines is in the middle.
    let down = if node.lines.is_empty() { 8.0 } else { 0.0 };
    let (x, end) = (number(node.x + PADDING), node.count.x);
    let base = node.y + LABEL_BASE + down;
    let _ = write!(
        out,
        "<text class=\"fom-label\" x=\"{x}\" y=\"{}\">{}</text>",
        number(base),
        escaped(&node.label)
    );
    let mode = match node.kind {
        NodeKind::Sync => "sync",
        NodeKind::Blocking => "blocking",
        NodeKind::End => "end",
        _ => "",
    };
    if !mode.is_empty() {
        let (end, base) = (number(end), number(base));
        let _ = write!(
            out,
            "<text class=\"fom-mode\" x=\"{end}\" y=\"{base}\">{mode}</text>"
        );
    }
    if node.kind == NodeKind::FailureEnd {
        let (x, y) = (number(end - 9.0), number(base - 9.0));
        let _ = write!(
            out,
            "<path class=\"fom-cross\" d=\"M{x} {y}l8 8m0 -8l-8 8\"/>"
        );
    }
    for (index, line) in node.lines.iter().enumerate() {
        let y = number(node.y + LABEL_BASE + 3.0 + LINE_STEP * (index as f64 + 1.0));
        let _ = write!(
            out,
            "<text class=\"fom-line\" x=\"{x}\" y=\"{y}\">{}</text>",
            escaped(line)
        );
    }
    out.push_str("</g>\n");
}

fn write_box(node: &Node, class: &str, inset: f64, out: &mut String) {
    let _ = write!(
        out,
        "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\"/>",
        number(node.x + inset),
        number(node.y + inset),
        number(node.width - 2.0 * inset),
        number(node.height - 2.0 * inset),
        number(9.0 - inset)
    );
}

fn write_label(edge: &Edge, out: &mut String) {
    let Some(label) = edge.kind.text(edge.name) else {
        return;
    };
    let class = match edge.kind.is_failure() {
        true => "fom-on-edge fom-why",
        false => "fom-on-edge",
    };
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>",
        number(edge.label.x),
        number(edge.label.y + 3.8),
        escaped(label)
    );
}
