//! The load of the benchmarks of engines: operations of six phases, with a record of about 160 bytes each.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fom_durable::prelude::*;
use serde::{Deserialize, Serialize};

/// How long a load lasts.
pub(crate) const ROUND: Duration = Duration::from_secs(4);
/// The bytes of an entry beside those that fom adds.
const STATE: usize = 100;
pub(crate) const PHASES: u32 = 6;

#[derive(Serialize, Deserialize)]
pub(crate) struct Work {
    step: u32,
    state: Vec<u8>,
}

#[fom(operation(Work))]
pub(crate) enum Working {
    #[phase(start, sync, to(Step, Done))]
    Step,
    #[phase(end)]
    Done,
}

impl WorkingTransitions for Work {
    fn step(&mut self, cx: &mut Cx<'_>) -> Result<WorkingAfterStep, BoxError> {
        cx.resource::<Arc<AtomicU64>>()
            .fetch_add(1, Ordering::Relaxed);
        self.step += 1;
        Ok(match self.step {
            PHASES => WorkingAfterStep::Done,
            _ => WorkingAfterStep::Step,
        })
    }
}

/// Returns an operation at its begin.
pub(crate) fn work() -> Work {
    Work {
        step: 0,
        state: vec![7; STATE],
    }
}

/// Returns the transitions per second of one node, and the median of a commit in one operation.
pub(crate) async fn with_cluster(
    engine: impl fom_cluster::engine::Engine,
    in_flight: usize,
    slots: u16,
) -> Result<(f64, Duration), BoxError> {
    let steps = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&steps);
    let cluster = fom_cluster::Cluster::builder(engine, "node")
        .slots(slots)
        .operation::<Work>()
        .runtime(move |builder| builder.resource(Arc::clone(&counted)))
        .join()
        .await?;
    while cluster.served().len() < usize::from(slots) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let begun = Instant::now();
    let workers = (0..in_flight).map(|worker| {
        let cluster = cluster.clone();
        async move {
            let (mut waits, mut number) = (Vec::new(), 0_u64);
            while begun.elapsed() < ROUND {
                number += 1;
                let since = Instant::now();
                let submission = cluster.submit(work()).key((worker as u64, number));
                let Ok(started) = submission.start().await else {
                    break;
                };
                if started.await.is_err() {
                    break;
                }
                waits.push(since.elapsed() / (PHASES + 1));
            }
            waits
        }
    });
    let workers: Vec<_> = workers.map(tokio::spawn).collect();
    let mut waits = Vec::new();
    for worker in workers {
        waits.extend(worker.await?);
    }
    let rate = steps.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
    waits.sort();
    cluster.leave().await;
    let median = waits.get(waits.len() / 2).ok_or("no operation has ended")?;
    Ok((rate, *median))
}
