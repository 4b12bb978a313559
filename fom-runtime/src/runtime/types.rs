//! Totals of each operation type, kept by pool and added up when somebody asks.

use std::{
    any::TypeId,
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use crate::{
    fom::Pool,
    locality::Gauge,
    protocol::count,
    sync::atomic::{AtomicU64, Ordering},
    watch::{AdaptiveInfo, TypeInfo},
};

/// One operation type in one pool. Each count has one writer: who owns the stock counts what starts, the handler of the
/// locality what ends.
#[derive(Default)]
pub(crate) struct Totals {
    started: AtomicU64,
    ended: AtomicU64,
    failed: AtomicU64,
    nanos: AtomicU64,
    longest: AtomicU64,
    untaken: AtomicU64,
    /// Of foms that were given up on, from wherever that was.
    untaken_elsewhere: AtomicU64,
}

impl Totals {
    #[inline]
    pub(crate) fn started(&self) {
        count(&self.started, 1);
    }

    #[inline]
    pub(crate) fn ended(&self, failed: bool, nanos: u64, untaken: usize) {
        count(&self.nanos, nanos);
        if nanos > self.longest.load(Ordering::Relaxed) {
            self.longest.store(nanos, Ordering::Relaxed);
        }
        if failed {
            count(&self.failed, 1);
        }
        if untaken > 0 {
            count(&self.untaken, untaken as u64);
        }
        count(&self.ended, 1);
    }

    /// Counts events that no phase of a fom took which was given up on.
    pub(crate) fn left_behind_elsewhere(&self, events: usize) {
        self.untaken_elsewhere
            .fetch_add(events as u64, Ordering::Relaxed);
    }
}

/// The totals of all pools together, by operation type.
pub(crate) fn totals(
    pools: impl Iterator<Item = Arc<Pool>>,
    gauges: &[Arc<Gauge>],
) -> Vec<TypeInfo> {
    let mut types = HashMap::<TypeId, Vec<Arc<Pool>>>::new();
    for pool in pools {
        types.entry(pool.type_id).or_default().push(pool);
    }
    let mut infos: Vec<_> = types
        .iter()
        .filter_map(|(type_id, pools)| {
            let gauges = gauges.iter().filter(|gauge| gauge.type_id == *type_id);
            total(pools, gauges.map(|gauge| &**gauge))
        })
        .collect();
    infos.sort_by_key(|info| info.operation);
    infos
}

fn total<'a>(pools: &[Arc<Pool>], gauges: impl Iterator<Item = &'a Gauge>) -> Option<TypeInfo> {
    let sum = |count: fn(&Totals) -> &AtomicU64| {
        pools
            .iter()
            .map(|pool| count(&pool.totals).load(Ordering::Acquire))
            .sum::<u64>()
    };
    // `ended` first: so "started" is never less.
    let ended = sum(|totals| &totals.ended);
    let started = sum(|totals| &totals.started);
    let nanos = sum(|totals| &totals.nanos);
    Some(TypeInfo {
        operation: pools.first()?.graph.operation(),
        in_flight: started.saturating_sub(ended),
        started,
        ended,
        failed: sum(|totals| &totals.failed),
        untaken: sum(|totals| &totals.untaken) + sum(|totals| &totals.untaken_elsewhere),
        mean: Duration::from_nanos(nanos.checked_div(ended).unwrap_or(0)),
        longest: Duration::from_nanos(
            pools
                .iter()
                .map(|pool| pool.totals.longest.load(Ordering::Relaxed))
                .max()?,
        ),
        adaptive: times(gauges),
    })
}

/// What the localities give each adaptive phase, in the order of the declaration.
fn times<'a>(gauges: impl Iterator<Item = &'a Gauge>) -> Vec<AdaptiveInfo> {
    let mut phases = BTreeMap::<usize, AdaptiveInfo>::new();
    for gauge in gauges {
        let phase = &gauge.graph.phases()[gauge.phase];
        let (Some(bounds), time) = (phase.adaptive(), Duration::from_nanos(gauge.time())) else {
            continue;
        };
        let of = phases.entry(gauge.phase).or_insert(AdaptiveInfo {
            phase: phase.name(),
            floor: bounds.floor,
            ceiling: bounds.ceiling,
            least: time,
            most: time,
        });
        of.least = of.least.min(time);
        of.most = of.most.max(time);
    }
    phases.into_values().collect()
}
