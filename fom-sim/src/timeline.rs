//! What happened in a run: its transitions, in their order.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fom_runtime::observe::Transition;

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
