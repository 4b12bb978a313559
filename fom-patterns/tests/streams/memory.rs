//! Streams: what idle keys leave behind.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use fom_patterns::{
    prelude::*,
    streams::{KeyedStream, StreamOptions},
};
use fom_runtime::config::Shutdown;

use crate::kit::alone::alone;
use crate::kit::{limited, secs};

/// One step, and no more.
struct Step(Arc<AtomicU64>);

#[fom(operation(Step), transient)]
enum Stepping {
    #[phase(start, sync, to(Stepped))]
    Step,
    #[phase(end)]
    Stepped,
}

impl SteppingTransitions for Step {
    fn step(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|kb| kb.parse().ok())
        .unwrap_or(0)
}

/// KY-03: ten million keys, each used once, leave the memory of the process as it was.
#[test]
fn keys_that_are_idle_cost_no_memory() {
    alone(|| {
        limited(|| async {
            let runtime = Runtime::builder().localities(2).pin(false).build().unwrap();
            let stream =
                KeyedStream::<Step, u64>::new(&runtime, StreamOptions::default().bound(10_000));
            let steps = Arc::default();
            let mut producer = stream.producer();
            let most = if cfg!(debug_assertions) {
                500_000
            } else {
                10_000_000
            };
            let mut before = 0;
            for key in 0..most {
                producer
                    .push_blocking(key, Step(Arc::clone(&steps)))
                    .unwrap();
                if key == most / 10 {
                    before = resident_kb();
                }
            }
            producer.flush().unwrap();
            let grown = resident_kb().saturating_sub(before);
            assert!(grown < 8_192, "grown by {grown} KiB");
            runtime.shutdown(Shutdown::Drain, secs(20)).await;
            assert_eq!(steps.load(Ordering::Relaxed), most);
        });
    });
}

/// The memory of a burst of requests goes back to the system while the runtime lives.
#[cfg(target_os = "linux")]
#[test]
fn a_burst_of_requests_costs_no_memory() {
    let test = "memory::a_burst_of_requests_costs_no_memory";
    crate::kit::bursts::returns(
        test,
        |builder, _| builder,
        |runtime, requests| {
            let options = StreamOptions::default().bound(requests);
            let stream = KeyedStream::<Step, u64>::new(runtime, options);
            let steps = Arc::default();
            let mut producer = stream.producer();
            for key in 0..requests as u64 {
                let step = Step(Arc::clone(&steps));
                producer.push_blocking(key, step).unwrap();
            }
            producer.flush().unwrap();
        },
    );
}
