//! The journal, the failures, the warnings, and what the program lists itself.

use serde_json::{Value, json};

use super::{value, waits::LARGEST};
use crate::{journal, problem::Problem, query::Query, samples::Sample, state::State};

pub(super) fn journal(state: &State, query: &Query) -> Result<Value, Problem> {
    let limit = query.up_to("limit", LARGEST, LARGEST)?;
    let rates = {
        let samples = state.samples();
        [samples.rates(Sample::syncs), samples.rates(Sample::written)]
    };
    journal::list(&state.runtime, limit, rates)
}

pub(super) fn failures(state: &State, query: &Query) -> Result<Value, Problem> {
    let limit = query.up_to("limit", LARGEST, LARGEST)?;
    let mut failures = state.runtime.inspect().failures();
    if let Some(name) = query.text("type") {
        let operation = state.catalog.find(name)?.graph.operation();
        failures.retain(|failed| failed.operation == operation);
    }
    let total = failures.len();
    let describe = |failed: &fom_runtime::observe::FailedFom| {
        let mut failure = value(failed);
        failure["resubmit"] = failed.snapshot.is_some().into();
        failure
    };
    let latest = failures.iter().rev().take(limit);
    let failures: Vec<_> = latest.map(describe).collect();
    Ok(json!({"total": total, "failures": failures}))
}

pub(super) fn warnings(state: &State) -> Result<Value, Problem> {
    let incidents = state.runtime.inspect().incidents();
    Ok(json!({"incidents": incidents.list, "warnings": state.list_warnings()?}))
}

/// Returns the resources of this program.
pub(super) fn available(state: &State, journal: bool) -> Vec<&'static str> {
    let plain = super::PLAIN.iter().map(|(name, _)| *name);
    plain
        .filter(|name| *name != "journal" || journal)
        .filter(|name| *name != "recorder" || state.runtime.inspect().is_recording())
        .collect()
}

/// Lists the named parts of the program, or those of one kind.
pub(super) fn parts(state: &State, kind: Option<&str>) -> Value {
    let mut parts = state.runtime.inspect().parts().parts;
    parts.retain(|part| kind.is_none_or(|kind| part.kind == kind));
    json!({"parts": parts})
}
