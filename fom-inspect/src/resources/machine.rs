//! One machine: its graph with counts, rates and times.

use std::time::Duration;

use fom_draw::prelude::*;
use fom_runtime::{
    machine::{Deadline, Graph, Mode, PhaseInfo, Retry},
    observe::{Histogram, OperationCounters},
};
use serde_json::{Value, json};

use super::{summary, value};
use crate::{
    catalog::Machine,
    problem::Problem,
    query::Query,
    samples::{Edge, Samples, edge_key, kind, rounded},
    state::State,
};

pub(super) fn machine(state: &State, name: &str) -> Result<Value, Problem> {
    let machine = state.catalog.find(name)?;
    let graph = machine.graph;
    // Before the lock: it may take long.
    let layout = machine.layout().clone();
    let reading = state.reading();
    let samples = state.samples();
    let mut answer = summary::brief(&machine, &reading, &samples);
    let counters = reading.of(&machine);
    let phases = graph.phases().iter().enumerate();
    let phases: Vec<_> = phases
        .map(|(index, phase)| {
            let one = Phase {
                graph,
                info: phase,
                counters: counters.and_then(|of| of.phases.get(index)),
            };
            one.describe(&samples)
        })
        .collect();
    answer["docs"] = graph.docs().into();
    answer["version"] = graph.version().into();
    answer["counting_since"] = rounded(state.counting_since).into();
    answer["phases"] = phases.into();
    answer["edges"] = edges(&machine, counters, &samples).into();
    answer["layout"] = layout;
    Ok(answer)
}

/// Draws a graph in one form.
type Drawing = fn(&Graph) -> String;

/// The forms of a drawing, by name. The first one is the default.
const FORMS: [(&str, Drawing); 4] = [
    ("svg", |graph| graph.svg()),
    ("mermaid", Graph::mermaid),
    ("dot", Graph::dot),
    ("text", Graph::drawing),
];

/// Draws a machine. This may take a second for a large one.
pub(super) fn graph(state: &State, name: &str, query: &Query) -> Result<Value, Problem> {
    let machine = state.catalog.find(name)?;
    let [(first, draw), ..] = FORMS;
    let form = query.text("form").unwrap_or(first);
    let draw = query.choice("form", &FORMS)?.unwrap_or(draw);
    Ok(json!({"type": machine.name, "form": form, "graph": draw(machine.graph)}))
}

/// One phase of a machine.
struct Phase<'a> {
    graph: &'a Graph,
    info: &'static PhaseInfo,
    counters: Option<&'a fom_runtime::observe::PhaseCounters>,
}

impl Phase<'_> {
    fn describe(&self, samples: &Samples) -> Value {
        let (graph, info) = (self.graph, self.info);
        let samples = samples.machine(graph);
        let rate = |is: &dyn Fn(&Edge) -> bool| value(&samples.rates(is));
        let name = Some(info.name());
        let mut phase = json!({
            "phase": info.name(),
            "docs": info.docs(),
            "mode": mode(info.mode()),
            "start": info.is_start(),
            "end": info.is_end(),
            "failure": info.is_failure(),
            "gated": info.is_gated(),
            "hears_cancel": info.hears_cancel(),
            "delays_cancel": info.delays_cancel(),
            "takes": info.takes(),
            "fields": info.fields(),
            "deadline": deadline(info.deadline()),
            "retry": info.retries().map(retry),
            "exits": graph.exits(info).map(PhaseInfo::name).collect::<Vec<_>>(),
            "failure_exits": graph.failure_exits(info).map(PhaseInfo::name).collect::<Vec<_>>(),
            "foms": self.counters.map_or(0, |of| of.foms),
            "retries": self.counters.map_or(0, |of| of.retries),
            "rates": {
                "in": rate(&|edge| edge.to == name),
                "out": rate(&|edge| edge.from == name),
            },
        });
        self.times(&mut phase);
        phase
    }

    fn times(&self, phase: &mut Value) {
        let times = self.counters.map(|of| &of.times);
        let count = times.map_or(0, Histogram::count);
        let quantile = |share| Some(times?.quantile(share)?.as_secs_f64());
        let mean = times
            .filter(|_| count > 0)
            .map(|times| times.sum().as_secs_f64() / count as f64);
        phase["times"] = times.map_or_else(|| json!([]), value);
        phase["count"] = count.into();
        phase["mean"] = mean.into();
        for (name, share) in QUANTILES {
            phase[name] = quantile(share).into();
        }
    }
}

