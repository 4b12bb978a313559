//! What a submission through the cluster costs on the node that owns the slot, beside one to a runtime with the same log in memory. Both
//! wait until the operation is in the journal and has ended.
//!
//! The node commits the slots together, on threads of its own. So the time of the thread that submits is compared, too.
//!
//! `cargo bench -p fom-cluster`

use std::{
    collections::BTreeMap,
    future::Future,
    time::{Duration, Instant},
};

use fom_cluster::{Cluster, MemoryEngine};
use fom_durable::{
    journal::{
        JournalError, Statement,
        log::{LogJournal, LogStore},
    },
    prelude::*,
};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

const ROUNDS: usize = 9;
const OPERATIONS: u32 = 50_000;
/// So many are in flight at once: alone, an operation is mostly the wake-up of threads, and that varies more than the difference.
const AT_ONCE: u64 = 500;

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

/// A log in memory, as the engine in memory keeps it for a slot.
#[derive(Default)]
struct Log(BTreeMap<u64, Vec<u8>>, u64);

impl LogStore for Log {
    fn last(&self) -> u64 {
        0
    }

    fn append(
        &mut self,
        bodies: Vec<Vec<u8>>,
        _: Vec<(usize, Statement)>,
    ) -> Result<Vec<u64>, JournalError> {
        let numbered: Vec<_> = (self.1 + 1..).zip(bodies).collect();
        let numbers: Vec<_> = numbered.iter().map(|(number, _)| *number).collect();
        self.1 += numbers.len() as u64;
        self.0.extend(numbered);
        Ok(numbers)
    }

    fn load(&mut self, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, JournalError> {
        let all = self
            .0
            .range(from..)
            .take_while(|(number, _)| **number <= to);
        Ok(all.map(|(number, body)| (*number, body.clone())).collect())
    }

    fn delete_until(&mut self, last: u64) -> Result<(), JournalError> {
        self.0 = self.0.split_off(&(last + 1));
        Ok(())
    }

    fn longest(&self) -> usize {
        512 << 20
    }

    fn damaged(&self, _: u64, _: &'static str) -> JournalError {
        JournalError::Closed
    }
}

/// The time of one operation, and how much of it the thread of the caller was busy.
#[derive(Clone, Copy)]
struct Took {
    all: Duration,
    busy: Duration,
}

fn busy() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Both parts are never negative on this clock.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

async fn timed<F: Future<Output = ()>>(run: impl Fn(u64) -> F) -> Took {
    let (begun, before) = (Instant::now(), busy());
    for first in (0..u64::from(OPERATIONS)).step_by(AT_ONCE as usize) {
        futures::future::join_all((first..first + AT_ONCE).map(&run)).await;
    }
    Took {
        all: begun.elapsed() / OPERATIONS,
        busy: (busy() - before) / OPERATIONS,
    }
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
        .journal_with(LogJournal::new(Log::default()))
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
    println!(
        "{:>12} {:>12} {:>12} | {:>12} {:>12} {:>12}",
        "runtime", "cluster", "more", "its caller", "its caller", "more"
    );
    let (mut all, mut callers) = (Vec::new(), Vec::new());
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
        let more = other.all.saturating_sub(one.all);
        let caller = other.busy.saturating_sub(one.busy);
        println!(
            "{:>12.2?} {:>12.2?} {more:>12.2?} | {:>12.2?} {:>12.2?} {caller:>12.2?}",
            one.all, other.all, one.busy, other.busy
        );
        all.push(more);
        callers.push(caller);
    }
    all.sort();
    callers.sort();
    println!(
        "median: {:.2?} more; the caller {:.2?} more",
        all[ROUNDS / 2],
        callers[ROUNDS / 2]
    );
    cluster.leave().await;
}
