//! A stream of requests over many keys, in order for each key. How many are served per second? What does one cost,
//! besides its work?
//!
//! One thread submits 2,000,000 requests for 10,000 keys, and two workers serve them. Each request is about 190 ns of
//! work. Every request checks that it is the next of its key, and that no other request of its key runs. A peer that
//! breaks this rule fails. `shard` has a channel for each worker and hashes the key; `shard64` has 64 channels.
//! `perkey` has a permanent task for each key. `ondemand` has a queue for each key with requests, and a task that
//! empties it. `fom:queue` submits each request with its key, as a newcomer does first. Shards cannot wait: a waiting
//! request holds up all keys of its shard. In the case `waiting` every other request of one key waits for 1 ms: how much
//! of its rate does each peer keep?

#[path = "keyed/fom.rs"]
mod fom;
#[path = "keyed/limit.rs"]
mod limit;
#[path = "keyed/load.rs"]
mod load;
#[path = "keyed/peers.rs"]
mod peers;

use std::process::ExitCode;

use kit::{Better, Case, Figures, One, Question, Row, Target, ask};
use load::Load;

const PEERS: &[&str] = &[
    "tokio-mt:shard",
    "tokio-mt:many",
    "tokio-mt:shard64",
    "tokio-mt:perkey",
    "tokio-mt:ondemand",
    "smol:shard",
    "smol:perkey",
    "limit",
    "fom",
    "fom:single",
    "fom:queue",
];

/// The peers that can wait, and a shard for comparison.
const PATIENT: &[&str] = &[
    "tokio-mt:shard",
    "tokio-mt:shard64",
    "tokio-mt:perkey",
    "tokio-mt:ondemand",
    "fom",
];

const QUESTION: Question = Question {
    name: "keyed",
    cases: &[
        Case {
            name: "uniform",
            rounds: 5,
            peers: PEERS,
        },
        Case {
            name: "zipf",
            rounds: 5,
            peers: PEERS,
        },
        Case {
            name: "waiting",
            rounds: 3,
            peers: PATIENT,
        },
    ],
    rows: &[
        Row {
            question: "requests over 10,000 keys through a stream, uniform",
            unit: "million/s",
            value: |round, peer| round.get("uniform", peer, RATE),
            better: Better::More,
            fom: "fom",
            limit: "limit",
            target: Target {
                text: "9.0",
                of_tokio: Some(9.0 / 7.6),
                of_limit: Some(9.0 / 10.5),
                absolute: None,
            },
        },
        Row {
            question: "  Zipf 1.1",
            unit: "million/s",
            value: |round, peer| round.get("zipf", peer, RATE),
            better: Better::More,
            fom: "fom",
            limit: "limit",
            target: Target {
                text: "7.3",
                of_tokio: Some(7.3 / 5.8),
                of_limit: Some(7.3 / 7.9),
                absolute: None,
            },
        },
        Row {
            question: "  by `.key(k).queue()` without a stream, uniform",
            unit: "million/s",
            value: |round, peer| round.get("uniform", peer, RATE),
            better: Better::More,
            fom: "fom:queue",
            limit: "limit",
            target: QUEUED,
        },
        Row {
            question: "  by `.key(k).queue()` without a stream, Zipf 1.1",
            unit: "million/s",
            value: |round, peer| round.get("zipf", peer, RATE),
            better: Better::More,
            fom: "fom:queue",
            limit: "limit",
            target: QUEUED,
        },
        Row {
            question: "  the same beside a queue and a task for each key with requests, uniform",
            unit: "million/s",
            value: |round, peer| queues_of_keys(round.get("uniform", peer, RATE), peer),
            better: Better::More,
            fom: "fom:queue",
            limit: "",
            target: Target::NONE,
        },
        Row {
            question: "  the same beside a queue and a task for each key with requests, Zipf 1.1",
            unit: "million/s",
            value: |round, peer| queues_of_keys(round.get("zipf", peer, RATE), peer),
            better: Better::More,
            fom: "fom:queue",
            limit: "",
            target: Target::NONE,
        },
        Row {
            question: "  processor time beside the work, uniform",
            unit: "ns a request",
            value: |round, peer| round.get("uniform", peer, BESIDE),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target {
                text: "35",
                of_tokio: None,
                of_limit: None,
                absolute: Some(35.0),
            },
        },
        Row {
            question: "  while one key waits for 1 ms now and then",
            unit: "million/s",
            value: |round, peer| round.get("waiting", peer, RATE),
            better: Better::More,
            fom: "fom",
            limit: "limit",
            target: Target {
                text: "",
                of_tokio: None,
                of_limit: None,
                absolute: None,
            },
        },
    ],
    run,
};

/// A figure of the machine on which the limit makes 10.5.
const QUEUED: Target = Target {
    text: "5.0",
    of_tokio: None,
    of_limit: Some(5.0 / 10.5),
    absolute: None,
};

const RATE: &str = "million_per_s";
const BESIDE: &str = "beside_ns_per_request";

/// Returns the figure of a peer that has a queue for each key with requests, in which a request can wait.
fn queues_of_keys(figure: Option<f64>, peer: &str) -> Option<f64> {
    figure.filter(|_| ["tokio-mt:ondemand", "fom:queue"].contains(&peer))
}

fn main() -> ExitCode {
    ask(&QUESTION)
}

fn run(one: &One) -> Figures {
    let requests = one.size(2_000_000, 20_000);
    let load = match &*one.case {
        "uniform" | "waiting" => Load::uniform(requests),
        "zipf" => Load::zipf(requests),
        _ => one.unknown(),
    };
    let work = load.work_ns();
    let spent = match &*one.peer {
        "limit" => limit::serve(load),
        "fom" | "fom:single" | "fom:queue" => fom::serve(load, &one.case, &one.peer),
        peer => peers::serve(load, &one.case, peer),
    };
    load.check();
    Figures::new()
        .with(RATE, 1e3 / spent.ns(1))
        .with("cpu_ns_per_request", spent.cpu_ns(1))
        .with(BESIDE, spent.cpu_ns(1) - work)
}
