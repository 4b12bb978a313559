//! The localities, as they are listed.

use std::time::Duration;

use serde::Serialize;

use crate::{
    id::FomId,
    locality::{Distribution, Distributions, Locality},
    runtime::{Shared, observe::Histogram},
    serial,
};
use fom_protocol::sync::atomic::{AtomicU64, Ordering};

/// One locality.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct LocalityInfo {
    /// The index of the locality.
    pub index: usize,
    /// The processors of the locality.
    pub cpus: Vec<usize>,
    /// Foms with their home here.
    pub foms: usize,
    /// Foms that are ready to run, as the handler last saw it.
    pub ready: usize,
    /// Threads of the locality.
    pub threads: usize,
    /// Whether there are foms or jobs that other threads handed over, and that the handler has not taken in.
    pub has_mail: bool,
    /// Foms and jobs that the handler found in its inbox at its last look. The inbox itself cannot be counted, because
    /// a count would cost each thread that hands over a fom.
    pub inbox: usize,
    /// Threads that are blocked or unblocking.
    pub blocked_threads: usize,
    /// The number of runs of foms and jobs, as the handler last saw it.
    pub runs: u64,
    /// What the locality measures while the runtime [counts](crate::Builder::observe).
    pub measured: Option<MeasuredLoad>,
}

/// What a locality measured since the runtime [counts](crate::Builder::observe).
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct MeasuredLoad {
    /// The time in which the locality had work.
    #[serde(serialize_with = "serial::seconds")]
    pub busy: Duration,
    /// The longest run of a fom without a blocking section in which another thread took over.
    #[serde(serialize_with = "serial::seconds")]
    pub longest_run: Duration,
    /// How long the current run goes on, if a fom runs.
    #[serde(serialize_with = "serial::some_seconds")]
    pub running: Option<Duration>,
    /// The fom of the current run.
    pub running_fom: Option<FomId>,
    /// The number of runs in which a fom did nothing that the runtime sees: no transition, and no event of a plain
    /// phase. A run of an async phase that only awaits something else is such a run.
    pub idle_runs: u64,
    /// The fom of the last such run.
    pub idle_fom: Option<FomId>,
    /// How long foms were ready before they ran, without the time in which a sleeping handler wakes up. The locality
    /// infers each time from the order of the run queue. With foms of several priorities, only the mean is right.
    pub ready: Histogram,
    /// How long the runs took, without those with a blocking section in which another thread took over.
    pub run_times: Histogram,
    /// How long the blocking sections took, without the wait for the locality at the end of each.
    pub sections: Histogram,
    /// How many foms were in the run queue when a run began. The fom that ran counts.
    pub queued: Histogram<u64>,
}

impl MeasuredLoad {
    fn of(home: &Locality, now: u64) -> Self {
        let load = &home.load;
        let all = load.distributions();
        let times = |of: fn(&Distributions) -> &Distribution| {
            let (steps, sum) = all.map(|all| of(all).read()).unzip();
            Histogram::of_times(steps, sum.unwrap_or_default())
        };
        let (queued, sum) = all.map(|all| all.queued.read()).unzip();
        let nanos = |cell: &AtomicU64| Duration::from_nanos(cell.load(Ordering::Relaxed));
        let running = home.running_for(now);
        let fom = |cell: &AtomicU64| FomId(cell.load(Ordering::Relaxed));
        Self {
            running_fom: running.map(|_| fom(&load.running_fom)),
            idle_runs: load.idle_runs.load(Ordering::Relaxed),
            idle_fom: Some(fom(&load.idle_fom)).filter(|id| id.get() > 0),
            busy: nanos(&load.busy),
            longest_run: nanos(&load.longest),
            running: running.map(Duration::from_nanos),
            ready: times(|all| &all.delays),
            run_times: times(|all| &all.runs),
            sections: times(|all| &all.sections),
            queued: Histogram::of_numbers(queued, sum.unwrap_or_default()),
        }
    }
}

/// Lists the localities. This walks no foms.
pub(crate) fn localities(shared: &Shared) -> Vec<LocalityInfo> {
    let now = shared.env.clock.nanos();
    let is_counted = shared.env.hooks.are_counted();
    let info = |home: &Locality| LocalityInfo {
        index: home.index,
        cpus: home.plan.cpus.clone(),
        foms: home.counts.in_flight(),
        ready: home.load.ready.load(Ordering::Relaxed),
        has_mail: home.inbox.has_mail(),
        inbox: home.arrived.load(Ordering::Relaxed),
        threads: home.threads(),
        blocked_threads: home.blocked_threads(),
        runs: home.load.runs.load(Ordering::Relaxed),
        measured: is_counted.then(|| MeasuredLoad::of(home, now)),
    };
    shared.localities.iter().map(info).collect()
}
