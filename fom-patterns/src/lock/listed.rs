//! Lock tables among the parts of their runtimes. A runtime lists each table that its foms make locks of.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

use fom_protocol::sync::Mutex;
use fom_runtime::{
    Runtime,
    extension::{self, Listing},
    observe::{PartInfo, PartValue},
};

use crate::lock::{LockStats, LongLocks, table::Table};

/// The runtimes that list a table.
#[derive(Default)]
pub(super) struct Listed {
    /// The number of the last one, or zero. It saves most looks into the list.
    last: AtomicU64,
    all: Mutex<Vec<(u64, Listing)>>,
}

impl Listed {
    /// Returns whether this thread runs a locality of a runtime other than the last one.
    pub(super) fn is_new_here(&self) -> bool {
        let here = extension::current_number();
        here.is_some_and(|here| here != self.last.load(Ordering::Relaxed))
    }
}

/// Lists the table in the runtime whose locality this thread holds.
#[cold]
pub(super) fn list_here(table: &Arc<Table>) {
    if let Some(runtime) = Runtime::current() {
        list_in(table, &runtime);
    }
}

/// Lists the table in this runtime, once.
pub(super) fn list_in(table: &Arc<Table>, runtime: &Runtime) {
    let number = runtime.extension().number();
    let listed = table.listed();
    let mut all = listed.all.lock();
    if all.iter().all(|(one, _)| *one != number) {
        all.retain(|(_, listing)| listing.is_listed());
        let part: Weak<Table> = Arc::downgrade(table);
        all.push((number, runtime.extension().list(part)));
    }
    listed.last.store(number, Ordering::Relaxed);
}

impl extension::Listed for Table {
    fn parts(self: Arc<Self>, _: &Runtime) -> Vec<PartInfo> {
        let name = self.name().to_owned();
        let stats = LongLocks(self).stats();
        let mut info = PartInfo::new("lock table", name)
            .queued(stats.total.waiters)
            .with("locks", stats.locks);
        info.counters.extend(counters(&stats.total));
        if let Some((key, worst)) = &stats.worst {
            let mut fields = vec![("key", key.to_string().into())];
            fields.extend(counters(worst));
            info = info.with("worst", PartValue::Fields(fields));
        }
        vec![info]
    }
}

fn counters(stats: &LockStats) -> Vec<(&'static str, PartValue)> {
    vec![
        ("reads", stats.reads.into()),
        ("writes", stats.writes.into()),
        ("waits", stats.waits.into()),
        ("given_up", stats.given_up.into()),
        ("wait_time", stats.wait_time.into()),
        ("longest_wait", stats.longest_wait.into()),
        ("hold_time", stats.hold_time.into()),
        ("longest_hold", stats.longest_hold.into()),
        ("holders", stats.holders.into()),
        ("waiters", stats.waiters.into()),
    ]
}
