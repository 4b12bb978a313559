//! Totals of each operation type, kept by pool and added up on request.

use std::{
    any::TypeId,
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use crate::{
    fom::{Ends, Pool, hand::Gauge},
    runtime::observe::{AdaptiveInfo, TypeInfo},
};
use fom_protocol::sync::atomic::{AtomicU64, Ordering};

/// Adds up the totals of all pools, by operation type.
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
    let ends = || pools.iter().flat_map(|pool| pool.totals.ends());
    let sum = |count: fn(&Ends) -> &AtomicU64| {
        ends()
            .map(|ends| count(ends).load(Ordering::Acquire))
            .sum::<u64>()
    };
    // Reads `ended` first, so that `started` is never less.
    let ended = sum(|ends| &ends.ended);
    let started = pools
        .iter()
        .map(|pool| pool.totals.started.load(Ordering::Acquire))
        .sum::<u64>();
    let nanos = sum(|ends| &ends.nanos);
    Some(TypeInfo {
        operation: pools.first()?.graph.operation(),
        in_flight: started.saturating_sub(ended),
        started,
        ended,
        failed: sum(|ends| &ends.failed),
        untaken: sum(|ends| &ends.untaken),
        mean: Duration::from_nanos(nanos.checked_div(ended).unwrap_or(0)),
        longest: Duration::from_nanos(
            ends()
                .map(|ends| ends.longest.load(Ordering::Relaxed))
                .max()?,
        ),
        adaptive: times(gauges),
    })
}

/// Returns the times that the localities give each adaptive phase, in the order of the declaration.
fn times<'a>(gauges: impl Iterator<Item = &'a Gauge>) -> Vec<AdaptiveInfo> {
    let mut phases = BTreeMap::<usize, AdaptiveInfo>::new();
    for gauge in gauges {
        let phase = &gauge.graph.phases()[gauge.phase];
        let (Some(bounds), time) = (
            phase.deadline().adaptive(),
            Duration::from_nanos(gauge.time()),
        ) else {
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
