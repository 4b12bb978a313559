//! A server with a greedy client, under four policies that change while the queue is full.
//!
//! `cargo run --example admission`

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fom_patterns::{
    admission::{Admission, Level, Policy, Rate, Rule, Share, TokenBuckets},
    prelude::*,
};
use fom_runtime::time::TestClock;

const SECOND: Duration = Duration::from_secs(1);

/// A block for a client; the disk takes ten milliseconds to read it.
struct Read {
    served: Arc<AtomicUsize>,
}

#[fom(operation(Read), transient)]
enum Reading {
    #[phase(start, to(Sent))]
    Fetch,
    #[phase(end)]
    Sent,
}

impl ReadingTransitions for Read {
    async fn fetch(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.sleep(Duration::from_millis(10)).await;
        self.served.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// The clients, each with the number of requests that it always keeps in the queue.
const CLIENTS: [(&str, usize); 3] = [("greedy", 90), ("modest", 9), ("backup", 9)];

struct Server {
    clock: TestClock,
    runtime: Runtime,
    intake: Admission,
    served: [Arc<AtomicUsize>; 3],
    sent: [usize; 3],
}

impl Server {
    /// Runs for a second: each client sends a new request for each served one.
    async fn second(&mut self) -> Result<[usize; 3], BoxError> {
        let before = self.served();
        for _ in 0..100 {
            for (at, (client, queued)) in CLIENTS.iter().enumerate() {
                while self.sent[at] < self.served()[at] + queued {
                    let read = Read {
                        served: Arc::clone(&self.served[at]),
                    };
                    let class = if *client == "backup" { "bulk" } else { "read" };
                    self.intake
                        .submit(read)
                        .client(*client)
                        .class(class)
                        .detach()?;
                    self.sent[at] += 1;
                }
            }
            self.runtime.quiet().await;
            self.clock.advance(SECOND / 100);
            self.runtime.quiet().await;
        }
        let served = self.served();
        Ok([0, 1, 2].map(|at| served[at] - before[at]))
    }

    fn served(&self) -> [usize; 3] {
        [0, 1, 2].map(|at| self.served[at].load(Ordering::Relaxed))
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    run().await
}

/// The tests also run this in a simulation.
pub(crate) async fn run() -> Result<(), BoxError> {
    let clock = TestClock::new();
    let runtime = Runtime::builder().localities(2).clock(&clock).build()?;
    // Two reads at a time: two hundred a second.
    let intake = Admission::builder(&runtime)
        .in_flight(2)
        .marks(100, 120)
        .on_level(|level| {
            if level == Level::Full {
                println!("the queue is full: a new request gets its operation back");
            }
        })
        .build()?;
    let mut server = Server {
        clock,
        runtime,
        intake,
        served: Default::default(),
        sent: [0; 3],
    };

    println!("reads served in a second, after one of getting used to the policy\n");
    println!("{:<40} {:>8} {:>8} {:>8}", "", "greedy", "modest", "backup");
    let limited = TokenBuckets::per_client(Rate::per_second(60)?.burst(5)?);
    let rules = limited.rules();
    let line = |line: &str| line.parse::<Box<dyn Policy>>();
    for policy in [line("fifo")?, line("crr quantum=4")?, Box::new(limited)] {
        let name = policy.name().to_owned();
        server.intake.set_policy(policy);
        server.second().await?;
        let [greedy, modest, backup] = server.second().await?;
        println!("{name:<40} {greedy:>8} {modest:>8} {backup:>8}");
    }
    // The same buckets, with one more rule.
    let bulk = Rule::new("bulk", Rate::per_second(5)?)?;
    rules.start(bulk.class("bulk").share(Share::All))?;
    rules.set_rate("default", Rate::per_second(90)?)?;
    server.second().await?;
    let [greedy, modest, backup] = server.second().await?;
    let name = "  with 90 each, and 5 for all bulk";
    println!("{name:<40} {greedy:>8} {modest:>8} {backup:>8}\n");
    assert!(backup <= 8 && greedy <= 93 && modest <= 93);

    print!("{}", server.intake.status().await);

    // Submissions beyond the limit are refused.
    let read = || Read {
        served: Arc::default(),
    };
    println!();
    while server.intake.submit(read()).client("rude").detach().is_ok() {}
    let patient = server.intake.submit(read()).client("patient");
    let patient = patient.start_when_room();
    let report = server.runtime.shutdown(Shutdown::Now, SECOND).await;
    let refused = patient.await.expect_err("nothing is taken in any more");
    println!("{} left; {refused}", report.remained.len());
    let late = server
        .intake
        .submit(read())
        .await
        .expect_err("it is closed");
    assert!(matches!(late.cause, Cause::Refused(_)));
    Ok(())
}
