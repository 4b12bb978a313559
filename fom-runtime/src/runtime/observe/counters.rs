//! The counters of a runtime, as its users read them.

use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use crate::{
    fom::{
        TransitionCause, TypeCounters,
        counters::{Edge, NONE, Steps, Taken, bound},
    },
    graph::Graph,
    incident::IncidentCounter,
    instant::Instant,
    runtime::Shared,
    serial,
};
use fom_protocol::sync::atomic::Ordering;

/// What the foms of a runtime did since it [counts](crate::Builder::observe). Each number was read at its own moment.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// The time of the wall clock.
    #[serde(serialize_with = "serial::since_1970")]
    pub at: SystemTime,
    /// The time on the runtime's clock.
    #[serde(serialize_with = "serial::clock_time")]
    pub now: Instant,
    /// The operation types of which a transition was counted, by name.
    pub operations: Vec<OperationCounters>,
    /// The incidents since the start of the runtime, for each kind.
    pub incidents: Vec<IncidentCounter>,
}

/// What the foms of one operation type did.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct OperationCounters {
    /// The operation type.
    pub operation: &'static str,
    /// The graph of its machine.
    #[serde(skip)]
    pub graph: &'static Graph,
    /// The phases, in the order of the declaration.
    pub phases: Vec<PhaseCounters>,
    /// The declared edges, in the order of the declaration, and behind them the other edges that a fom has taken.
    pub edges: Vec<EdgeCounter>,
}

/// What the foms of one operation type did in one phase.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PhaseCounters {
    /// The phase.
    pub phase: &'static str,
    /// The number of foms in the phase: those that came in, without those that went out. An end keeps every fom.
    pub foms: u64,
    /// The number of attempts that failed and were followed by another.
    pub retries: u64,
    /// How long the foms that left the phase were in it.
    pub times: Histogram,
    /// The same times for each locality, by its index.
    pub localities: Vec<Histogram>,
}

/// How often foms took one edge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EdgeCounter {
    /// The phase that the foms left. `None` for a begin.
    pub from: Option<&'static str>,
    /// The phase that the foms entered. `None` for the standard failed outcome.
    pub to: Option<&'static str>,
    /// Why the foms took the edge.
    #[serde(serialize_with = "serial::text")]
    pub cause: TransitionCause,
    /// How often foms took the edge.
    pub count: u64,
    /// The sum of the times that these foms were in the phase which they left. Zero for a begin.
    #[serde(serialize_with = "serial::seconds")]
    pub time: Duration,
    /// The same count for each locality, by its index.
    pub localities: Vec<u64>,
}

/// Times or, as `Histogram<u64>`, numbers of things. They are counted in steps of an eighth of an octave: a bound is at
/// most an eighth above what it stands for. Serialized as a list of `[bound, count]`, without empty steps. The bounds of
/// times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram<T = Duration> {
    steps: Vec<(T, u64)>,
    sum: T,
}

impl<T: Copy> Histogram<T> {
    /// Returns the sum of these histograms, whose numbers have the sum `sum`.
    fn sum_of<'a>(
        all: impl IntoIterator<Item = &'a Steps>,
        sum: u64,
        value: impl Fn(u64) -> T,
    ) -> Self {
        let mut counts = NONE;
        for one in all {
            one.add_to(&mut counts);
        }
        let steps = counts.iter().enumerate();
        let filled = steps.filter(|(_, count)| **count > 0);
        Self {
            steps: filled
                .map(|(step, count)| (value(bound(step)), *count))
                .collect(),
            sum: value(sum),
        }
    }

    /// Returns the steps that have a count, each with its largest value, the smallest first.
    pub fn steps(&self) -> &[(T, u64)] {
        &self.steps
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.steps.iter().map(|(_, count)| count).sum()
    }

    /// Returns the sum of the values.
    pub fn sum(&self) -> T {
        self.sum
    }

    /// Returns a value that this share of the values does not exceed, or `None` if there are no values. `share` is
    /// between 0 and 1: the 99th percentile is `quantile(0.99)`.
    pub fn quantile(&self, share: f64) -> Option<T> {
        let mut left = (share * self.count() as f64).ceil().max(1.0) as u64;
        let mut steps = self.steps.iter();
        let found = steps.find(|(_, count)| {
            left = left.saturating_sub(*count);
            left == 0
        });
        found.or(self.steps.last()).map(|(bound, _)| *bound)
    }
}

impl Histogram {
    /// Returns the sum of these histograms, whose times take `sum` nanoseconds.
    pub(crate) fn of_times<'a>(all: impl IntoIterator<Item = &'a Steps>, sum: u64) -> Self {
        Self::sum_of(all, sum, Duration::from_nanos)
    }
}

