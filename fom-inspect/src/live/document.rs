//! The document that the stream keeps up to date. It has objects and no lists, so that a patch is small.

use fom_runtime::observe::LocalityInfo;
use serde_json::{Map, Value, json};

use crate::{
    catalog::Machine,
    journal,
    samples::{Edge, edge_key, totals},
    state::{Reading, State},
};

pub(super) fn document(state: &State, machine: Option<&Machine>) -> Value {
    let reading = state.reading();
    let runtime = &state.runtime;
    let mut document = json!({
        "in_flight": runtime.in_flight(),
        "queued": runtime.inspect().queued(),
        "quarantine": journal::quarantined(runtime),
        "incidents": runtime.inspect().incidents().iter().map(|one| one.count).sum::<u64>(),
        "warnings": state.warning_count(),
        "machines": machines(state, &reading),
        "localities": localities(state),
    });
    if let Some(machine) = machine {
        document["machine"] = detail(state, machine, &reading);
    }
    document
}

fn machines(state: &State, reading: &Reading) -> Map<String, Value> {
    let samples = state.samples();
    let describe = |machine: &Machine| {
        let graph = machine.graph;
        let of = totals(graph, reading.of(machine));
        let rates = samples.machine(graph).rates(|edge| edge.from.is_none());
        json!({
            "in_flight": of.in_flight,
            "started": of.started,
            "ended": of.ended,
            "failed": of.failed,
            "late": of.late,
            "rate": rates.seconds,
        })
    };
    let machines = state.catalog.all();
    let machines = machines.iter();
    machines
        .map(|machine| (machine.name.clone(), describe(machine)))
        .collect()
}

fn localities(state: &State) -> Map<String, Value> {
    let samples = state.samples();
    let describe = |of: &LocalityInfo| {
        let running = of.measured.as_ref().and_then(|load| load.running);
        // A tenth of a second is enough: each digit more is a change.
        let running = running.map(|time| (time.as_secs_f64() * 10.0).floor() / 10.0);
        json!({
            "foms": of.foms,
            "ready": of.ready,
            "busy": samples.strip(of.index).last(),
            "running": running.filter(|time| *time > 0.0),
        })
    };
    let loads = state.runtime.inspect().loads();
    let loads = loads.iter();
    loads
        .map(|of| (of.index.to_string(), describe(of)))
        .collect()
}

/// The phases and edges of one machine.
fn detail(state: &State, machine: &Machine, reading: &Reading) -> Value {
    let samples = state.samples();
    let graph = machine.graph;
    let samples = samples.machine(graph);
    let rate = |is: &dyn Fn(&Edge) -> bool| samples.rates(is).seconds;
    let (mut phases, mut edges) = (Map::new(), Map::new());
    if let Some(counters) = reading.of(machine) {
        for of in &counters.phases {
            let name = Some(of.phase);
            let quantile = |share| Some(of.times.quantile(share)?.as_secs_f64());
            let phase = json!({
                "foms": of.foms,
                "in": rate(&|edge| edge.to == name),
                "out": rate(&|edge| edge.from == name),
                "p50": quantile(0.5),
                "p99": quantile(0.99),
                "p999": quantile(0.999),
            });
            phases.insert(of.phase.to_owned(), phase);
        }
        for counter in &counters.edges {
            let edge = Edge::of(counter);
            let rate = rate(&|one| *one == edge);
            edges.insert(
                edge_key(&edge),
                json!({"count": counter.count, "rate": rate}),
            );
        }
    }
    json!({"type": machine.name, "phases": phases, "edges": edges})
}
