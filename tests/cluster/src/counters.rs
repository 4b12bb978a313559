//! Active objects of the cluster. Each key has one at a time, and each call runs once on an object.

use std::{
    convert::Infallible,
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use fom_cluster::{Cluster, ClusterBuilder};
use fom_durable::prelude::*;
use fom_objects::{ObjectCx, ObjectsBuilderExt as _, ObjectsExt as _};
use fom_patterns::{active, active::Active as _};

use crate::bank::Log;

/// Counts its calls.
pub(crate) struct Counter {
    number: u64,
    term: u64,
    /// No other object has it.
    id: u64,
    count: u64,
    log: Log,
}

#[active(remote)]
impl Counter {
    /// Returns how many calls the object has had.
    pub(crate) fn count(&mut self, call: u64, attempt: u64) -> Result<u64, String> {
        self.count += 1;
        let of = format!("counter-{}", self.number);
        let once = format_args!("{:016x}-{attempt:016x}", self.id);
        let written = self.log.write(&of, call, self.term, &once);
        written.map_err(|error| error.to_string())?;
        Ok(self.count)
    }
}

/// Serves the objects.
pub(crate) fn serve(builder: ClusterBuilder, log: &Log) -> ClusterBuilder {
    let log = log.clone();
    builder.objects(move |cx: ObjectCx| {
        let log = log.clone();
        async move {
            let number = match cx.key {
                fom_runtime::Key::Int(number) => number,
                _ => 0,
            };
            let counter = Counter {
                number,
                term: cx.term,
                id: unique(),
                count: 0,
                log,
            };
            Ok::<_, Infallible>(counter.activation())
        }
    })
}

/// Calls the objects.
#[derive(Clone)]
pub(crate) struct Counters {
    cluster: Cluster,
    runtime: Runtime,
    attempts: Arc<AtomicU64>,
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counters")
    }
}

impl Counters {
    pub(crate) fn new(cluster: &Cluster) -> Result<Self, BoxError> {
        Ok(Self {
            cluster: cluster.clone(),
            runtime: Runtime::builder().localities(1).build()?,
            attempts: Arc::new(AtomicU64::new(unique())),
        })
    }

    pub(crate) async fn count(&self, counter: u32, call: u32) -> Result<u64, BoxError> {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
        let object = self.cluster.object::<Counter>(u64::from(counter));
        let object: CounterProxy = object.start(&self.runtime)?;
        Ok(object.count(u64::from(call), attempt).await??)
    }
}

/// Returns a number that no other process has.
fn unique() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
