//! What happened in a run: its transitions, in their order.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fom_runtime::observe::Transition;
use serde_json::{Value, json};

/// Something that happened on a node.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Event {
    at: Duration,
    node: String,
    what: What,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum What {
    Transition {
        locality: usize,
        /// The operation type and the id.
        fom: String,
        from: Option<&'static str>,
        /// `None` if the fom failed.
        to: Option<&'static str>,
        /// Why, if not because the function of the phase returned.
        cause: String,
        ends: bool,
    },
    Fault(String),
}

impl Event {
    pub(crate) fn of(at: Duration, node: &str, transition: &Transition<'_>) -> Self {
        Self {
            at,
            node: node.to_owned(),
            what: What::Transition {
                locality: transition.locality(),
                fom: format!("{} {}", transition.operation_type(), transition.id()),
                from: transition.from(),
                to: transition.to(),
                cause: transition.error().unwrap_or_default().to_owned(),
                ends: transition.ends() || transition.to().is_none(),
            },
        }
    }

    pub(crate) fn fault(at: Duration, node: &str, text: String) -> Self {
        Self {
            at,
            node: node.to_owned(),
            what: What::Fault(text),
        }
    }

    /// Returns the name in the diagram of the fom, or of the node.
    fn participant(&self) -> String {
        let name = match &self.what {
            What::Transition { fom, .. } => format!("{} {fom}", self.node),
            What::Fault(_) => self.node.clone(),
        };
        name.replace(' ', "_")
    }
}

/// The events of a run.
#[derive(Debug, Default)]
pub(crate) struct Timeline(Mutex<Vec<Event>>);

impl Timeline {
    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, event: Event) {
        self.lock().push(event);
    }

    pub(crate) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.lock())
    }
}

/// Returns one line for each event.
pub(crate) fn lines(events: &[Event]) -> String {
    let mut text = String::new();
    for event in events {
        let (at, node) = (format!("{:?}", event.at), &event.node);
        // Writing to a string never fails.
        let _ = match &event.what {
            What::Transition {
                locality,
                fom,
                from,
                to,
                cause,
                ..
            } => {
                let (from, to) = (from.unwrap_or("(begins)"), to.unwrap_or("(failed)"));
                let cause = match &**cause {
                    "" => String::new(),
                    cause => format!(" ({cause})"),
                };
                writeln!(
                    text,
                    "{at:>12}  {node}/{locality}  {fom}  {from} -> {to}{cause}"
                )
            }
            What::Fault(fault) => writeln!(text, "{at:>12}  {node}  *** {fault}"),
        };
    }
    text
}

/// Returns the events as a sequence diagram of Mermaid: a line of life for each fom, and for each node with a fault.
pub(crate) fn diagram(events: &[Event]) -> String {
    let mut text = "sequenceDiagram\n".to_owned();
    let mut known = BTreeSet::new();
    for event in events {
        let name = event.participant();
        if !known.contains(&name) {
            let _ = writeln!(text, "    participant {name}");
            known.insert(name);
        }
    }
    for event in events {
        let what = match &event.what {
            What::Transition { to, .. } => to.unwrap_or("failed"),
            // A semicolon ends a statement of Mermaid.
            What::Fault(fault) => &fault.replace(';', ","),
        };
        let (name, at) = (event.participant(), event.at);
        let _ = writeln!(text, "    Note over {name}: {at:?} {what}");
    }
    text
}

/// Returns the events as a trace that Perfetto shows: a process for each node, and in it a row for each fom, whose phases are
/// slices. Each event is drawn at least a microsecond after the one before, so that the order is seen where no time passes. The
/// format is the Trace Event Format of Chrome.
pub(crate) fn trace(events: &[Event]) -> String {
    let mut trace = Trace::default();
    // The phase of each fom, and when it begins.
    let mut open = BTreeMap::new();
    let mut drawn = 0;
    for event in events {
        drawn = (drawn + 1).max(event.at.as_micros() as u64);
        let process = trace.number("process_name", &event.node, 0);
        match &event.what {
            What::Transition { fom, to, ends, .. } => {
                let row = trace.number("thread_name", fom, process);
                if let Some((phase, begun)) = open.insert((process, row), (to, drawn)) {
                    trace.slice(process, row, *phase, begun, drawn);
                }
                if *ends {
                    open.remove(&(process, row));
                    trace.slice(process, row, *to, drawn, drawn + 1);
                }
            }
            What::Fault(fault) => trace.entries.push(json!({
                "ph": "i", "s": "p", "pid": process, "tid": 0, "name": fault, "ts": drawn,
            })),
        }
    }
    for ((process, row), (phase, begun)) in open {
        trace.slice(process, row, *phase, begun, drawn + 1);
    }
    Value::Array(trace.entries).to_string()
}

#[derive(Default)]
struct Trace {
    entries: Vec<Value>,
    /// The nodes, and the foms of each node.
    numbers: BTreeMap<(u32, String), u32>,
}

impl Trace {
    /// Returns the number of a node, or of a fom of this process. Names it, if it is new.
    fn number(&mut self, kind: &str, name: &str, process: u32) -> u32 {
        let next = self.numbers.len() as u32 + 1;
        let key = (process, name.to_owned());
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        self.numbers.insert(key, next);
        let process = if process == 0 { next } else { process };
        self.entries.push(json!({
            "ph": "M", "pid": process, "tid": next, "name": kind, "args": { "name": name },
        }));
        next
    }

    fn slice(&mut self, process: u32, row: u32, phase: Option<&str>, from: u64, to: u64) {
        self.entries.push(json!({
            "ph": "X", "pid": process, "tid": row, "name": phase.unwrap_or("failed"),
            "ts": from, "dur": to - from,
        }));
    }
}
