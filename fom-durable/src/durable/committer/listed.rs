//! The journal among the parts of its runtime.

use std::sync::Arc;

use fom_protocol::sync::now;
use fom_runtime::{__durability as seam, Runtime, extension::Listed, observe::PartInfo};

use crate::durable::{Committer, Durable};

impl Listed for Committer {
    fn parts(self: Arc<Self>, runtime: &Runtime) -> Vec<PartInfo> {
        let (queued, oldest, under_way) = {
            let queue = self.queue.lock();
            let groups = |part: &super::Handover| {
                part.batch.len() + part.lazy.as_ref().map_or(0, |lazy| lazy.len())
            };
            let since = queue.parts.iter().map(|part| part.since).min();
            let queued = queue.parts.iter().map(groups).sum();
            (queued, since, queue.under_way)
        };
        let stats = self.stats();
        let mut info = PartInfo::new("journal", "journal")
            .queued(queued)
            .with("entries", stats.entries)
            .with("live_bytes", stats.live_bytes)
            .with("size_bytes", stats.size_bytes)
            .with("written_bytes", stats.written_bytes)
            .with("moved_bytes", stats.moved_bytes)
            .with("syncs", stats.syncs);
        let now = now();
        info.oldest = oldest.map(|since| now.saturating_duration_since(since));
        if let Some(lease) = Durable::of(seam::shared_by(runtime)).lease.get() {
            info = info.with("term", lease.term()).with("lease", lease.holds());
        }
        if let Some(begun) = under_way {
            info = info.with("under_way", now.saturating_duration_since(begun));
        }
        vec![info]
    }
}
