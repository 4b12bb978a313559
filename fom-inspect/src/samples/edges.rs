//! Edges with their counts.

use fom_runtime::{
    machine::Graph,
    observe::{Counters, EdgeCounter, OperationCounters, TransitionCause},
};

use crate::catalog::same;

/// The name of an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) from: Option<&'static str>,
    pub(crate) to: Option<&'static str>,
    pub(crate) cause: TransitionCause,
}

impl Edge {
    pub(crate) fn of(counter: &EdgeCounter) -> Self {
        Self {
            from: counter.from,
            to: counter.to,
            cause: counter.cause,
        }
    }
}

/// Returns the name of an edge in the API.
pub(crate) fn edge_key(edge: &Edge) -> String {
    let name = |phase: Option<&'static str>| phase.unwrap_or_default();
    // A missed deadline with and without a function for it have the same word.
    let failed = match edge.cause {
        TransitionCause::Failed(_) => "failed ",
        _ => "",
    };
    let (from, to, cause) = (name(edge.from), name(edge.to), edge.cause);
    format!("{from}>{to}:{failed}{cause}")
}

/// Returns what declares an edge.
pub(crate) fn kind(graph: &Graph, edge: &Edge) -> &'static str {
    let phase = |name: Option<&str>| graph.find(name?);
    let (from, to) = (phase(edge.from), phase(edge.to));
    match (from, to, edge.cause) {
        (None, ..) => "start",
        (Some(_), None, _) | (Some(_), Some(_), TransitionCause::Failed(_)) => "failure",
        (Some(from), Some(to), _) if graph.exits(from).any(|exit| exit.name() == to.name()) => {
            "exit"
        }
        _ => "other",
    }
}

/// The edges of each machine that were seen so far. A sample has only the counts.
#[derive(Debug, Default)]
pub(super) struct EdgeNames(Vec<(&'static Graph, Vec<Edge>)>);

impl EdgeNames {
    /// Returns the counts of all machines, and remembers new machines and edges.
    pub(super) fn counts(&mut self, counters: &Counters) -> Vec<Vec<u64>> {
        let mut counts: Vec<_> = self
            .0
            .iter()
            .map(|(_, names)| vec![0; names.len()])
            .collect();
        for of in &counters.operations {
            let known = self.0.iter().position(|(graph, _)| same(graph, of.graph));
            let machine = known.unwrap_or_else(|| {
                self.0.push((of.graph, Vec::new()));
                counts.push(Vec::new());
                self.0.len() - 1
            });
            let (names, counts) = (&mut self.0[machine].1, &mut counts[machine]);
            for counter in &of.edges {
                let edge = Edge::of(counter);
                match names.iter().position(|name| *name == edge) {
                    Some(place) => counts[place] += counter.count,
                    None => {
                        names.push(edge);
                        counts.push(counter.count);
                    }
                }
            }
        }
        counts
    }

    /// Returns the index and the edges of a machine.
    pub(super) fn of(&self, graph: &Graph) -> Option<(usize, &[Edge])> {
        let machine = self.0.iter().position(|(one, _)| same(one, graph))?;
        Some((machine, &self.0[machine].1))
    }
}

/// What the foms of a machine did since it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) in_flight: u64,
    pub(crate) started: u64,
    pub(crate) ended: u64,
    pub(crate) failed: u64,
    pub(crate) late: u64,
    pub(crate) exhausted: u64,
    pub(crate) cancelled: u64,
}

/// How an edge ends a fom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    No,
    Well,
    Failed,
}

impl Ended {
    pub(crate) fn by(graph: &Graph, edge: &Edge) -> Self {
        let Some(to) = edge.to else {
            return Self::Failed;
        };
        match graph.find(to) {
            Some(phase) if phase.is_failure() => Self::Failed,
            Some(phase) if phase.is_end() => Self::Well,
            _ => Self::No,
        }
    }
}

/// Returns the totals of a machine.
pub(crate) fn totals(graph: &Graph, counters: Option<&OperationCounters>) -> Totals {
    let mut totals = Totals::default();
    let Some(counters) = counters else {
        return totals;
    };
    for counter in &counters.edges {
        let edge = Edge::of(counter);
        let count = counter.count;
        if edge.from.is_none() {
            totals.started += count;
        }
        match Ended::by(graph, &edge) {
            Ended::No => {}
            Ended::Well => totals.ended += count,
            Ended::Failed => {
                totals.ended += count;
                totals.failed += count;
            }
        }
        match edge.cause {
            TransitionCause::Late | TransitionCause::Failed("late") => totals.late += count,
            TransitionCause::Exhausted => totals.exhausted += count,
            TransitionCause::Failed("cancelled") => totals.cancelled += count,
            _ => {}
        }
    }
    let flying = |name: &str| graph.find(name).is_some_and(|phase| !phase.is_end());
    let phases = counters.phases.iter();
    let flying = phases.filter(|of| flying(of.phase));
    totals.in_flight = flying.map(|of| of.foms).sum();
    totals
}
