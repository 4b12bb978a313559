//! Small operations of four phases, from spawn to finish: what does a transition cost, and do two localities do twice
//! as much as one?
//!
//! Each worker has a generator that keeps at most 4096 operations in flight and spawns them 1024 at a time. An
//! operation mixes a number in each phase. Between two phases a peer yields, so that others have their turn. `fom:turns`
//! has a budget of one phase, so it is queued at every transition as the peers are. `fom` runs on within its budget of 64
//! phases. In the case `straight` the peers do not yield either: the rows compare it with `fom` there only. In the case
//! `large` an operation has 4 KiB of state, which its start writes whole, and at most 512 are in flight.

#[path = "spawn/fom.rs"]
mod fom;
#[path = "spawn/limit.rs"]
mod limit;
#[path = "spawn/tasks.rs"]
mod tasks;
#[path = "spawn/words.rs"]
mod words;

use std::{process::ExitCode, time::Duration};

use kit::{Better, Case, Figures, One, Question, Row, Target, ask, measure, peers::Load};

const YIELDING: &[&str] = &[
    "tokio-mt",
    "tokio-mt:self-wake",
    "tokio-ct",
    "tokio-ct:local",
    "smol",
    "smol:local",
    "glommio",
    "monoio",
    "limit",
    "limit:slab",
    "fom",
    "fom:turns",
    "fom:async",
];
const STRAIGHT: &[&str] = &[
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

const LARGE: &[&str] = &[
    "tokio-mt",
    "tokio-ct:local",
    "smol:local",
    "monoio",
    "limit",
    "limit:slab",
    "fom:turns",
];

const QUESTION: Question = Question {
    name: "spawn",
    cases: &[
        Case {
            name: "two",
            rounds: 5,
            peers: YIELDING,
        },
        Case {
            name: "one",
            rounds: 5,
            peers: YIELDING,
        },
        Case {
            name: "straight",
            rounds: 3,
            peers: STRAIGHT,
        },
        Case {
            name: "long",
            rounds: 3,
            peers: YIELDING,
        },
        Case {
            name: "large",
            rounds: 5,
            peers: LARGE,
        },
    ],
    rows: &[
        Row {
            question: "4 phases, spawn to finish, 2 localities, all yield after each phase",
            unit: "ns a transition",
            value: |round, peer| round.get("two", peer, NS),
            better: Better::Less,
            fom: "fom:turns",
            limit: "limit:slab",
            target: Target {
                text: "12",
                of_tokio: Some(12.0 / 169.0),
                of_limit: Some(12.0 / 4.3),
                absolute: None,
            },
        },
        Row {
            question: "  none yields",
            unit: "ns a transition",
            value: |round, peer| round.get("straight", peer, NS),
            better: Better::Less,
            fom: "fom",
            limit: "limit:slab",
            target: Target::NONE,
        },
        Row {
            question: "  none yields, async phases",
            unit: "ns a transition",
            value: |round, peer| round.get("straight", peer, NS),
            better: Better::Less,
            fom: "fom:async",
            limit: "limit:slab",
            target: Target::NONE,
        },
        Row {
            question: "  400 phases, 1 locality, all yield after each phase",
            unit: "ns a transition",
            value: |round, peer| round.get("long", peer, NS),
            better: Better::Less,
            fom: "fom:turns",
            limit: "limit:slab",
            target: Target::NONE,
        },
        Row {
            question: "  4 KiB of state, 2 localities, all yield after each phase",
            unit: "ns a transition",
            value: |round, peer| round.get("large", peer, NS),
            better: Better::Less,
            fom: "fom:turns",
            limit: "limit:slab",
            target: Target::NONE,
        },
        Row {
            question: "  what 4 KiB of state leave of the rate",
            unit: "of the rate",
            value: |round, peer| {
                // A peer with a slow small operation keeps more of its rate. That is no merit.
                let compares = ["fom:turns", "limit:slab"].contains(&peer);
                compares
                    .then(|| Some(round.get("two", peer, NS)? / round.get("large", peer, NS)?))?
            },
            better: Better::More,
            fom: "fom:turns",
            limit: "limit:slab",
            target: Target {
                text: "0.5",
                absolute: Some(0.5),
                ..Target::NONE
            },
        },
        Row {
            question: "  from 1 to 2 localities, all yield after each phase",
            unit: "speed-up",
            value: |round, peer| Some(round.get("one", peer, NS)? / round.get("two", peer, NS)?),
            better: Better::More,
            fom: "fom:turns",
            limit: "limit:slab",
            target: Target {
                text: "1.9",
                absolute: Some(1.9),
                ..Target::NONE
            },
        },
    ],
    run,
};

const NS: &str = "ns_per_transition";

fn main() -> ExitCode {
    ask(&QUESTION)
}

fn run(one: &One) -> Figures {
    let (workers, phases, window) = match &*one.case {
        "two" | "straight" => (2, 4, 4096),
        "one" => (1, 4, 4096),
        "long" => (1, 400, 1024),
        "large" => (2, 4, 512),
        _ => one.unknown(),
    };
    let load = Load::new(workers, phases, window);
    let (straight, large) = (one.case == "straight", one.case == "large");
    match &*one.peer {
        "limit" if large => limit::start_large(load, limit::Memory::Malloc),
        "limit:slab" if large => limit::start_large(load, limit::Memory::Slab),
        "fom:turns" if large => fom::start_large(load),
        peer if large => tasks::start_large(load, peer),
        "limit" => limit::start(load, limit::Memory::Malloc, straight),
        "limit:slab" => limit::start(load, limit::Memory::Slab, straight),
        "fom" | "fom:turns" | "fom:async" => fom::start(load, &one.peer),
        peer if straight => tasks::start(load, peer, tasks::How::Straight),
        "tokio-mt:self-wake" => tasks::start(load, "tokio-mt", tasks::How::SelfWake),
        peer => tasks::start(load, peer, tasks::How::Yield),
    }
    let spent = measure(
        load.tallies,
        one.time(Duration::from_millis(100)),
        one.time(Duration::from_millis(300)),
    );
    spent.figures("transition", u64::from(phases))
}
