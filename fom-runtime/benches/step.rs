//! Instructions, counted by callgrind. What does a step of the generated code take beside a match by hand, and what do
//! the hot paths take beside the least possible? The counts are those of `instructions/`, which explains how they are
//! made. Here they are part of the table.

use std::process::ExitCode;

use fom_instructions::{Counter, MEASURES, Side, run_if_counted};
use kit::{Better, Case, Figures, One, Question, Row, Target, ask};

const COUNT: &str = "instructions";

const QUESTION: Question = Question {
    name: "step",
    // The counts hardly differ from run to run.
    cases: &[
        Case {
            name: "step",
            rounds: 1,
            peers: &["limit", "fom"],
        },
        Case {
            name: "sync-operation",
            rounds: 1,
            peers: &["tokio-mt", "limit", "fom"],
        },
        Case {
            name: "sync-transition",
            rounds: 1,
            peers: &["tokio-mt", "limit", "fom"],
        },
        Case {
            name: "async-transition",
            rounds: 1,
            peers: &["tokio-mt", "limit", "fom"],
        },
        Case {
            name: "wake",
            rounds: 1,
            peers: &["limit", "fom"],
        },
        Case {
            name: "call",
            rounds: 1,
            peers: &["limit", "fom"],
        },
        Case {
            name: "park-arm",
            rounds: 1,
            peers: &["limit", "fom"],
        },
        Case {
            name: "event-cancel-end",
            rounds: 1,
            peers: &["limit", "fom"],
        },
    ],
    rows: &[
        Row {
            question: "a sync phase function against a hand-written match",
            unit: "instructions",
            value: |round, peer| round.get("step", peer, COUNT),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target {
                text: "1.05 of limit",
                of_limit: Some(1.05),
                ..Target::NONE
            },
        },
        Row {
            question: "an operation of 4 phases, spawn to finish",
            unit: "instructions",
            value: |round, peer| round.get("sync-operation", peer, COUNT),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target {
                text: "350",
                absolute: Some(350.0),
                ..Target::NONE
            },
        },
        Row {
            question: "  a further transition",
            unit: "instructions",
            value: |round, peer| round.get("sync-transition", peer, COUNT),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target {
                text: "60",
                absolute: Some(60.0),
                ..Target::NONE
            },
        },
        Row {
            question: "  a further async transition",
            unit: "instructions",
            value: |round, peer| round.get("async-transition", peer, COUNT),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target::NONE,
        },
        Row {
            question: "  an event to a parked fom, and its run",
            unit: "instructions",
            value: |round, peer| round.get("wake", peer, COUNT),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target::NONE,
        },
        Row {
            question: "  a call that is answered",
            unit: "instructions",
            value: |round, peer| round.get("call", peer, COUNT),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target::NONE,
        },
        Row {
            question: "  to park and arm",
            unit: "instructions",
            value: |round, peer| round.get("park-arm", peer, COUNT),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target::NONE,
        },
        Row {
            question: "  event, cancel, end",
            unit: "instructions",
            value: |round, peer| round.get("event-cancel-end", peer, COUNT),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target::NONE,
        },
    ],
    run,
};

fn main() -> ExitCode {
    run_if_counted();
    ask(&QUESTION)
}

fn run(one: &One) -> Figures {
    let side = match &*one.peer {
        "fom" => Side::Fom,
        "tokio-mt" => Side::Tokio,
        "limit" => Side::Limit,
        _ => one.unknown(),
    };
    let Some(measure) = MEASURES.iter().find(|measure| measure.name == one.case) else {
        one.unknown();
    };
    match Counter::default().count_side(measure, side) {
        Ok(Some(count)) => Figures::new().with(COUNT, count),
        Ok(None) => one.unknown(),
        Err(error) => panic!("{error}"),
    }
}
