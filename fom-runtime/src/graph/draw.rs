//! Drawings of a graph as text. The text depends only on the graph.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Adaptive, Graph, Mode, PhaseInfo, Retry, groups::Part, json::Json, lanes::Drawing};

impl Graph {
    /// Returns a Mermaid state diagram, which GitHub and many editors show as a picture.
    #[must_use]
    pub fn mermaid(&self) -> String {
        let mut out = String::from("stateDiagram-v2\n");
        self.each_part(|part| match part {
            Part::Phase { depth, phase, name } => {
                let mut label = escape_mermaid(name);
                for note in self.notes(phase) {
                    label.push_str("<br/>");
                    label.push_str(&escape_mermaid(&note));
                }
                let id = mermaid_id(self, phase.name);
                line(&mut out, depth, format_args!("state \"{label}\" as {id}"));
            }
            Part::Open { depth, path, name } => {
                let id = mermaid_id(self, path);
                let name = escape_mermaid(name);
                line(&mut out, depth, format_args!("state \"{name}\" as {id} {{"));
            }
            Part::Close { depth } => line(&mut out, depth, format_args!("}}")),
        });
        for phase in self.phases.iter().filter(|phase| phase.start) {
            let id = mermaid_id(self, phase.name);
            line(&mut out, 0, format_args!("[*] --> {id}"));
        }
        for (from, to) in self.edges() {
            let label = match self.edge_name(from, to) {
                Some(name) => format!(": {}", escape_mermaid_edge(name)),
                None if self.is_for_failure(from, to) => format!(": {}", why(from)),
                None => String::new(),
            };
            let (from, to) = (mermaid_id(self, from.name), mermaid_id(self, to.name));
            line(&mut out, 0, format_args!("{from} --> {to}{label}"));
        }
        for phase in self.phases.iter().filter(|phase| phase.is_end()) {
            let id = mermaid_id(self, phase.name);
            line(&mut out, 0, format_args!("{id} --> [*]"));
        }
        if self.phases.iter().any(|phase| phase.failure) {
            out.push_str("    classDef failure stroke:#c00,stroke-dasharray:4\n");
            for phase in self.phases.iter().filter(|phase| phase.failure) {
                let id = mermaid_id(self, phase.name);
                line(&mut out, 0, format_args!("class {id} failure"));
            }
        }
        out
    }

    /// Returns a Graphviz digraph, for `dot -Tsvg`.
    #[must_use]
    pub fn dot(&self) -> String {
        let mut out = String::new();
        out.push_str(&format!("digraph {} {{\n", quote_dot(self.name)));
        out.push_str("    rankdir=TB;\n    node [shape=box, style=rounded];\n");
        self.each_part(|part| match part {
            Part::Phase { depth, phase, name } => {
                let mut label = escape_dot(name);
                for note in self.notes(phase) {
                    label.push_str("\\n");
                    label.push_str(&escape_dot(&note));
                }
                let mut look = String::new();
                if phase.is_end() {
                    look.push_str(", peripheries=2");
                }
                if phase.failure {
                    look.push_str(", style=\"rounded,dashed\", color=red");
                }
                let id = quote_dot(phase.name);
                line(
                    &mut out,
                    depth,
                    format_args!("{id} [label=\"{label}\"{look}];"),
                );
            }
            Part::Open { depth, path, name } => {
                let (id, name) = (quote_dot(&format!("cluster_{path}")), quote_dot(name));
                line(
                    &mut out,
                    depth,
                    format_args!("subgraph {id} {{ label={name};"),
                );
            }
            Part::Close { depth } => line(&mut out, depth, format_args!("}}")),
        });
        // No phase has an empty name, so this node is never taken for a phase.
        for phase in self.phases.iter().filter(|phase| phase.start) {
            let id = quote_dot(phase.name);
            line(&mut out, 0, format_args!("\"\" [shape=point];"));
            line(&mut out, 0, format_args!("\"\" -> {id};"));
        }
        for (from, to) in self.edges() {
            let look = match self.edge_name(from, to) {
                Some(name) => format!(" [label={}]", quote_dot(name)),
                None if self.is_for_failure(from, to) => " [style=dashed]".to_owned(),
                None => String::new(),
            };
            let (from, to) = (quote_dot(from.name), quote_dot(to.name));
            line(&mut out, 0, format_args!("{from} -> {to}{look};"));
        }
        out.push_str("}\n");
        out
    }

