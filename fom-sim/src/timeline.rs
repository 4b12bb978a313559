//! What happened in a run: its transitions, in their order.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A transition of a fom.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: Duration,
    pub(crate) node: String,
    pub(crate) locality: usize,
    /// The operation type and the id.
    pub(crate) fom: String,
    pub(crate) from: Option<&'static str>,
    /// `None` if the fom failed.
    pub(crate) to: Option<&'static str>,
    /// Why, if not because the function of the phase returned.
    pub(crate) cause: String,
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
        // Writing to a string never fails.
        let _ = writeln!(
            text,
            "{:>12}  {}/{}  {}  {} -> {}{}",
            format!("{:?}", event.at),
            event.node,
            event.locality,
            event.fom,
            event.from.unwrap_or("(begins)"),
            event.to.unwrap_or("(failed)"),
            match &*event.cause {
                "" => String::new(),
                cause => format!(" ({cause})"),
            },
        );
    }
    text
}

/// Returns the events as a sequence diagram of Mermaid: a line of life for each fom.
pub(crate) fn diagram(events: &[Event]) -> String {
    let mut text = "sequenceDiagram\n".to_owned();
    let mut known = BTreeSet::new();
    for event in events {
        if known.insert(&event.fom) {
            let _ = writeln!(text, "    participant {}", event.fom.replace(' ', "_"));
        }
    }
    for event in events {
        let _ = writeln!(
            text,
            "    Note over {}: {:?} {}",
            event.fom.replace(' ', "_"),
            event.at,
            event.to.unwrap_or("failed"),
        );
    }
    text
}