/// The quantiles in the API.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Async => "async",
        Mode::Sync => "sync",
        Mode::Blocking => "blocking",
        Mode::End => "end",
        // A later kind of phase function.
        _ => "other",
    }
}

fn deadline(of: &Deadline) -> Value {
    let adaptive = of.adaptive().map(|bounds| {
        json!({"floor": bounds.floor.as_secs_f64(), "ceiling": bounds.ceiling.as_secs_f64()})
    });
    let within = of.within().filter(|_| adaptive.is_none());
    if within.is_none() && adaptive.is_none() && !of.is_asked() {
        return Value::Null;
    }
    json!({
        "within": within.map(|time| time.as_secs_f64()),
        "adaptive": adaptive,
        "asked": of.is_asked(),
        "name": of.name(),
        "late": of.is_late(),
    })
}

fn retry(of: Retry) -> Value {
    json!({
        "times": of.times,
        "min": of.min.as_secs_f64(),
        "max": of.max.as_secs_f64(),
    })
}

/// The declared edges, in the order of the declaration, and the others that foms took.
fn edges(machine: &Machine, counters: Option<&OperationCounters>, samples: &Samples) -> Vec<Value> {
    let graph = machine.graph;
    let counted = counters.map_or(&[][..], |of| &of.edges);
    let mut edges: Vec<_> = counted
        .iter()
        .map(|counter| (Edge::of(counter), (counter.count, counter.time)))
        .collect();
    if edges.is_empty() {
        let declared = declared(graph).into_iter();
        edges = declared.map(|edge| (edge, (0, Duration::ZERO))).collect();
    }
    let left = |from: Option<&str>| -> u64 {
        let out = edges.iter().filter(|(edge, _)| edge.from == from);
        out.map(|(_, (count, _))| count).sum()
    };
    let samples = samples.machine(graph);
    let describe = |(edge, (count, time)): &(Edge, (u64, Duration))| {
        let phase = |name: Option<&str>| graph.find(name?);
        let name = match (phase(edge.from), phase(edge.to)) {
            (Some(from), Some(to)) => graph.edge_name(from, to),
            _ => None,
        };
        let left = edge.from.map_or(0, |from| left(Some(from)));
        let share = (left > 0).then(|| rounded(*count as f64 / left as f64));
        json!({
            "key": edge_key(edge),
            "from": edge.from,
            "to": edge.to,
            "cause": edge.cause.to_string(),
            "name": name,
            "kind": kind(graph, edge),
            "count": count,
            "rate": samples.rates(|one| one == edge),
            "share": share,
            "time": time.as_secs_f64(),
        })
    };
    edges.iter().map(describe).collect()
}

/// The edges of a machine that no fom has run.
fn declared(graph: &Graph) -> Vec<Edge> {
    use fom_runtime::observe::TransitionCause;

    let start = graph.start().map(|phase| Edge {
        from: None,
        to: Some(phase.name()),
        cause: TransitionCause::Started,
    });
    let exits = graph.edges().map(|(from, to)| Edge {
        from: Some(from.name()),
        to: Some(to.name()),
        cause: match graph.exits(from).any(|exit| exit.name() == to.name()) {
            true => TransitionCause::Returned,
            false => TransitionCause::Failed("error"),
        },
    });
    start.into_iter().chain(exits).collect()
}
