//! A million parked operations with 64 bytes of state. How much memory does each take, including what wakes it, and
//! what does it cost to wake all of them?
//!
//! There are two workers, each with a generator that starts its half, 1024 at a time. Each operation waits for an event
//! of its own, and its generator keeps a sender or handle of the event. Then the main thread wakes all, in turns from
//! both halves, and waits for the last to end. Bytes are the growth of resident memory.

#[path = "parked/fom.rs"]
mod fom;
#[path = "parked/limit.rs"]
mod limit;
#[path = "parked/peers.rs"]
mod peers;

use std::{process::ExitCode, sync::mpsc, thread, time::Duration};

use kit::{Better, Case, Figures, One, Question, Row, Spent, Tally, Target, ask, resident_bytes};

const PEERS: &[&str] = &[
    "tokio-mt",
    "tokio-ct",
    "tokio-ct:local",
    "smol",
    "smol:local",
    "glommio",
    "monoio",
    "limit",
    "limit:slab",
    "fom",
    "fom:async",
];

const QUESTION: Question = Question {
    name: "parked",
    cases: &[
        Case {
            name: "1M",
            rounds: 3,
            peers: PEERS,
        },
        Case {
            name: "data",
            rounds: 3,
            peers: PEERS,
        },
    ],
    rows: &[
        Row {
            question: "1,000,000 parked, 64 bytes of state, an event without data, sync phases",
            unit: "bytes each",
            value: |round, peer| round.get("1M", peer, "bytes_per_op"),
            better: Better::Less,
            fom: "fom",
            limit: "limit:slab",
            target: Target {
                text: "96",
                of_tokio: None,
                of_limit: None,
                absolute: Some(96.0),
            },
        },
        Row {
            question: "  an event with 32 bytes of data, sync phases",
            unit: "bytes each",
            value: |round, peer| round.get("data", peer, "bytes_per_op"),
            better: Better::Less,
            fom: "fom",
            limit: "limit:slab",
            target: Target::NONE,
        },
        Row {
            question: "  an event with 32 bytes of data, async phases",
            unit: "bytes each",
            value: |round, peer| round.get("data", peer, "bytes_per_op"),
            better: Better::Less,
            fom: "fom:async",
            limit: "limit:slab",
            target: Target::NONE,
        },
        Row {
            question: "  an event without data, async phases",
            unit: "bytes each",
            value: |round, peer| round.get("1M", peer, "bytes_per_op"),
            better: Better::Less,
            fom: "fom:async",
            limit: "limit:slab",
            target: Target {
                text: "future + 48",
                of_tokio: None,
                of_limit: None,
                absolute: None,
            },
        },
        Row {
            question: "  beyond the future (async phases)",
            unit: "bytes each",
            value: |round, peer| {
                Some(
                    round.get("1M", peer, "bytes_per_op")?
                        - round.get("1M", peer, "future_bytes")?,
                )
            },
            better: Better::Less,
            fom: "fom:async",
            limit: "",
            target: Target {
                text: "48",
                of_tokio: None,
                of_limit: None,
                absolute: Some(48.0),
            },
        },
        Row {
            question: "  waking all from a thread outside, sync phases",
            unit: "ns each",
            value: |round, peer| round.get("1M", peer, "ns_per_wake"),
            better: Better::Less,
            fom: "fom",
            limit: "limit:slab",
            target: Target {
                text: "40",
                of_tokio: Some(40.0 / 408.0),
                of_limit: Some(40.0 / 27.0),
                absolute: None,
            },
        },
        Row {
            question: "  waking all from a thread outside, async phases",
            unit: "ns each",
            value: |round, peer| round.get("1M", peer, "ns_per_wake"),
            better: Better::Less,
            fom: "fom:async",
            limit: "limit:slab",
            target: Target::NONE,
        },
    ],
    run,
};

const WORKERS: usize = 2;
/// The number started at a time. Those have parked before the next ones are started.
const BATCH: usize = 1024;

fn main() -> ExitCode {
    ask(&QUESTION)
}

/// The state that an operation keeps while it waits.
type State = [u64; 8];

fn state(n: u64) -> State {
    std::array::from_fn(|place| n + place as u64)
}

/// The work of each generator.
struct Load<H> {
    /// The number of operations in each worker.
    each: usize,
    /// The number of ended operations, for each worker.
    ended: &'static [Tally],
    /// Takes the handles that wake the operations, once all are parked.
    parked: mpsc::Sender<(usize, Vec<H>)>,
}

impl<H> Clone for Load<H> {
    fn clone(&self) -> Self {
        Self {
            each: self.each,
            ended: self.ended,
            parked: self.parked.clone(),
        }
    }
}

/// Parks and wakes: `start` starts the workers, `wake` wakes one operation.
fn measure<H>(one: &One, start: impl FnOnce(Load<H>), wake: impl Fn(H)) -> Figures {
    let each = one.size(1_000_000, 20_000) / WORKERS;
    let all = (each * WORKERS) as u64;
    let ended = Tally::of(WORKERS);
    let (parked, told) = mpsc::channel();
    let mut before = 0;
    let mut halves = Vec::new();
    let parking = Spent::on(|| {
        before = resident_bytes();
        start(Load {
            each,
            ended,
            parked,
        });
        halves = told.into_iter().take(WORKERS).collect();
        all
    });
    let bytes = resident_bytes() - before;
    halves.sort_by_key(|(worker, _)| *worker);
    let mut halves: Vec<_> = halves
        .into_iter()
        .map(|(_, handles)| handles.into_iter())
        .collect();
    let waking = Spent::on(|| {
        for _ in 0..each {
            halves.iter_mut().filter_map(Iterator::next).for_each(&wake);
        }
        while ended.iter().map(Tally::get).sum::<u64>() < all {
            thread::sleep(Duration::from_micros(50));
        }
        all
    });
    Figures::new()
        .with("bytes_per_op", bytes as f64 / all as f64)
        .with("handle_bytes", size_of::<H>() as f64)
        .with("park_cpu_ns_per_op", parking.cpu_ns(1))
        .and(waking.figures("wake", 1))
}

fn run(one: &One) -> Figures {
    match &*one.case {
        "1M" => run_with::<()>(one),
        "data" => run_with::<[u64; 4]>(one),
        _ => one.unknown(),
    }
}

fn run_with<M: Message>(one: &One) -> Figures {
    match &*one.peer {
        "limit" => limit::run::<M>(one, limit::Memory::Malloc),
        "limit:slab" => limit::run::<M>(one, limit::Memory::Slab),
        "fom" | "fom:async" => fom::run(one),
        _ => peers::run::<M>(one),
    }
}

/// The data of an event.
trait Message: Copy + Default + Send + Sync + 'static {
    fn value(self) -> u64;
}

impl Message for () {
    fn value(self) -> u64 {
        0
    }
}

impl Message for [u64; 4] {
    fn value(self) -> u64 {
        self.iter().sum()
    }
}