    /// Returns a Markdown table with one row per phase.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out =
            String::from("| phase | goes to | how | what it does |\n| --- | --- | --- | --- |\n");
        for phase in self.phases {
            let exits: Vec<_> = self
                .exits(phase)
                .map(|exit| match self.edge_name(phase, exit) {
                    Some(name) => format!("`{}` ({})", exit.name, escape_cell(name)),
                    None => format!("`{}`", exit.name),
                })
                .collect();
            let mut how = self.notes(phase);
            if phase.start {
                how.insert(0, "start".to_owned());
            }
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {} |",
                phase.name,
                exits.join(", "),
                escape_cell(&how.join("; ")),
                escape_cell(&first_paragraph(phase.docs)),
            );
        }
        out
    }

    /// Returns an XState machine definition in JSON, for statechart viewers.
    ///
    /// A phase that waits for events has its exits under `on`, any other phase under `always`. A phase with a second
    /// function for its deadline also has them under `after`. Properties without a word in XState are under `meta`.
    #[must_use]
    pub fn json(&self) -> String {
        let mut json = Json::default();
        json.open('{');
        json.pair("id", self.name);
        if !self.docs.is_empty() {
            json.pair("description", self.docs);
        }
        if let Some(start) = self.start() {
            json.pair("initial", start.name);
        }
        json.key("meta");
        json.open('{');
        json.pair("operation", self.operation);
        json.close('}');
        json.key("states");
        json.open('{');
        for phase in self.phases {
            json.key(phase.name);
            json.open('{');
            self.state_json(phase, &mut json);
            json.close('}');
        }
        json.close('}');
        json.close('}');
        json.out.push('\n');
        json.out
    }

    fn state_json(&self, phase: &PhaseInfo, json: &mut Json) {
        if !phase.docs.is_empty() {
            json.pair("description", phase.docs);
        }
        if phase.is_end() {
            json.pair("type", "final");
        }
        if phase.failure {
            json.key("tags");
            json.strings(["failure"]);
        }
        if !phase.is_end() && !phase.waits() {
            json.key("always");
            self.targets_json(phase, json);
        }
        if !phase.on.is_empty() {
            json.key("on");
            json.open('{');
            for event in phase.on {
                json.key(event);
                self.targets_json(phase, json);
            }
            json.close('}');
        }
        if let (Some(within), true) = (phase.deadline.within(), phase.deadline.is_late()) {
            json.key("after");
            json.open('{');
            // XState knows numbers, and names of delays that are defined elsewhere.
            json.key(&match phase.deadline.adaptive() {
                Some(bounds) => adaptive(bounds),
                None => milliseconds(within),
            });
            self.targets_json(phase, json);
            json.close('}');
        }
        json.key("meta");
        json.open('{');
        json.pair(
            "mode",
            match phase.mode {
                Mode::Async => "async",
                Mode::Sync => "sync",
                Mode::Blocking => "blocking",
                Mode::End => "end",
            },
        );
        if let Some(within) = within(phase) {
            json.pair("within", &within);
        }
        if phase.deadline.is_late() {
            json.key("late");
            json.raw("true");
        }
        if let Some(gate) = phase.gate {
            json.pair("gate", gate);
        }
        if !phase.exits.failed.is_empty() {
            json.key("failed");
            json.strings(self.failure_exits(phase).map(PhaseInfo::name));
        }
        if phase.hears_cancel() {
            json.key("cancelled");
            json.raw("true");
        }
        if phase.delays_cancel() {
            json.pair("cancelled", "later");
        }
        if !phase.deadline.keep.is_empty() {
            json.key("keep");
            json.strings(self.kept_in(phase).map(PhaseInfo::name));
        }
        if let Some(retry) = phase.retry {
            retry_json(retry, json);
        }
        json.close('}');
    }

    fn targets_json(&self, phase: &PhaseInfo, json: &mut Json) {
        json.open('[');
        for exit in self.exits(phase) {
            json.item();
            json.open('{');
            json.pair("target", exit.name);
            if let Some(name) = self.edge_name(phase, exit) {
                json.pair("description", name);
            }
            json.close('}');
        }
        json.close(']');
    }

    /// Returns a drawing in text, for a terminal or a `text` block in documentation.
    ///
    /// Each phase has its own line, where `<` marks the way in. The ways out begin on the line below. `o` joins the way
    /// to another phase, and lines that only cross are `┼`.
    #[must_use]
    pub fn drawing(&self) -> String {
        Drawing::of(self).print(self)
    }

    /// Returns the notes on a phase, beside its name and its exits.
    pub(super) fn notes(&self, phase: &PhaseInfo) -> Vec<String> {
        let mut notes = Vec::new();
        match phase.mode {
            Mode::Async => {}
            Mode::Sync => notes.push("sync".to_owned()),
            Mode::Blocking => notes.push("blocking".to_owned()),
            Mode::End if phase.failure => notes.push("end, failure".to_owned()),
            Mode::End => notes.push("end".to_owned()),
        }
        notes.extend(self.waits_of(phase));
        if !phase.exits.failed.is_empty() {
            let failed: Vec<_> = self.failure_exits(phase).map(PhaseInfo::name).collect();
            notes.push(format!("{}: {}", why(phase), failed.join(", ")));
        }
        if phase.delays_cancel() {
            notes.push("a cancel waits".to_owned());
        }
        notes.extend(self.times_of(phase));
        notes
    }

    /// Returns what a drawing writes below the name of a phase: its gate, the events that it takes, its deadline and
    /// its retries. Its [mode](PhaseInfo::mode) and its edges are not among them: a drawing has other signs for these.
    #[must_use]
    pub fn conditions(&self, phase: &PhaseInfo) -> Vec<String> {
        let mut conditions = self.waits_of(phase);
        conditions.extend(self.times_of(phase));
        conditions
    }

    fn waits_of(&self, phase: &PhaseInfo) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(gate) = phase.gate {
            notes.push(gate.to_owned());
        }
        if !phase.on.is_empty() {
            notes.push(format!("on {}", phase.on.join(", ")));
        }
        match (within(phase), phase.deadline.is_late()) {
            (Some(within), true) => notes.push(format!("within {within}, else late")),
            (Some(within), false) => notes.push(format!("within {within}, else it fails")),
            (None, true) => notes.push("late".to_owned()),
            (None, false) => {}
        }
        notes
    }

    fn times_of(&self, phase: &PhaseInfo) -> Vec<String> {
        let mut notes = Vec::new();
        if !phase.deadline.keep.is_empty() {
            let kept: Vec<_> = self.kept_in(phase).map(PhaseInfo::name).collect();
            notes.push(format!("its time goes on in {}", kept.join(", ")));
        }
        if let Some(retry) = phase.retry {
            let (min, max) = (duration(retry.min), duration(retry.max));
            let value = match retry.name {
                Some(name) if retry.times == 0 => asked(name),
                name => named(name, format!("{}, {min}..{max}", retry.times)),
            };
            notes.push(format!("retry {value}"));
        }
        notes
    }
}

