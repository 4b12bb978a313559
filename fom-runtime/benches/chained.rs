//! Chained requests: each operation calls a service three times, one call after the other. What does a call cost, and
//! how long does an operation wait for its turn after its answer came?
//!
//! One worker has one core. The service is a thread on another core; it takes requests from a channel and answers them.
//! The number of operations in flight is constant: an operation that ends starts the next. The wake is the time from
//! just before the service answers until the operation runs again, measured for every 16th call.

#[path = "chained/fom.rs"]
mod fom;
#[path = "chained/limit.rs"]
mod limit;
#[path = "chained/peers.rs"]
mod peers;
#[path = "chained/service.rs"]
mod service;

use std::{process::ExitCode, time::Duration};

use kit::{Better, Case, Figures, Histogram, One, Question, Row, Tally, Target, ask, measure};

const PEERS: &[&str] = &[
    "tokio-mt",
    "tokio-mt:slot",
    "tokio-ct",
    "tokio-ct:slot",
    "tokio-ct:local",
    "tokio-ct:local-slot",
    "smol",
    "smol:slot",
    "smol:local-slot",
    "glommio",
    "glommio:slot",
    "monoio",
    "monoio:slot",
    "limit",
    "fom",
    "fom:events",
];

const QUESTION: Question = Question {
    name: "chained",
    cases: &[
        Case {
            name: "10000",
            rounds: 3,
            peers: PEERS,
        },
        Case {
            name: "64",
            rounds: 3,
            peers: PEERS,
        },
    ],
    rows: &[
        Row {
            question: "chained requests by `cx.call`, 10,000 in flight",
            unit: "ns a call",
            value: |round, peer| round.get("10000", peer, "ns_per_call"),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target {
                text: "85",
                of_tokio: Some(85.0 / 257.0),
                of_limit: Some(85.0 / 50.0),
                absolute: None,
            },
        },
        Row {
            question: "  p99 of the wake",
            unit: "us",
            value: |round, peer| Some(round.get("10000", peer, "wake_p99_ns")? / 1e3),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target {
                text: "1000",
                of_tokio: Some(1.0 / 2.8),
                of_limit: Some(1.0 / 0.6),
                absolute: None,
            },
        },
        Row {
            question: "  the answer comes as an event, 10,000 in flight",
            unit: "ns a call",
            value: |round, peer| round.get("10000", peer, "ns_per_call"),
            better: Better::Less,
            fom: "fom:events",
            limit: "limit",
            target: Target::NONE,
        },
        Row {
            question: "  the answer comes as an event, p99 of the wake",
            unit: "us",
            value: |round, peer| Some(round.get("10000", peer, "wake_p99_ns")? / 1e3),
            better: Better::Less,
            fom: "fom:events",
            limit: "limit",
            target: Target::NONE,
        },
        Row {
            question: "  64 in flight",
            unit: "ns a call",
            value: |round, peer| round.get("64", peer, "ns_per_call"),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target::NONE,
        },
        Row {
            question: "  64 in flight, p50 of the wake",
            unit: "us",
            value: |round, peer| Some(round.get("64", peer, "wake_p50_ns")? / 1e3),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target::NONE,
        },
    ],
    run,
};

/// The number of calls of an operation.
const CALLS: u32 = 3;

fn main() -> ExitCode {
    ask(&QUESTION)
}

/// The number of operations in flight, the count of ended ones, and the durations of the wakes.
#[derive(Clone, Copy)]
struct Load {
    flying: usize,
    ended: &'static Tally,
    wakes: &'static Histogram,
}

fn run(one: &One) -> Figures {
    let flying = match &*one.case {
        "10000" => 10_000,
        "64" => 64,
        _ => one.unknown(),
    };
    let tallies = Tally::of(1);
    let load = Load {
        flying,
        ended: &tallies[0],
        wakes: Histogram::new(),
    };
    match &*one.peer {
        "limit" => limit::start(load),
        "fom" | "fom:events" => fom::start(load, &one.peer),
        peer => peers::start(load, peer),
    }
    let warm = one.time(Duration::from_millis(200));
    std::thread::sleep(warm);
    load.wakes.clear();
    let spent = measure(
        tallies,
        Duration::ZERO,
        one.time(Duration::from_millis(500)),
    );
    spent
        .figures("call", u64::from(CALLS))
        .with("wake_p50_ns", load.wakes.percentile(0.50))
        .with("wake_p99_ns", load.wakes.percentile(0.99))
        .with("wake_p999_ns", load.wakes.percentile(0.999))
}
