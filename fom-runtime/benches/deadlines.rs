//! A million deadlines. Some never fire: how large is an operation with a deadline, and what do arming and cancelling
//! cost? Others fire within one second: what does each cost in all, and how late is it?
//!
//! - `never`: every peer of `timed/`. Bytes are the growth of the process, with everything needed to wake each
//!   operation.
//! - `sleep`: all are spawned at once, each with a time of its own; they fire one after another, the first after two
//!   seconds.
//! - `random`: as `sleep`, with the times in random order. That is the load of a server whose deadlines differ.
//! - `within`: each has two seconds from its spawning, and they are spawned within one second: a thousand times a
//!   thousand. That is the purpose of fom's `within`, and the load of a server.
//!
//! Lateness is measured on the wall clock, from the time at which the deadline should have fired.

mod firing;
mod timed;

use std::{process::ExitCode, time::Duration};

use kit::{
    Better, Case, Figures, One, Question, Row, Spent, Target, ask, percentile, resident_bytes,
    settle,
};

const PEERS: &[&str] = &[
    "tokio-mt", "tokio-ct", "smol", "glommio", "monoio", "limit", "fom",
];

const BYTES: &str = "bytes";
const PARK: &str = "cpu_ns_park";
const WAKE: &str = "cpu_ns_wake";
const CPU: &str = "cpu_ns";
const P50: &str = "late_ms_p50";
const P99: &str = "late_ms_p99";

const QUESTION: Question = Question {
    name: "deadlines",
    cases: &[
        Case {
            name: "never",
            rounds: 3,
            peers: &[
                "tokio-mt",
                "tokio-mt:oneshot",
                "tokio-ct",
                "tokio-ct:oneshot",
                "smol",
                "glommio",
                "monoio",
                "limit",
                "fom",
            ],
        },
        Case {
            name: "sleep",
            rounds: 3,
            peers: PEERS,
        },
        Case {
            name: "random",
            rounds: 3,
            peers: PEERS,
        },
        Case {
            name: "within",
            rounds: 3,
            peers: PEERS,
        },
    ],
    rows: &[
        Row {
            question: "a deadline that never fires, 64 bytes of state",
            unit: "bytes",
            value: |round, peer| round.get("never", peer, BYTES),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target {
                text: "112",
                absolute: Some(112.0),
                ..Target::NONE
            },
        },
        Row {
            question: "  to park and arm",
            unit: "CPU ns",
            value: |round, peer| round.get("never", peer, PARK),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target {
                text: "100",
                of_tokio: Some(100.0 / 1038.0),
                of_limit: Some(100.0 / 35.0),
                absolute: None,
            },
        },
        Row {
            question: "  to wake from the same locality, and cancel",
            unit: "CPU ns",
            value: |round, peer| round.get("never", peer, WAKE),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target {
                text: "60",
                of_tokio: Some(60.0 / 790.0),
                of_limit: Some(60.0 / 6.0),
                absolute: None,
            },
        },
        Row {
            question: "1,000,000 that fire within 1 s, in the order of their spawning",
            unit: "CPU ns",
            value: |round, peer| round.get("within", peer, CPU),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: FIRE,
        },
        Row {
            question: "  within, p99 late",
            unit: "ms",
            value: |round, peer| round.get("within", peer, P99),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: LATE,
        },
        Row {
            question: "  all spawned at once, deadlines in the order of their spawning",
            unit: "CPU ns",
            value: |round, peer| round.get("sleep", peer, CPU),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: FIRE,
        },
        Row {
            question: "  all spawned at once, in order, p99 late",
            unit: "ms",
            value: |round, peer| round.get("sleep", peer, P99),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: LATE,
        },
        Row {
            question: "  all spawned at once, deadlines in random order",
            unit: "CPU ns",
            value: |round, peer| round.get("random", peer, CPU),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: RANDOM,
        },
        Row {
            question: "  random order, p99 late",
            unit: "ms",
            value: |round, peer| round.get("random", peer, P99),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: RANDOM_LATE,
        },
    ],
    run,
};

/// Measured when the targets were set: tokio 3,297, the limit 273.
const FIRE: Target = Target {
    text: "550",
    of_tokio: Some(550.0 / 3297.0),
    of_limit: Some(550.0 / 273.0),
    absolute: None,
};
/// Measured when the targets were set: tokio 4,262 and the limit 418, 1.4 ms late.
const RANDOM: Target = Target {
    text: "800",
    of_tokio: Some(800.0 / 4262.0),
    of_limit: Some(800.0 / 418.0),
    absolute: None,
};
const RANDOM_LATE: Target = Target {
    text: "3",
    of_tokio: None,
    of_limit: Some(3.0 / 1.4),
    absolute: None,
};
const LATE: Target = Target {
    text: "2",
    of_tokio: Some(2.0 / 474.0),
    of_limit: Some(2.0 / 1.2),
    absolute: None,
};

fn main() -> ExitCode {
    ask(&QUESTION)
}

fn run(one: &One) -> Figures {
    let operations = one.size(1_000_000, 20_000);
    match &*one.case {
        "never" => never(one, operations),
        "sleep" => fire(one, operations, firing::Spawn::AtOnce),
        "random" => fire(one, operations, firing::Spawn::Shuffled),
        "within" => fire(one, operations, firing::Spawn::Spread),
        _ => one.unknown(),
    }
}

fn never(one: &One, operations: usize) -> Figures {
    let Some(mut parked) = timed::start(&one.peer, operations) else {
        one.unknown();
    };
    settle();
    let before = resident_bytes();
    let park = Spent::on(|| {
        parked.park();
        settle();
        operations as u64
    });
    let bytes = resident_bytes() - before;
    let wake = Spent::on(|| {
        parked.wake();
        settle();
        operations as u64
    });
    assert_eq!(parked.ended(), operations as u64);
    Figures::new()
        .with(BYTES, bytes as f64 / operations as f64)
        .with(PARK, park.cpu_ns(1))
        .with(WAKE, wake.cpu_ns(1))
}

fn fire(one: &One, operations: usize, spawn: firing::Spawn) -> Figures {
    let plan = firing::Plan::new(operations, spawn);
    let spent = Spent::on(|| {
        if !firing::start(&one.peer, plan) {
            one.unknown();
        }
        plan.wait();
        operations as u64
    });
    let late = plan.lateness();
    Figures::new()
        .with(CPU, spent.cpu_ns(1))
        .with(P50, percentile(&late, 0.5) / 1e6)
        .with(P99, percentile(&late, 0.99) / 1e6)
}

/// The time before the first deadline, and the time over which the deadlines are spread.
const LEAD: Duration = Duration::from_secs(2);
const SPREAD: Duration = Duration::from_secs(1);