/// Returns the id of a state. A word of Mermaid, in upper or lower case, cannot be an id. The label keeps the
/// phase's own name.
fn mermaid_id(graph: &Graph, name: &str) -> String {
    // Found by trying each word of Mermaid's grammar, and some of JavaScript's objects, in mermaid 11.
    const WORDS: &[&str] = &[
        "acctitle",
        "accdescr",
        "as",
        "class",
        "classdef",
        "click",
        "constructor",
        "default",
        "direction",
        "end",
        "hasownproperty",
        "hide",
        "href",
        "note",
        "root",
        "scale",
        "state",
        "statediagram",
        "style",
        "tostring",
        "valueof",
    ];
    let mut id = name.replace('.', "_");
    if id != name || WORDS.contains(&name.to_ascii_lowercase().as_str()) {
        while graph.find(&id).is_some() {
            id.push('_');
        }
    }
    id
}

/// Writes a line inside the braces, or below the title. `depth` is the number of groups around it.
fn line(out: &mut String, depth: usize, text: std::fmt::Arguments<'_>) {
    // A write to a `String` cannot fail.
    let _ = writeln!(out, "{:1$}{text}", "", 4 * (depth + 1));
}

/// Formats the longest stay for a drawing.
fn within(phase: &PhaseInfo) -> Option<String> {
    match phase.deadline.adaptive() {
        Some(bounds) => Some(adaptive(bounds)),
        None if phase.deadline.is_asked() => phase.deadline.name().map(asked),
        None => {
            let within = phase.deadline.within().map(duration)?;
            Some(named(phase.deadline.name(), within))
        }
    }
}

