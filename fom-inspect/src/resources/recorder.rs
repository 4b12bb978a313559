//! The flight recorder.

use std::io;

use fom_recorder::TraceExt;
use fom_runtime::{
    FomId,
    observe::{FlightEntry, FlightEvent, FlightRecording},
};
use serde_json::{Value, json};

use crate::{problem::Problem, state::State};

/// The last entries that the listing shows.
const LAST: usize = 100;
/// The most entries of one fom.
const TIMELINE: usize = 500;

/// Checks that there is a recorder. This copies nothing.
pub(crate) fn check(state: &State) -> Result<(), Problem> {
    if state.runtime.inspect().is_recording() {
        return Ok(());
    }
    let message = "the program has no flight recorder; give it one with `Builder::recorder`";
    Err(Problem::unavailable(message))
}

/// Copies what the recorder has, if there is one.
fn recording(state: &State) -> Result<FlightRecording, Problem> {
    check(state)?;
    Ok(state.runtime.inspect().recording())
}

pub(super) fn recorder(state: &State) -> Result<Value, Problem> {
    let recording = recording(state)?;
    let last: Vec<_> = recording.entries.iter().rev().take(LAST).collect();
    Ok(json!({
        "parts": {
            "entries": recording.entries.len(),
            "older": recording.older,
            "overwritten": recording.overwritten,
            "last": last,
        },
    }))
}

/// Writes the recording as JSON for Perfetto.
pub(crate) fn write_trace(state: &State, to: impl io::Write) -> io::Result<()> {
    TraceExt::write_trace(&state.runtime.inspect().recording(), to)
}

/// Returns the last entries about a fom, the oldest first. `None` without a recorder.
pub(super) fn timeline(state: &State, fom: FomId) -> Option<Vec<FlightEntry>> {
    let recording = recording(state).ok()?;
    let mut entries: Vec<_> = recording.timeline(fom).copied().collect();
    entries.drain(..entries.len().saturating_sub(TIMELINE));
    Some(entries)
}

/// Returns the phases that a timeline shows, as the history of a fom does.
pub(super) fn history(timeline: &[FlightEntry]) -> Vec<Value> {
    let entered = |entry: &FlightEntry| match entry.event {
        FlightEvent::Transition { to: Some(to), .. } => {
            Some(json!({"phase": to, "at": crate::state::clock(entry.at)}))
        }
        _ => None,
    };
    timeline.iter().filter_map(entered).collect()
}
