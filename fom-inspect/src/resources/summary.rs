//! The summary: its size does not depend on the number of foms.

use serde_json::{Value, json};

use super::value;
use crate::{
    catalog::Machine,
    journal,
    resources::parts,
    samples::{Ended, Samples, Totals, rounded, totals},
    state::{Reading, State},
};

pub(super) fn summary(state: &State) -> Value {
    let runtime = &state.runtime;
    let quarantined = journal::quarantined(runtime);
    let machines = state.catalog.all();
    let can = |is: &dyn Fn(&Machine) -> bool| -> Vec<String> {
        let named = machines.iter().filter(|machine| is(machine));
        named.map(|machine| machine.name.clone()).collect()
    };
    let types = &state.types;
    json!({
        "api": 1,
        "version": env!("CARGO_PKG_VERSION"),
        "program": program(),
        "pid": std::process::id(),
        "counting_since": rounded(state.counting_since),
        "localities": runtime.localities(),
        "in_flight": runtime.in_flight(),
        "queued": runtime.inspect().queued(),
        "journal": quarantined.is_some(),
        "quarantine": quarantined,
        "incidents": runtime.inspect().incidents().len(),
        "warnings": state.warning_count(),
        "actions": {
            "enabled": state.acts,
            "keys": can(&|of| types.suspend(of.graph).is_some()),
            "resubmit": can(&|of| types.resubmit(of.graph).is_some()),
            "events": can(&|of| types.send(of.graph).is_some()),
        },
        "data": state.data.is_some(),
        "resources": parts::available(state, quarantined.is_some()),
        "machines": all(state),
    })
}

pub(super) fn machines(state: &State) -> Value {
    json!({"machines": all(state)})
}

fn all(state: &State) -> Vec<Value> {
    let reading = state.reading();
    let samples = state.samples();
    let machines = state.catalog.all();
    let machines = machines.iter();
    machines
        .map(|machine| brief(machine, &reading, &samples))
        .collect()
}

/// Describes a machine in a few numbers.
pub(super) fn brief(machine: &Machine, reading: &Reading, samples: &Samples) -> Value {
    let graph = machine.graph;
    let Totals {
        in_flight,
        started,
        ended,
        failed,
        late,
        exhausted,
        cancelled,
    } = totals(graph, reading.of(machine));
    let samples = samples.machine(graph);
    let rate = |is: &dyn Fn(&crate::samples::Edge) -> bool| value(&samples.rates(is));
    json!({
        "type": machine.name,
        "operation": graph.operation(),
        "machine": graph.name(),
        "docs": graph.docs().split("\n\n").next(),
        "in_flight": in_flight,
        "started": started,
        "ended": ended,
        "failed": failed,
        "late": late,
        "exhausted": exhausted,
        "cancelled": cancelled,
        "rates": {
            "started": rate(&|edge| edge.from.is_none()),
            "ended": rate(&|edge| Ended::by(graph, edge) != Ended::No),
            "failed": rate(&|edge| Ended::by(graph, edge) == Ended::Failed),
        },
        "spark": samples.spark(|edge| edge.from.is_none()),
    })
}

/// Returns the name of the program: that of its file.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