impl Histogram<u64> {
    /// Returns the sum of these histograms, whose numbers have the sum `sum`.
    pub(crate) fn of_numbers<'a>(all: impl IntoIterator<Item = &'a Steps>, sum: u64) -> Self {
        Self::sum_of(all, sum, |number| number)
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let seconds = |(bound, count): &(Duration, u64)| (bound.as_secs_f64(), *count);
        to.collect_seq(self.steps.iter().map(seconds))
    }
}

impl Serialize for Histogram<u64> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(&self.steps)
    }
}

/// Reads the counters of all types.
pub(crate) fn counters(shared: &Shared) -> Counters {
    let env = &shared.env;
    let types = env.counters().all();
    let mut operations: Vec<_> = types
        .iter()
        .map(|of| operation(of, env.homes.len()))
        .collect();
    operations.sort_by_key(|of| of.operation);
    Counters {
        at: SystemTime::now(),
        now: Instant::from_nanos(env.clock.nanos()),
        operations,
        incidents: env.incident_counts(),
    }
}

fn operation(of: &TypeCounters, localities: usize) -> OperationCounters {
    // What led out of a phase is read before what led into it. So no phase has more foms that left than came.
    let edges = edges(of, localities);
    let came = came(of);
    let sum = |phase: usize, at: &dyn Fn(&[Taken]) -> Taken| {
        let out = edges.iter().filter(|(edge, _)| edge.from == Some(phase));
        total(out.map(|(_, taken)| at(taken)))
    };
    let phases = of.graph.phases();
    let name = |phase: Option<usize>| phase.map(|phase| phases[phase].name());
    let counter = |(edge, localities): &(Edge, Vec<Taken>)| EdgeCounter {
        from: name(edge.from),
        to: name(edge.to),
        cause: edge.cause,
        count: all(localities).count,
        time: Duration::from_nanos(all(localities).nanos),
        localities: localities.iter().map(|taken| taken.count).collect(),
    };
    let phase = |(index, phase): (usize, &crate::graph::PhaseInfo)| PhaseCounters {
        phase: phase.name(),
        retries: of
            .localities()
            .map(|(_, here)| here.retries[index].load(Ordering::Relaxed))
            .sum(),
        foms: came[index].saturating_sub(sum(index, &all).count),
        times: Histogram::of_times(
            of.localities().map(|(_, here)| here.times(index)),
            sum(index, &all).nanos,
        ),
        localities: (0..localities)
            .map(|at| {
                let here = of.localities().filter(|(locality, _)| *locality == at);
                let times = here.map(|(_, here)| here.times(index));
                Histogram::of_times(times, sum(index, &|taken| taken[at]).nanos)
            })
            .collect(),
    };
    // An operation can also be submitted in another phase than its start.
    let is_declared =
        |edge: &Edge| edge.from.is_some() || edge.to.is_some_and(|to| phases[to].is_start());
    let shown = edges
        .iter()
        .filter(|(edge, taken)| is_declared(edge) || all(taken).count > 0);
    OperationCounters {
        operation: of.graph.operation(),
        graph: of.graph,
        phases: phases.iter().enumerate().map(phase).collect(),
        edges: shown.map(counter).collect(),
    }
}

/// Returns the sum over all localities.
fn all(localities: &[Taken]) -> Taken {
    total(localities.iter().copied())
}

fn total(taken: impl Iterator<Item = Taken>) -> Taken {
    let mut total = Taken::default();
    taken.for_each(|more| total += more);
    total
}

/// Returns the edges with their counts by locality.
fn edges(of: &TypeCounters, localities: usize) -> Vec<(Edge, Vec<Taken>)> {
    let mut edges: Vec<(Edge, Vec<Taken>)> = Vec::new();
    for (index, here) in of.localities() {
        for (edge, taken) in of.edges(here) {
            let found = edges.iter().position(|(one, _)| *one == edge);
            let place = found.unwrap_or_else(|| {
                edges.push((edge, vec![Taken::default(); localities]));
                edges.len() - 1
            });
            edges[place].1[index] += taken;
        }
    }
    edges
}

/// Returns how many foms came into each phase, or were found there.
fn came(of: &TypeCounters) -> Vec<u64> {
    let mut came = vec![0; of.graph.phases().len()];
    for (_, here) in of.localities() {
        for (edge, taken) in of.edges(here) {
            if let Some(to) = edge.to {
                came[to] += taken.count;
            }
        }
        for (came, found) in came.iter_mut().zip(&here.found) {
            *came += found.load(Ordering::Acquire);
        }
    }
    came
}
