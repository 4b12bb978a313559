//! The localities, with their strips of busy time.

use serde_json::{Value, json};

use super::value;
use crate::{samples::STEP, state::State};

pub(super) fn localities(state: &State) -> Value {
    let loads = state.runtime.inspect().loads();
    let samples = state.samples();
    let describe = |of: &fom_runtime::observe::LocalityInfo| {
        let runs = samples.rates(|sample| sample.runs(of.index));
        let mut locality = value(of);
        locality["rates"] = json!({"runs": runs});
        locality["busy"] = json!(samples.strip(of.index));
        locality
    };
    let localities: Vec<_> = loads.iter().map(describe).collect();
    json!({"step": STEP.as_secs_f64(), "localities": localities})
}
