//! What balancing does for a machine of two packages with four caches of eight cores each, in a simulation. The example
//! runs six loads, and shows what is moved to spread them.
//!
//! `cargo run --release --example balancing`. With `-- --svg FILE` it also draws the longest waits.

mod simulation;

mod drawing;

use fom_runtime::{balance::Balance, prelude::*, topology::Machine};
use simulation::{Outcome, Simulation, loads::Load, percentile};

/// The time in which foms arrive, in nanoseconds.
const TIME: u64 = 20_000_000;

const POLICIES: [(&str, Balance); 4] = [
    ("off", Balance::Off),
    ("foms", Balance::Foms),
    ("processors", Balance::Processors),
    ("both", Balance::Both),
];

pub(crate) fn main() -> Result<(), BoxError> {
    let machine = Machine::synthetic(2, 4, 8, 1);
    let runs = runs(&machine);
    println!("{machine}\n{}", table(&runs));
    let mut arguments = std::env::args().skip_while(|argument| argument != "--svg");
    if let Some(file) = arguments.nth(1) {
        let rows: Vec<_> = runs
            .iter()
            .map(|(load, outcomes)| {
                let times = outcomes.each_ref().map(|outcome| outcome.wait(99.0));
                (load.name(), times)
            })
            .collect();
        let names = POLICIES.map(|(name, _)| name);
        std::fs::write(file, drawing::bars(&names, &rows))?;
    }
    Ok(())
}

/// Runs each load with each policy.
pub(crate) fn runs(machine: &Machine) -> Vec<(Load, [Outcome; 4])> {
    let run = |load: Load| {
        let arrivals = load.arrivals(machine.cores(), TIME, 1);
        POLICIES.map(|(_, balance)| Simulation::new(machine, balance).run(&arrivals, TIME))
    };
    Load::ALL.map(|load| (load, run(load))).into()
}

pub(crate) fn table(runs: &[(Load, [Outcome; 4])]) -> String {
    let mut table = format!(
        "{:<13} {:<11} {:>8} {:>9} {:>10} {:>11} {:>7} {:>6} {:>6} {:>5}",
        "load",
        "moved",
        "foms/s",
        "p50 wait",
        "p99 wait",
        "hot key p99",
        "longest",
        "moves",
        "foms",
        "loans"
    );
    for (load, outcomes) in runs {
        for ((policy, _), outcome) in POLICIES.iter().zip(outcomes) {
            table += &format!("\n{:<13} {policy:<11} {}", load.name(), row(outcome));
        }
    }
    table
}

fn row(outcome: &Outcome) -> String {
    let hot = if outcome.hot_waits.is_empty() {
        "-".to_owned()
    } else {
        micros(percentile(&outcome.hot_waits, 99.0))
    };
    format!(
        "{:>7.2}M {:>9} {:>10} {hot:>11} {:>7} {:>6} {:>5.0}% {:>5}",
        outcome.throughput / 1e6,
        micros(outcome.wait(50.0)),
        micros(outcome.wait(99.0)),
        outcome.worst_queue,
        outcome.moves,
        outcome.moved as f64 * 100.0 / outcome.waits.len() as f64,
        outcome.loans,
    )
}

fn micros(nanos: u64) -> String {
    format!("{} us", nanos / 1_000)
}
