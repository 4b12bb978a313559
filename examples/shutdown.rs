//! Three ways to end: drain, drain with a fom that does not end, and at once. Every caller gets an answer.
//!
//! `cargo run --example shutdown`

use std::time::{Duration, Instant};

use fom_runtime::{error::RefusedReason, prelude::*};

struct Nap {
    time: Duration,
}

#[fom(operation(Nap), transient)]
#[derive(Debug)]
enum Sleeping {
    #[phase(start, to(Awake))]
    Asleep,
    #[phase(end)]
    Awake,
}

impl SleepingTransitions for Nap {
    async fn asleep(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.sleep(self.time).await;
        Ok(())
    }
}

async fn end(how: Shutdown, naps: &[u64], within: u64) -> Result<usize, BoxError> {
    println!("{how:?} within {within} ms, naps of {naps:?} ms");
    let runtime = Runtime::new()?;
    let mut handles = Vec::new();
    for nap in naps {
        let time = Duration::from_millis(*nap);
        handles.push(runtime.submit(Nap { time }).start()?);
    }
    for handle in &handles {
        handle.reached([SleepingKind::Asleep]).await;
    }
    let begun = Instant::now();
    let report = runtime.shutdown(how, Duration::from_millis(within)).await;
    println!("  took {:.0?}", begun.elapsed());
    for fom in &report.remained {
        println!(
            "  had to be told: {} {} in {}",
            fom.operation, fom.id, fom.phase
        );
    }
    let mut told = 0;
    for handle in handles {
        match handle.await {
            Ok(ended) => println!("  {:?}", ended.end),
            Err(failure) => {
                println!("  {failure}");
                assert!(matches!(failure.cause, Cause::Shutdown));
                // Waiting foms give their operation back.
                assert!(failure.operation.is_some());
                told += 1;
            }
        }
    }
    // Afterwards the runtime takes no more foms, and gives the operation back.
    let refused = runtime
        .submit(Nap {
            time: Duration::ZERO,
        })
        .start()
        .unwrap_err();
    assert_eq!(refused.reason(), RefusedReason::ShuttingDown);
    println!("  {refused}\n");
    Ok(told)
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    run().await
}

/// The tests also run this in a simulation.
pub(crate) async fn run() -> Result<(), BoxError> {
    assert_eq!(end(Shutdown::Drain, &[20, 40], 5_000).await?, 0);
    assert_eq!(end(Shutdown::Drain, &[20, 100_000], 400).await?, 1);
    assert_eq!(end(Shutdown::Now, &[20_000, 100_000], 5_000).await?, 2);
    Ok(())
}
