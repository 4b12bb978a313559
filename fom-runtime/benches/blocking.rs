//! Some operations block. How much work do the others still get done?
//!
//! 128 flows of small operations (four times 190 ns of work) run in two workers. They run alone, and beside 64
//! operations that block for 5 ms at a time, which could be 12,800 times a second.
//!
//! A peer's flow is a task that yields between the four parts. In `fom` every operation is a fom of its own, which
//! submits the next one at its end. In `fom:turns` a flow is a fom with a budget of one phase. It goes to the tail
//! after each phase, as the peers' tasks do. Peers' workers are not pinned: pinning would keep threads that come back
//! from blocking off a free core.

#[path = "blocking/fom.rs"]
mod fom;
#[path = "blocking/limit.rs"]
mod limit;
#[path = "blocking/peers.rs"]
mod peers;

use std::{
    hint::black_box,
    process::ExitCode,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use kit::{
    Better, Case, Figures, Histogram, One, Question, Round, Row, Target, ask, family, mix, now,
};

const RATE: &str = "ops_per_s";
const P50: &str = "us_p50";
const P99: &str = "us_p99";
const BLOCKS_PER_S: &str = "blocks_per_s";

const QUESTION: Question = Question {
    name: "blocking",
    cases: &[
        Case {
            name: "none",
            rounds: 3,
            peers: &["tokio-mt", "tokio-ct", "smol", "limit", "fom", "fom:turns"],
        },
        Case {
            name: "64",
            rounds: 3,
            peers: &[
                "tokio-mt:in-place",
                "tokio-mt:spawn-blocking",
                "tokio-ct",
                "smol",
                "limit",
                "fom",
                "fom:turns",
            ],
        },
    ],
    rows: &[
        Row {
            question: "64 others block 5 ms each",
            unit: "share of the rate",
            value: |round, peer| to_own(round, peer, RATE),
            better: Better::More,
            fom: "fom",
            limit: "limit",
            target: Target {
                text: "0.95",
                absolute: Some(0.95),
                ..Target::NONE
            },
        },
        Row {
            question: "  p99 to that without",
            unit: "ratio",
            value: |round, peer| to_own(round, peer, P99),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target {
                text: "1.8",
                absolute: Some(1.8),
                ..Target::NONE
            },
        },
        Row {
            question: "  their blocks",
            unit: "a second",
            value: |round, peer| round.get("64", peer, BLOCKS_PER_S),
            better: Better::More,
            fom: "fom",
            limit: "limit",
            target: Target::NONE,
        },
        Row {
            question: "  small operations beside them",
            unit: "a second",
            value: |round, peer| round.get("64", peer, RATE),
            better: Better::More,
            fom: "fom",
            limit: "limit",
            target: Target::NONE,
        },
    ],
    run,
};

fn main() -> ExitCode {
    ask(&QUESTION)
}

/// Returns a figure with blockers as a fraction of the same peer's figure without.
fn to_own(round: &Round, peer: &str, figure: &str) -> Option<f64> {
    let without = match family(peer) {
        "fom" => peer,
        family => family,
    };
    Some(round.get("64", peer, figure)? / round.get("none", without, figure)?)
}

const WORKERS: usize = 2;
const FLOWS: usize = 128;
const BLOCKERS: usize = 64;

/// Whether latencies count.
static ON: AtomicBool = AtomicBool::new(false);
/// The number of calls that have blocked.
static BLOCKS: AtomicU64 = AtomicU64::new(0);

/// Returns the latencies for each worker. A flow belongs to the worker in which it began.
fn latencies() -> &'static [&'static Histogram; WORKERS] {
    static ALL: OnceLock<[&Histogram; WORKERS]> = OnceLock::new();
    ALL.get_or_init(|| [(); WORKERS].map(|()| Histogram::new()))
}

/// Does one part of an operation: about 190 ns.
fn work(x: u64) -> u64 {
    (0..WORK).fold(x, |x, _| mix(black_box(x)))
}

const WORK: u32 = 94;

/// Counts an operation that ended and that began at `begun`.
fn ended(flow: usize, begun: u64) {
    if ON.load(Ordering::Relaxed) {
        latencies()[flow % WORKERS].add(now() - begun);
    }
}

/// Blocks for 5 ms.
fn block() {
    thread::sleep(Duration::from_millis(5));
    BLOCKS.fetch_add(1, Ordering::Relaxed);
}

fn run(one: &One) -> Figures {
    let blockers = match &*one.case {
        "none" => 0,
        "64" => BLOCKERS,
        _ => one.unknown(),
    };
    match &*one.peer {
        "fom" | "fom:turns" => fom::start(&one.peer, blockers),
        "limit" => limit::start(blockers),
        peer => {
            if !peers::start(peer, blockers) {
                one.unknown();
            }
        }
    }
    thread::sleep(one.time(Duration::from_millis(300)));
    let blocks = BLOCKS.load(Ordering::Relaxed);
    ON.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    thread::sleep(one.time(Duration::from_secs(1)));
    ON.store(false, Ordering::Relaxed);
    let seconds = begun.elapsed().as_secs_f64();
    let blocks = BLOCKS.load(Ordering::Relaxed) - blocks;
    let all = Histogram::new();
    latencies()
        .iter()
        .for_each(|latencies| all.add_all(latencies));
    Figures::new()
        .with(RATE, all.count() as f64 / seconds)
        .with(P50, all.percentile(0.5) / 1e3)
        .with(P99, all.percentile(0.99) / 1e3)
        .with(BLOCKS_PER_S, blocks as f64 / seconds)
}
