//! Does the cost grow with the work? Throughput against operations in flight, localities, phases, state, and blocking.
//!
//! The operations are those of `spawn`, with one property varied at a time. The base is 4096 in flight in each of two
//! workers, 4 phases, 8 bytes of state, and no blocking. The name of a case is the varied property and its value, which
//! is also the figure `x`. Tokio's tasks yield between two phases. A blocking operation blocks for 1 ms in one of its
//! phases. A fom does so in a `blocking` phase. A task of tokio does so in `spawn_blocking`, or in `block_in_place`
//! (`tokio-mt:in-place`).

#[path = "growth/fom.rs"]
mod fom;
#[path = "growth/tasks.rs"]
mod tasks;

use std::{process::ExitCode, time::Duration};

use kit::{
    Better, Case, Figures, One, Question, Row, Target, ask, measure, peers::Load, resident_bytes,
};

const PEERS: &[&str] = &["tokio-mt", "fom"];
const BLOCKING: &[&str] = &["tokio-mt", "tokio-mt:in-place", "fom"];

const fn case(name: &'static str) -> Case {
    Case {
        name,
        rounds: 3,
        peers: PEERS,
    }
}

const fn blocking(name: &'static str) -> Case {
    Case {
        name,
        rounds: 3,
        peers: BLOCKING,
    }
}

const QUESTION: Question = Question {
    name: "growth",
    cases: &[
        case("in_flight 1"),
        case("in_flight 4"),
        case("in_flight 16"),
        case("in_flight 64"),
        case("in_flight 256"),
        case("in_flight 1024"),
        case("in_flight 4096"),
        case("in_flight 16384"),
        case("in_flight 65536"),
        case("in_flight 262144"),
        case("in_flight 1000000"),
        case("in_flight 4000000"),
        case("localities 1"),
        case("localities 2"),
        case("localities 4"),
        case("localities 8"),
        case("phases 1"),
        case("phases 2"),
        case("phases 4"),
        case("phases 8"),
        case("phases 16"),
        case("phases 32"),
        case("phases 64"),
        case("state_bytes 8"),
        case("state_bytes 64"),
        case("state_bytes 256"),
        case("state_bytes 1024"),
        case("state_bytes 4096"),
        blocking("blocking_percent 0"),
        blocking("blocking_percent 1"),
        blocking("blocking_percent 5"),
        blocking("blocking_percent 10"),
        blocking("blocking_percent 20"),
        blocking("blocking_percent 50"),
    ],
    rows: &[
        row("growth, 1,000,000 in flight by 4096", |round, peer| {
            Some(
                round.get("in_flight 1000000", peer, RATE)?
                    / round.get("in_flight 4096", peer, RATE)?,
            )
        }),
        row("  4,000,000 in flight, by 16,384", |round, peer| {
            Some(
                round.get("in_flight 4000000", peer, RATE)?
                    / round.get("in_flight 16384", peer, RATE)?,
            )
        }),
        row(
            "  8 localities or workers on two cores, by 2",
            |round, peer| {
                Some(
                    round.get("localities 8", peer, RATE)?
                        / round.get("localities 2", peer, RATE)?,
                )
            },
        ),
        row("  64 phases, by 4: phases a second", |round, peer| {
            let per_phase = |case| round.get(case, peer, "ns_per_phase");
            Some(per_phase("phases 4")? / per_phase("phases 64")?)
        }),
        row("  4096 bytes of state, by 64", |round, peer| {
            Some(
                round.get("state_bytes 4096", peer, RATE)?
                    / round.get("state_bytes 64", peer, RATE)?,
            )
        }),
        Row {
            unit: "a second",
            ..row("  4096 bytes of state: operations", |round, peer| {
                round.get("state_bytes 4096", peer, RATE)
            })
        },
    ],
    run,
};

/// Growth has no target of its own: its results are the plots.
const fn row(question: &'static str, value: fn(&kit::Round, &str) -> Option<f64>) -> Row {
    Row {
        question,
        unit: "ratio of rates",
        value,
        better: Better::More,
        fom: "fom",
        limit: "",
        target: Target {
            text: "",
            of_tokio: None,
            of_limit: None,
            absolute: None,
        },
    }
}

const RATE: &str = "ops_per_s";

/// How long a blocking operation blocks.
const BLOCK: Duration = Duration::from_millis(1);

fn main() -> ExitCode {
    ask(&QUESTION)
}

/// The varied properties.
#[derive(Clone, Copy)]
struct Shape {
    load: Load,
    state_bytes: usize,
    blocking_percent: u64,
}

fn run(one: &One) -> Figures {
    let Some((varied, x)) = one.case.split_once(' ') else {
        one.unknown()
    };
    let x: usize = x.parse().unwrap_or_else(|_| one.unknown());
    let with = |workers, phases, window| Shape {
        load: Load::new(workers, phases, window),
        state_bytes: 8,
        blocking_percent: 0,
    };
    let usual = with(2, 4, 4096);
    let shape = match varied {
        // `x` is the number in all workers together. A single operation needs a single worker.
        "in_flight" if x == 1 => with(1, 4, 1),
        "in_flight" => with(2, 4, x / 2),
        "localities" => with(x, 4, 4096),
        "phases" => with(2, x as u32, 4096),
        "state_bytes" => Shape {
            state_bytes: x,
            ..usual
        },
        "blocking_percent" => Shape {
            blocking_percent: x as u64,
            ..with(2, 4, 128)
        },
        _ => one.unknown(),
    };
    let before = resident_bytes();
    match &*one.peer {
        "fom" => fom::start(shape),
        "tokio-mt" => tasks::start(shape, false),
        "tokio-mt:in-place" => tasks::start(shape, true),
        _ => one.unknown(),
    }
    // The first million takes its time. And many operations may end together.
    let (warm, span) = match varied {
        "in_flight" if x > 1_000_000 => (3_000, 3_000),
        "in_flight" if x > 100_000 => (600, 2_000),
        _ => (100, 250),
    };
    let spent = measure(
        shape.load.tallies,
        one.time(Duration::from_millis(warm)),
        one.time(Duration::from_millis(span)),
    );
    let figures = spent
        .figures("phase", u64::from(shape.load.phases))
        .with("x", x as f64)
        .with(RATE, 1e9 / spent.ns(1));
    // Fewer are lost among the other memory of the process.
    match varied {
        "in_flight" if x >= 10_000 => figures.with(
            "bytes_per_op",
            (resident_bytes() - before) as f64 / x as f64,
        ),
        _ => figures,
    }
}
