//! Totals of each operation type.

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

/// One operation type in one runtime.
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

    pub(crate) fn list(&self) -> Vec<TypeInfo> {
        let mut types: Vec<_> = self.0.read().values().map(|entry| entry.info()).collect();
        types.sort_by_key(|info| info.operation);
        types
    }
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

    fn info(&self) -> TypeInfo {
        // `ended` first: so "started" is never less.
        let ended = self.ended.load(Ordering::Acquire);
        let started = self.started.load(Ordering::Relaxed);
        TypeInfo {
            operation: self.graph.operation(),
            in_flight: started.saturating_sub(ended),
            started,
            ended,
            failed: self.failed.load(Ordering::Relaxed),
            untaken: self.untaken.load(Ordering::Relaxed),
            mean: Duration::from_nanos(self.nanos.load(Ordering::Relaxed).checked_div(ended).unwrap_or(0)),
            longest: Duration::from_nanos(self.longest.load(Ordering::Relaxed)),
        }
    }
}