/// Formats a value that a function says.
fn asked(name: &str) -> String {
    format!("{name}()")
}

/// Formats a value for a drawing, with the name of its constant.
fn named(name: Option<&str>, value: String) -> String {
    match name {
        Some(name) => format!("{name} ({value})"),
        None => value,
    }
}

fn adaptive(bounds: Adaptive) -> String {
    let (floor, ceiling) = (duration(bounds.floor), duration(bounds.ceiling));
    format!("adaptive {floor}..{ceiling}")
}

/// Formats a duration as in the attribute: `1m30s`.
fn duration(duration: Duration) -> String {
    const UNITS: [(&str, u128); 6] = [
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let mut rest = duration.as_nanos();
    let mut out = String::new();
    for (unit, nanos) in UNITS {
        if rest >= nanos {
            let _ = write!(out, "{}{unit}", rest / nanos);
            rest %= nanos;
        }
    }
    if out.is_empty() { "0s".to_owned() } else { out }
}

/// Formats a key of XState's `after`, in milliseconds.
fn milliseconds(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let fraction = format!("{:06}", nanos % 1_000_000);
    let fraction = fraction.trim_end_matches('0');
    let dot = if fraction.is_empty() { "" } else { "." };
    format!("{}{dot}{fraction}", nanos / 1_000_000)
}

fn first_paragraph(docs: &str) -> String {
    let lines: Vec<_> = docs
        .trim()
        .lines()
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    lines.join(" ")
}

fn escape_cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn escape_mermaid(text: &str) -> String {
    text.replace('"', "#quot;")
        .replace('<', "#lt;")
        .replace('>', "#gt;")
}

/// A colon or a semicolon ends the label of an edge.
fn escape_mermaid_edge(text: &str) -> String {
    let text = text.replace('#', "#35\0").replace(';', "#59\0");
    let text = text.replace(':', "#58\0").replace('\0', ";");
    escape_mermaid(&text)
}

fn escape_dot(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn quote_dot(text: &str) -> String {
    format!("\"{}\"", escape_dot(text))
}

fn retry_json(retry: Retry, json: &mut Json) {
    json.key("retry");
    json.open('{');
    json.key("times");
    json.raw(&retry.times.to_string());
    json.pair("min", &duration(retry.min));
    json.pair("max", &duration(retry.max));
    if let Some(name) = retry.name {
        json.pair("name", name);
    }
    if retry.exhausted {
        json.key("exhausted");
        json.raw("true");
    }
    json.close('}');
}

/// Returns when the exits of the phase after a failure are taken.
fn why(phase: &PhaseInfo) -> &'static str {
    match phase.hears_cancel() {
        true => "failed or cancelled",
        false => "failed",
    }
}
