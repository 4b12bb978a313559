//! What a submission through the cluster costs on the node that owns the slot, beside one to a runtime with a journal in
//! memory. Both wait until the operation is in the journal and has ended.
//!
//! `cargo bench -p fom-cluster`

use std::{
    future::Future,
    time::{Duration, Instant},
};

use fom_cluster::{Cluster, MemoryEngine};
use fom_durable::{journal::MemoryJournal, prelude::*};
use serde::{Deserialize, Serialize};

const ROUNDS: usize = 9;
const OPERATIONS: u32 = 20_000;

#[derive(Serialize, Deserialize)]
struct Order {
    number: u64,
    customer: String,
}

#[fom(operation(Order))]
enum Selling {
    #[phase(start, sync, to(Sent))]
    Pack,
    #[phase(end)]
    Sent,
}

impl SellingTransitions for Order {
    fn pack(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn order(number: u64) -> Order {
    Order {
        number,
        customer: "customer 7".to_owned(),
    }
}

/// Returns the time of one operation.
async fn timed<F: Future<Output = ()>>(mut run: impl FnMut(u64) -> F) -> Duration {
    let begun = Instant::now();
    for number in 0..u64::from(OPERATIONS) {
        run(number).await;
    }
    begun.elapsed() / OPERATIONS
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime of tokio");
    runtime.block_on(run());
}

async fn run() {
    let alone = Runtime::builder()
        .localities(1)
        .journal_with(MemoryJournal::new())
        .build()
        .expect("a runtime");
    let builder = Cluster::builder(MemoryEngine::new(), "a").slots(1);
    let cluster = builder
        .operation::<Order>()
        .join()
        .await
        .expect("a cluster");
    while cluster.served().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut next = 0;
    println!("{:>10} {:>10} {:>10}", "runtime", "cluster", "more");
    let mut all = Vec::new();
    for _ in 0..ROUNDS {
        next += 1;
        let base: u64 = next << 32;
        // An operation id as the cluster gives one: its outcome is remembered.
        let one = timed(|number| {
            let submission = alone.submit(order(number)).once(base + number);
            let handle = submission.start().expect("it starts");
            async move {
                handle.committed().await.expect("it is in the journal");
                handle.await.expect("it ends well");
            }
        });
        let one = one.await;
        let other = timed(|number| {
            let submission = cluster.submit(order(number)).once(base + number);
            async move {
                let started = submission.start().await.expect("it starts");
                started.await.expect("an owner").expect("it ends well");
            }
        });
        let other = other.await;
        let more = other.saturating_sub(one);
        println!("{one:>10.2?} {other:>10.2?} {more:>10.2?}");
        all.push(more);
    }
    all.sort();
    println!("median: {:.2?} more", all[ROUNDS / 2]);
    cluster.leave().await;
}
