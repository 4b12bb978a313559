//! Totals of each operation type, kept by locality and added up when somebody asks.

use std::{any::TypeId, collections::HashMap, sync::Arc, time::Duration};

use crate::{
    Graph,
    operation::Operation,
    sync::{
        RwLock,
        atomic::{AtomicU64, Ordering},
    },
    watch::TypeInfo,
};

#[derive(Default)]
pub(crate) struct Types(RwLock<HashMap<TypeId, Arc<TypeEntry>>>);

/// One operation type in one locality.
pub(crate) struct TypeEntry {
    pub(crate) type_id: TypeId,
    pub(crate) graph: &'static Graph,
    started: AtomicU64,
    ended: AtomicU64,
    failed: AtomicU64,
    nanos: AtomicU64,
    longest: AtomicU64,
    untaken: AtomicU64,
}

impl Types {
    pub(crate) fn of<O: Operation>(&self) -> Arc<TypeEntry> {
        let type_id = TypeId::of::<O>();
        let known = self.0.read().get(&type_id).map(Arc::clone);
        known.unwrap_or_else(|| {
            Arc::clone(self.0.write().entry(type_id).or_insert_with(|| {
                Arc::new(TypeEntry {
                    type_id,
                    graph: O::GRAPH,
                    started: AtomicU64::new(0),
                    ended: AtomicU64::new(0),
                    failed: AtomicU64::new(0),
                    nanos: AtomicU64::new(0),
                    longest: AtomicU64::new(0),
                    untaken: AtomicU64::new(0),
                })
            }))
        })
    }
}

/// The totals of all localities together, by operation type.
pub(crate) fn totals<'a>(localities: impl Iterator<Item = &'a Types>) -> Vec<TypeInfo> {
    let mut types = HashMap::<TypeId, Vec<Arc<TypeEntry>>>::new();
    for entry in
        localities.flat_map(|types| types.0.read().values().map(Arc::clone).collect::<Vec<_>>())
    {
        types.entry(entry.type_id).or_default().push(entry);
    }
    let mut infos: Vec<_> = types
        .values()
        .filter_map(|entries| total(entries))
        .collect();
    infos.sort_by_key(|info| info.operation);
    infos
}

fn total(entries: &[Arc<TypeEntry>]) -> Option<TypeInfo> {
    let sum = |count: fn(&TypeEntry) -> &AtomicU64, order| {
        entries
            .iter()
            .map(|entry| count(entry).load(order))
            .sum::<u64>()
    };
    // `ended` first: so "started" is never less.
    let ended = sum(|entry| &entry.ended, Ordering::Acquire);
    let started = sum(|entry| &entry.started, Ordering::Relaxed);
    let nanos = sum(|entry| &entry.nanos, Ordering::Relaxed);
    Some(TypeInfo {
        operation: entries.first()?.graph.operation(),
        in_flight: started.saturating_sub(ended),
        started,
        ended,
        failed: sum(|entry| &entry.failed, Ordering::Relaxed),
        untaken: sum(|entry| &entry.untaken, Ordering::Relaxed),
        mean: Duration::from_nanos(nanos.checked_div(ended).unwrap_or(0)),
        longest: Duration::from_nanos(
            entries
                .iter()
                .map(|entry| entry.longest.load(Ordering::Relaxed))
                .max()?,
        ),
    })
}

impl TypeEntry {
    pub(crate) fn started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts events that no phase of a fom took.
    pub(crate) fn left_behind(&self, events: usize) {
        if events > 0 {
            self.untaken.fetch_add(events as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn ended(&self, failed: bool, nanos: u64) {
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.longest.fetch_max(nanos, Ordering::Relaxed);
        self.failed.fetch_add(failed.into(), Ordering::Relaxed);
        self.ended.fetch_add(1, Ordering::Release);
    }
}
