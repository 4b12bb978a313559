//! Small operations of four phases, from spawn to finish: what does a transition cost, and do two localities do twice
//! as much as one?
//!
//! Each worker has a generator that keeps at most 4096 operations in flight and spawns them 1024 at a time. An
//! operation mixes a number in each phase. Between two phases a peer yields, so that others have their turn. `fom:turns`
//! has a budget of one phase, so it is queued at every transition as the peers are. `fom` runs on within its budget of 64
//! phases. In the case `straight` the peers do not yield either: the rows compare it with `fom` there only.

#[path = "spawn/fom.rs"]
mod fom;
#[path = "spawn/limit.rs"]
mod limit;
#[path = "spawn/tasks.rs"]
mod tasks;

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
        _ => one.unknown(),
    };
    let load = Load::new(workers, phases, window);
    let straight = one.case == "straight";
    match &*one.peer {
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
