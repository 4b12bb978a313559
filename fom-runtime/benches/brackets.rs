//! Enter-block and leave-block around code that does not block: what does the unneeded precaution cost? The bracket
//! contains nothing, or 5 microseconds of work. The operation is alone in the worker, or beside 64 others that are
//! always ready.
//!
//! There is one worker. The figures are the time that a bracket adds to its content, and how often threads gave up
//! their processor for it. A hand-over is two or more of those. If the worker was handed over beside others, the time
//! of the bracket lasts until it came back. The others did useful work in that time; `others` says how often one of
//! them ran.

#[path = "brackets/fom.rs"]
mod fom;

use std::{
    hint::black_box,
    process::ExitCode,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use kit::{
    Better, Case, Figures, One, Question, Row, Target, ask, context_switches, mix,
    peers::self_wake, pin,
};

const NS: &str = "ns_on_top";
const SWITCHES: &str = "switches";
const OTHERS: &str = "others";

const PEERS: &[&str] = &["tokio-mt", "limit", "fom"];

const QUESTION: Question = Question {
    name: "brackets",
    cases: &[
        Case {
            name: "nothing",
            rounds: 3,
            peers: PEERS,
        },
        Case {
            name: "5us",
            rounds: 3,
            peers: PEERS,
        },
        Case {
            name: "nothing-beside-64",
            rounds: 3,
            peers: PEERS,
        },
        Case {
            name: "5us-beside-64",
            rounds: 3,
            peers: PEERS,
        },
    ],
    rows: &[
        Row {
            question: "enter-block and leave-block around nothing",
            unit: "ns",
            value: |round, peer| round.get("nothing", peer, NS),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            // 50 ns where two swaps take 3.7.
            target: Target {
                text: "50",
                of_limit: Some(50.0 / 3.7),
                ..Target::NONE
            },
        },
        Row {
            question: "  around 5 us, on top",
            unit: "ns",
            value: |round, peer| round.get("5us", peer, NS),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target::NONE,
        },
        Row {
            question: "  around 5 us, beside 64 others, on top",
            unit: "ns",
            value: |round, peer| round.get("5us-beside-64", peer, NS),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target::NONE,
        },
        Row {
            question: "  its hand-overs",
            unit: "switches a bracket",
            value: |round, peer| round.get("5us-beside-64", peer, SWITCHES),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            // Only random ones: one in a hundred.
            target: Target {
                text: "0",
                absolute: Some(0.01),
                ..Target::NONE
            },
        },
    ],
    run,
};

fn main() -> ExitCode {
    ask(&QUESTION)
}

/// The work between the ends of two brackets.
#[derive(Clone, Copy)]
struct Plan {
    times: u32,
    inside: Duration,
    others: usize,
}

/// The number of runs of the others.
static OTHERS_RAN: AtomicU64 = AtomicU64::new(0);

/// A run of one of the others: some 100 ns.
fn other() {
    black_box((0..50).fold(1, |x, _| mix(black_box(x))));
    // There is only one worker, so no other thread writes.
    OTHERS_RAN.store(OTHERS_RAN.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Works for a time, by the clock.
fn work(time: Duration) {
    if time.is_zero() {
        return;
    }
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// The cost of a series.
struct Took {
    wall: Duration,
    switches: u64,
    others: u64,
}

/// Runs `times` brackets, after a tenth of that as warm-up. After each bracket the task goes to the tail of the
/// worker's queue. Otherwise a second `block_in_place` in one poll would be free if the first one gave the worker away.
async fn series(times: u32, mut bracket: impl FnMut()) -> Took {
    for _ in 0..times / 10 {
        bracket();
        self_wake().await;
    }
    let others = OTHERS_RAN.load(Ordering::Relaxed);
    let switches = context_switches();
    let begun = Instant::now();
    for _ in 0..times {
        bracket();
        self_wake().await;
    }
    Took {
        wall: begun.elapsed(),
        switches: context_switches() - switches,
        others: OTHERS_RAN.load(Ordering::Relaxed) - others,
    }
}

/// The costs without brackets, and with them.
type Answer = [Took; 2];

fn run(one: &One) -> Figures {
    let us = Duration::from_micros;
    let (times, inside, others) = match &*one.case {
        "nothing" => (100_000, us(0), 0),
        "5us" => (20_000, us(5), 0),
        "nothing-beside-64" => (10_000, us(0), 64),
        "5us-beside-64" => (10_000, us(5), 64),
        _ => one.unknown(),
    };
    let times = one.size(times, times / 100) as u32;
    let plan = Plan {
        times,
        inside,
        others,
    };
    let (tell, told) = mpsc::channel();
    match &*one.peer {
        "fom" => fom::start(plan, tell),
        "tokio-mt" => tokio(plan, tell),
        "limit" => limit(plan, tell),
        _ => one.unknown(),
    }
    let [without, with] = told.recv().expect("the worker answers");
    let per = |of: fn(&Took) -> f64| (of(&with) - of(&without)) / f64::from(times);
    Figures::new()
        .with(NS, per(|took| took.wall.as_nanos() as f64))
        .with(SWITCHES, per(|took| took.switches as f64))
        .with(OTHERS, per(|took| took.others as f64))
}

/// Not pinned: the thread that takes the worker over needs a processor, too.
fn tokio(plan: Plan, tell: mpsc::Sender<Answer>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .expect("a tokio runtime");
    for _ in 0..plan.others {
        runtime.spawn(async {
            loop {
                other();
                self_wake().await;
            }
        });
    }
    runtime.spawn(async move {
        let without = series(plan.times, || work(plan.inside)).await;
        let with = series(plan.times, || {
            tokio::task::block_in_place(|| work(plan.inside));
        });
        let with = with.await;
        tell.send([without, with]).expect("it is waited for");
    });
    std::mem::forget(runtime);
}

/// Two swaps of a word that other threads would look at, and others that run when it is their turn.
fn limit(plan: Plan, tell: mpsc::Sender<Answer>) {
    static WORD: AtomicU64 = AtomicU64::new(0);
    pin(0);
    let turn = |bracket: &dyn Fn()| {
        bracket();
        (0..plan.others).for_each(|_| other());
    };
    let without =
        futures_lite::future::block_on(series(plan.times, || turn(&|| work(plan.inside))));
    let with = futures_lite::future::block_on(series(plan.times, || {
        turn(&|| {
            WORD.swap(1, Ordering::AcqRel);
            work(plan.inside);
            WORD.swap(0, Ordering::AcqRel);
        });
    }));
    tell.send([without, with]).expect("it is waited for");
}
