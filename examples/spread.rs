//! A load on one locality only, with and without moving foms, and an even load, which the runtime leaves alone.
//!
//! `cargo run --release --example spread`

use std::{
    convert::Infallible,
    hint::spin_loop,
    time::{Duration, Instant},
};

use fom_runtime::{balance::Balance, prelude::*};

/// Runs of each load, with and without in turn.
const ROUNDS: usize = 9;
const FOMS: usize = 1_000;

/// Computes for a while.
struct Sum {
    time: Duration,
}

#[fom(operation(Sum), error(Infallible), transient)]
enum Summing {
    #[phase(start, to(Done), sync)]
    Compute,
    #[phase(end)]
    Done,
}

impl SummingTransitions for Sum {
    fn compute(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        let begun = Instant::now();
        while begun.elapsed() < self.time {
            spin_loop();
        }
        Ok(())
    }
}

/// Returns how long the fom of this number computes.
type Load = fn(usize) -> Duration;

const LOADS: [(&str, Load); 2] = [
    ("all alike", |_| Duration::from_micros(20)),
    // Round-robin: so all long foms are in the first locality.
    ("every other takes long", |n| {
        Duration::from_micros(if n % 2 == 0 { 38 } else { 2 })
    }),
];

/// Returns how long all foms take together.
async fn time(runtime: &Runtime, load: Load) -> Result<Duration, BoxError> {
    let begun = Instant::now();
    for n in 0..FOMS {
        let sum = runtime.submit(Sum { time: load(n) });
        sum.place(Placement::RoundRobin).detach()?;
    }
    runtime.idle().await;
    Ok(begun.elapsed())
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    let build = |balance| Runtime::builder().localities(2).balance(balance).build();
    let (still, moving) = (build(Balance::Off)?, build(Balance::Foms)?);
    for (name, load) in LOADS {
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let without = time(&still, load).await?;
            let with = time(&moving, load).await?;
            ratios.push(with.as_secs_f64() / without.as_secs_f64());
        }
        ratios.sort_by(f64::total_cmp);
        println!(
            "{name}: moving foms takes {:.2} of the time without ({:.2} to {:.2})",
            ratios[ROUNDS / 2],
            ratios[0],
            ratios[ROUNDS - 1]
        );
    }
    Ok(())
}
