//! Waits: the wait-for graph with its cycles, and the keys.

use serde_json::{Value, json};

use super::value;
use crate::{problem::Problem, query::Query, state::State};

/// The most entries of a list.
pub(super) const LARGEST: usize = 1000;

pub(super) fn waits(state: &State, query: &Query) -> Result<Value, Problem> {
    let limit = query.up_to("limit", LARGEST, LARGEST)?;
    let mut waits = state.runtime.inspect().waits();
    let mut deadlocks = state.runtime.inspect().deadlocks();
    let total = waits.len();
    waits.truncate(limit);
    deadlocks.truncate(limit);
    Ok(json!({"total": total, "waits": waits.list, "deadlocks": deadlocks.list}))
}

pub(super) fn keys(state: &State, query: &Query) -> Result<Value, Problem> {
    let limit = query.up_to("limit", LARGEST, LARGEST)?;
    let keys = state.runtime.inspect().keys();
    let total = keys.len();
    let describe = |of: &fom_runtime::observe::KeyInfo| {
        let is_ours = !of.is_serial && state.suspended.has(of.operation, &of.key.to_string());
        let mut key = value(of);
        key["by_inspector"] = is_ours.into();
        key
    };
    let keys: Vec<_> = keys.iter().take(limit).map(describe).collect();
    Ok(json!({"total": total, "keys": keys}))
}
