//! A hundred thousand parked operations, each with a distant deadline: what does it cost to have them?
//!
//! Measures every peer of `timed/` over two idle seconds. One wake-up in two seconds would be visible.

mod timed;

use std::{process::ExitCode, thread, time::Duration};

use kit::{
    Better, Case, Figures, One, Question, Row, Target, ask, context_switches, cpu_time, settle,
};

const CPU: &str = "cpu_percent";
const WAKE_UPS: &str = "wake_ups_per_s";

const QUESTION: Question = Question {
    name: "idle",
    cases: &[Case {
        name: "100k",
        rounds: 1,
        peers: &[
            "tokio-mt", "tokio-ct", "smol", "glommio", "monoio", "limit", "fom",
        ],
    }],
    rows: &[
        Row {
            question: "idle with 100,000 parked operations",
            unit: "% of a core",
            value: |round, peer| round.get("100k", peer, CPU),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            // Reading the clocks takes less than a thousandth.
            target: Target {
                text: "0",
                absolute: Some(0.01),
                ..Target::NONE
            },
        },
        Row {
            question: "  its wake-ups",
            unit: "a second",
            value: |round, peer| round.get("100k", peer, WAKE_UPS),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target {
                text: "0",
                absolute: Some(0.0),
                ..Target::NONE
            },
        },
    ],
    run,
};

fn main() -> ExitCode {
    ask(&QUESTION)
}

fn run(one: &One) -> Figures {
    let operations = one.size(100_000, 10_000);
    let Some(mut parked) = timed::start(&one.peer, operations) else {
        one.unknown();
    };
    settle();
    parked.park();
    settle();
    // A runtime may give memory back after a burst. That is work, and comes to an end.
    thread::sleep(one.time(Duration::from_secs(1)));
    let (switches, cpu) = (context_switches(), cpu_time());
    let span = one.time(Duration::from_secs(2));
    thread::sleep(span);
    let (switches, cpu) = (context_switches() - switches, cpu_time() - cpu);
    // One switch is this thread's own sleep.
    let switches = switches.saturating_sub(1);
    // All operations are still there.
    assert_eq!(parked.ended(), 0);
    parked.wake();
    settle();
    assert_eq!(parked.ended(), operations as u64);
    Figures::new()
        .with(CPU, 100.0 * cpu.as_secs_f64() / span.as_secs_f64())
        .with(WAKE_UPS, switches as f64 / span.as_secs_f64())
}
