//! What observation costs. How much longer is a transition with counters, with the flight recorder, with a listener, with
//! a history, or with spans? How long does a survey take, beside the listing of all foms?
//!
//! A transition goes from phase to phase of one fom, in one locality. `limit` is the same without observation. The spans
//! go to the registry of `tracing-subscriber`, which keeps each until it ends and writes nothing. The foms of a survey wait
//! for an event; `limit` is `Runtime::operations`. `examples/session-router/compare --page` puts a server with an open page
//! beside the same server without.

use std::{
    hint::black_box,
    process::ExitCode,
    sync::mpsc,
    time::{Duration, Instant},
};

use fom_runtime::{
    observe::{Filter, Page},
    prelude::*,
};
use fom_tracing::{Tracing, TracingExt as _};
use kit::{Better, Case, Figures, One, Question, Row, Target, ask};

const NS: &str = "ns_per_transition";
const MS: &str = "ms";
const PAGE_MS: &str = "ms_of_a_page";

const OBSERVED: &[&str] = &[
    "limit",
    "fom:counted",
    "fom:recorded",
    "fom:heard",
    "fom:history",
    "fom:traced",
];
const SURVEYED: &[&str] = &["limit", "fom:survey"];

const fn case(name: &'static str, peers: &'static [&'static str]) -> Case {
    Case {
        name,
        rounds: 5,
        peers,
    }
}

macro_rules! row {
    ($question:literal, $unit:literal, $case:literal, $figure:ident, $peer:literal) => {
        Row {
            question: $question,
            unit: $unit,
            value: |round, peer| round.get($case, peer, $figure),
            better: Better::Less,
            fom: $peer,
            limit: "limit",
            target: Target::NONE,
        }
    };
}

const QUESTION: Question = Question {
    name: "watching",
    cases: &[
        case("sync", OBSERVED),
        case("async", OBSERVED),
        case("1000", SURVEYED),
        case("100000", SURVEYED),
        case("1000000", SURVEYED),
    ],
    rows: &[
        row!(
            "a sync transition, counted",
            "ns",
            "sync",
            NS,
            "fom:counted"
        ),
        row!("  in the flight recorder", "ns", "sync", NS, "fom:recorded"),
        row!("  with an empty listener", "ns", "sync", NS, "fom:heard"),
        row!(
            "  with a history of 16 phases",
            "ns",
            "sync",
            NS,
            "fom:history"
        ),
        row!("  with spans", "ns", "sync", NS, "fom:traced"),
        row!(
            "an async transition, counted",
            "ns",
            "async",
            NS,
            "fom:counted"
        ),
        row!(
            "  in the flight recorder",
            "ns",
            "async",
            NS,
            "fom:recorded"
        ),
        row!("  with an empty listener", "ns", "async", NS, "fom:heard"),
        row!(
            "  with a history of 16 phases",
            "ns",
            "async",
            NS,
            "fom:history"
        ),
        row!("  with spans", "ns", "async", NS, "fom:traced"),
        row!(
            "a survey of 1,000 parked foms",
            "ms",
            "1000",
            MS,
            "fom:survey"
        ),
        row!("  of 100,000", "ms", "100000", MS, "fom:survey"),
        row!("  of 1,000,000", "ms", "1000000", MS, "fom:survey"),
        row!(
            "  with a page of 1,000 foms",
            "ms",
            "1000000",
            PAGE_MS,
            "fom:survey"
        ),
    ],
    run,
};

fn main() -> ExitCode {
    ask(&QUESTION)
}

fn run(one: &One) -> Figures {
    match &*one.case {
        "sync" => walk(one, SyncWalk),
        "async" => walk(one, AsyncWalk),
        case => match case.parse() {
            Ok(foms) => survey(one, foms),
            Err(_) => one.unknown(),
        },
    }
}

/// The time of some transitions.
type Told = mpsc::Sender<Duration>;

struct Walk {
    left: u64,
    begun: Instant,
    tell: Told,
}

impl Walk {
    /// Goes on, or tells the time at the end.
    fn goes_on(&mut self) -> bool {
        self.left -= 1;
        if self.left == 0 {
            self.tell
                .send(self.begun.elapsed())
                .expect("it is waited for");
        }
        self.left > 0
    }
}

struct SyncWalk(Walk);

#[fom(operation(SyncWalk), transient)]
enum SyncWalking {
    #[phase(start, sync, to(Right, Done))]
    Left,
    #[phase(sync, to(Left))]
    Right,
    #[phase(end)]
    Done,
}

impl SyncWalkingTransitions for SyncWalk {
    fn left(&mut self, _: &mut Cx<'_>) -> Result<SyncWalkingAfterLeft, BoxError> {
        Ok(match self.0.goes_on() {
            true => SyncWalkingAfterLeft::Right,
            false => SyncWalkingAfterLeft::Done,
        })
    }

    fn right(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

struct AsyncWalk(Walk);

#[fom(operation(AsyncWalk), transient)]
enum AsyncWalking {
    #[phase(start, to(Right, Done))]
    Left,
    #[phase(to(Left))]
    Right,
    #[phase(end)]
    Done,
}

impl AsyncWalkingTransitions for AsyncWalk {
    async fn left(&mut self, _: &mut Cx<'_>) -> Result<AsyncWalkingAfterLeft, BoxError> {
        Ok(match self.0.goes_on() {
            true => AsyncWalkingAfterLeft::Right,
            false => AsyncWalkingAfterLeft::Done,
        })
    }

    async fn right(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Runs foms one after the other: one to warm up, and one to measure.
fn walk<O: Operation>(one: &One, make: impl Fn(Walk) -> O) -> Figures {
    let builder = kit::peers::fom(1);
    let builder = match &*one.peer {
        "limit" | "fom:heard" => builder,
        "fom:counted" => builder.observe(),
        "fom:recorded" => builder.recorder(1 << 16),
        "fom:history" => builder.history(16),
        "fom:traced" => {
            tracing::subscriber::set_global_default(tracing_subscriber::registry())
                .expect("it is the first one");
            builder.tracing(Tracing::default())
        }
        _ => one.unknown(),
    };
    let runtime = builder.build().expect("a runtime");
    if one.peer == "fom:heard" {
        runtime
            .listen(|transition| _ = black_box(transition))
            .forever();
    }
    let rounds = one.size(4_000_000, 4_000) as u64;
    let (tell, told) = mpsc::channel();
    let mut took = Duration::ZERO;
    for left in [rounds / 10, rounds] {
        let walk = Walk {
            left,
            begun: Instant::now(),
            tell: tell.clone(),
        };
        runtime.submit(make(walk)).detach().expect("there is room");
        took = told.recv().expect("the walk ends");
    }
    Figures::new().with(NS, took.as_nanos() as f64 / (2 * rounds) as f64)
}

struct Park;

#[fom(operation(Park), event(Go), transient)]
enum Parking {
    #[phase(start, sync, to(Parked))]
    Begin,
    #[phase(to(Done), on(Go))]
    Parked,
    #[phase(end)]
    Done,
}

#[allow(dead_code, reason = "the foms stay parked")]
enum Go {
    Go,
}

impl ParkingTransitions for Park {
    fn begin(&mut self, _: &mut Cx<'_, Go>) -> Result<(), BoxError> {
        Ok(())
    }

    async fn parked(&mut self, cx: &mut Cx<'_, Go>) -> Result<(), BoxError> {
        let Go::Go = cx.event().await;
        Ok(())
    }
}

fn survey(one: &One, foms: usize) -> Figures {
    let foms = one.size(foms, foms.min(1_000));
    let runtime = kit::peers::fom(2).build().expect("a runtime");
    let parked: Vec<Handle<Park>> = (0..foms)
        .map(|_| runtime.submit(Park).start().expect("there is room"))
        .collect();
    fom_runtime::extension::block_on(runtime.quiet());
    let all = Filter::default();
    let time = |find: &dyn Fn() -> usize| {
        assert!(find() >= foms, "each fom is found");
        let begun = Instant::now();
        black_box(find());
        begun.elapsed().as_secs_f64() * 1e3
    };
    let figures = match &*one.peer {
        "limit" => {
            let ms = time(&|| runtime.operations().foms.len());
            Figures::new().with(MS, ms).with(PAGE_MS, ms)
        }
        "fom:survey" => Figures::new()
            .with(
                MS,
                time(&|| {
                    runtime
                        .inspect()
                        .survey(&all, &Page::default().oldest(3))
                        .foms
                }),
            )
            .with(
                PAGE_MS,
                time(&|| runtime.inspect().survey(&all, &Page::of(1_000)).foms),
            ),
        _ => one.unknown(),
    };
    std::mem::forget((parked, runtime));
    figures
}
