//! Transitions that are on the disk before the next phase begins. How many are there per second, and how long does each
//! wait?
//!
//! The number of operations in flight is constant. Each makes a transition, waits until its record (an id of 16 bytes
//! and 134 bytes of state) is on the disk, and continues. The last of six transitions deletes the record, and the next
//! operation begins. All waiting operations share one write and one sync. One thread works, another one commits.
//!
//! `fom:journal` is the journal without foms, `fom:2` has two localities, `limit:2` has two threads that work, and
//! `fom:memory` shows what foms cost without a disk to wait for. `fom:kept` has many other foms that only wait. Their records lie between records that are no
//! longer needed, and are written again to make room.

#[path = "durable/fom.rs"]
mod fom;
#[path = "durable/ring.rs"]
mod ring;
#[allow(dead_code, reason = "only recovery reads")]
mod stored;

use std::{
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use fom_durable::journal::JournalStats;
use kit::{
    Better, Case, Figures, Histogram, One, Question, Row, Tally, Target, ask, folder, measure,
    remove, written_bytes,
};

/// No target.
const NONE: Target = Target {
    text: "",
    of_tokio: None,
    of_limit: None,
    absolute: None,
};

const PEERS: &[&str] = &["limit", "fjall", "fom:journal", "fom"];

const QUESTION: Question = Question {
    name: "durable",
    cases: &[
        Case {
            name: "512",
            rounds: 5,
            peers: &[
                "limit",
                "limit:alone",
                "limit:2",
                "fjall",
                "redb",
                "fom:journal",
                "fom",
                "fom:2",
                "fom:kept",
                "fom:memory",
            ],
        },
        Case {
            name: "64",
            rounds: 4,
            peers: PEERS,
        },
        Case {
            name: "1",
            rounds: 3,
            peers: PEERS,
        },
    ],
    rows: &[
        Row {
            question: "durable transitions, 512 in flight",
            unit: "a second",
            value: |round, peer| round.get("512", peer, "per_s"),
            better: Better::More,
            fom: "fom",
            limit: "limit",
            target: Target {
                text: "0.6 of limit",
                of_limit: Some(0.6),
                ..NONE
            },
        },
        Row {
            question: "  the journal alone, without foms",
            unit: "a second",
            value: |round, peer| round.get("512", peer, "per_s"),
            better: Better::More,
            fom: "fom:journal",
            limit: "limit",
            target: NONE,
        },
        Row {
            question: "  p50 of the wait for the disk",
            unit: "us",
            value: |round, peer| round.get("512", peer, "wait_p50_us"),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: NONE,
        },
        Row {
            question: "  p99 of the wait for the disk",
            unit: "us",
            value: |round, peer| round.get("512", peer, "wait_p99_us"),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: NONE,
        },
        Row {
            question: "  processor time, the kernel's included",
            unit: "CPU ns",
            value: |round, peer| round.get("512", peer, "cpu_ns_per_transition"),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: NONE,
        },
        Row {
            question: "  written",
            unit: "bytes",
            value: |round, peer| round.get("512", peer, "bytes_per_transition"),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: NONE,
        },
        Row {
            question: "  transitions that share a sync",
            unit: "transitions",
            value: |round, peer| round.get("512", peer, "transitions_per_sync"),
            better: Better::More,
            fom: "fom",
            limit: "limit",
            target: NONE,
        },
        Row {
            question: "  with 200,000 foms that wait beside it",
            unit: "a second",
            value: |round, peer| round.get("512", peer, "per_s"),
            better: Better::More,
            fom: "fom:kept",
            limit: "fom",
            target: NONE,
        },
        Row {
            question: "  written to make room there",
            unit: "bytes",
            value: |round, peer| {
                let moved = round.get("512", peer, "moved_bytes");
                moved.filter(|_| peer == "fom:kept")
            },
            better: Better::Less,
            fom: "fom:kept",
            limit: "limit",
            target: NONE,
        },
        Row {
            question: "  by two localities, of the rate of one",
            unit: "of the rate",
            value: |round, peer| {
                let one = peer.strip_suffix(":2")?;
                Some(round.get("512", peer, "per_s")? / round.get("512", one, "per_s")?)
            },
            better: Better::More,
            fom: "fom:2",
            limit: "limit:2",
            target: Target {
                text: "0.9",
                absolute: Some(0.9),
                ..NONE
            },
        },
        Row {
            question: "  64 in flight",
            unit: "a second",
            value: |round, peer| round.get("64", peer, "per_s"),
            better: Better::More,
            fom: "fom",
            limit: "limit",
            target: NONE,
        },
        Row {
            question: "  64 in flight, p50 of the wait",
            unit: "us",
            value: |round, peer| round.get("64", peer, "wait_p50_us"),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: NONE,
        },
        Row {
            question: "  1 in flight",
            unit: "a second",
            value: |round, peer| round.get("1", peer, "per_s"),
            better: Better::More,
            fom: "fom",
            limit: "limit",
            target: NONE,
        },
        Row {
            question: "  1 in flight, p50 of the wait",
            unit: "us",
            value: |round, peer| round.get("1", peer, "wait_p50_us"),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: NONE,
        },
    ],
    run,
};

/// The number of transitions of an operation.
const LIFE: u32 = 6;

fn main() -> ExitCode {
    ask(&QUESTION)
}

/// The number of operations in flight, and the counters.
#[derive(Clone, Copy)]
struct Load {
    flying: usize,
    /// The transitions that were committed, and that the operation knows of.
    done: &'static Tally,
    syncs: &'static Tally,
    /// The time from the end of a phase's function to the beginning of the next function.
    waits: &'static Histogram,
}

fn run(one: &One) -> Figures {
    let Ok(flying) = one.case.parse() else {
        one.unknown()
    };
    let tallies = Tally::of(2);
    let load = Load {
        flying,
        done: &tallies[0],
        syncs: &tallies[1],
        waits: Histogram::new(),
    };
    let folder = folder(&format!("durable {}", one.peer));
    let store = || stored::open(&one.peer, &folder, 64 << 20).unwrap_or_else(|| one.unknown());
    let journal: Box<dyn Fn() -> JournalStats> = match &*one.peer {
        "fom" | "fom:2" | "fom:kept" | "fom:memory" => {
            Box::new(fom::start(load, &one.peer, &folder))
        }
        peer => {
            match peer {
                "limit:alone" => ring::alone(load, store()),
                "limit:2" => ring::two(load, store()),
                _ => ring::start(load, store()),
            }
            Box::new(move || {
                let mut stats = JournalStats::default();
                stats.syncs = load.syncs.get();
                stats
            })
        }
    };
    thread::sleep(one.time(Duration::from_millis(300)));
    if one.peer == "fom:kept" {
        // Until the journal has moved as much as it keeps.
        let round = |stats: &JournalStats| stats.moved_bytes >= stats.live_bytes;
        let by = Instant::now() + one.time(Duration::from_secs(20));
        while !round(&journal()) && Instant::now() < by {
            thread::sleep(Duration::from_millis(20));
        }
    }
    load.waits.clear();
    let (before, written) = (journal(), written_bytes());
    // With what is kept, until the writes have gone round all segments a few times.
    let millis = match &*one.peer {
        "fom:kept" => 5_000,
        _ => 800,
    };
    let spent = measure(
        &tallies[..1],
        Duration::ZERO,
        one.time(Duration::from_millis(millis)),
    );
    let (after, written) = (journal(), written_bytes() - written);
    let done = spent.done.max(1) as f64;
    let each = |of: fn(&JournalStats) -> u64| (of(&after) - of(&before)) as f64 / done;
    let syncs = each(|stats| stats.syncs);
    remove(&folder);
    Figures::new()
        .with("x", flying as f64)
        .with("per_s", done / spent.wall.as_secs_f64())
        .with("cpu_ns_per_transition", spent.cpu_ns(1))
        .with("wait_p50_us", load.waits.percentile(0.50) / 1e3)
        .with("wait_p99_us", load.waits.percentile(0.99) / 1e3)
        .with("bytes_per_transition", written as f64 / done)
        // Of these: the bytes to reserve the place of new files on the disk, and the bytes to make room.
        .with("prepared_bytes", each(|stats| stats.prepared_bytes))
        .with("moved_bytes", each(|stats| stats.moved_bytes))
        .with("transitions_per_sync", 1.0 / syncs)
        .with("us_per_sync", spent.wall.as_micros() as f64 / done / syncs)
}
