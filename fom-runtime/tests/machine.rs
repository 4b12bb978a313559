//! What a machine promises: its phases and edges, the order of one transition, failures, executives and interposers.

mod kit;

use std::collections::{BTreeSet, VecDeque};

use fom_runtime::{Interpose, Mode, TestClock, TransitionCause, prelude::*};
use kit::{Log, limited, one, secs};

/// One operation with every kind of phase. `way` names the exits that it takes; another word is an error.
struct Trip {
    way: VecDeque<&'static str>,
    log: Log,
}

#[derive(Debug, PartialEq)]
struct Oops(&'static str);

/// From home to there.
#[fom(operation(Trip), error(Oops), transient)]
enum Leg {
    #[phase(start, to(Walk, Ride, Lost), sync)]
    Home,
    #[phase(to(Walk, Ride, There))]
    Walk { steps: u32 },
    #[phase(to(Walk, There, Lost), blocking)]
    Ride { bus: u32 },
    #[phase(end)]
    There { by: &'static str },
    #[phase(end, failure)]
    Lost,
}

impl Trip {
    fn new(way: &[&'static str]) -> Self {
        Self {
            way: way.iter().copied().collect(),
            log: Log::default(),
        }
    }

    fn next(&mut self) -> &'static str {
        self.way.pop_front().unwrap_or("nowhere")
    }
}

impl LegTransitions for Trip {
    fn home(&mut self, _: &mut Cx<'_>) -> Result<LegAfterHome, Oops> {
        self.log.put("home");
        match self.next() {
            "Walk" => Ok(LegAfterHome::Walk { steps: 1 }),
            "Ride" => Ok(LegAfterHome::Ride { bus: 7 }),
            "Lost" => Ok(LegAfterHome::Lost),
            word => Err(Oops(word)),
        }
    }

    async fn walk(&mut self, _: &mut Cx<'_>, steps: &mut u32) -> Result<LegAfterWalk, Oops> {
        self.log.put(format_args!("walk {steps}"));
        match self.next() {
            "Walk" => Ok(LegAfterWalk::Walk { steps: *steps + 1 }),
            "Ride" => Ok(LegAfterWalk::Ride { bus: 9 }),
            "There" => Ok(LegAfterWalk::There { by: "foot" }),
            word => Err(Oops(word)),
        }
    }

    fn ride(&mut self, _: &mut BlockingCx<'_>, bus: &mut u32) -> Result<LegAfterRide, Oops> {
        self.log.put(format_args!("ride {bus}"));
        match self.next() {
            "Walk" => Ok(LegAfterRide::Walk { steps: 100 }),
            "There" => Ok(LegAfterRide::There { by: "bus" }),
            "Lost" => Ok(LegAfterRide::Lost),
            word => Err(Oops(word)),
        }
    }
}

/// Ways that together take every edge.
const WAYS: &[&[&str]] = &[
    &["Walk", "Walk", "Ride", "Walk", "There"],
    &["Ride", "There"],
    &["Ride", "Lost"],
    &["Lost"],
];

/// SM-01: one start; whatever way is taken, the outcome is an end phase or the standard failed outcome, told once. That
/// no other end exists is a matter of types: a handle gives `Ended` or `Failure`, and a phase without an exit does not
/// compile (tests/ui).
#[test]
fn a_machine_ends_in_an_end_phase_or_in_the_failed_outcome() {
    limited(|| async {
        let starts = Trip::GRAPH.phases().iter().filter(|phase| phase.is_start());
        assert_eq!(
            starts.map(|phase| phase.name()).collect::<Vec<_>>(),
            ["Home"]
        );
        let runtime = one(&TestClock::new()).build().unwrap();
        let ends = Log::default();
        let log = ends.clone();
        runtime
            .listen(move |step| {
                let ended = step
                    .to()
                    .is_none_or(|to| Trip::GRAPH.find(to).unwrap().is_end());
                if ended {
                    log.put(format_args!("{:?} {}", step.to(), step.cause()));
                }
            })
            .forever();
        for way in WAYS {
            let ended = runtime.submit(Trip::new(way)).await.unwrap();
            let kind = Trip::kind(&ended.phase);
            assert!(Trip::GRAPH.phases()[Trip::index(kind)].is_end());
            assert_eq!(format!("{kind:?}"), *way.last().unwrap());
            assert!(
                ended.operation.way.is_empty(),
                "every step of the way was taken"
            );
        }
        let failure = runtime
            .submit(Trip::new(&["Walk", "nowhere"]))
            .await
            .unwrap_err();
        assert!(matches!(failure.cause, Cause::Error(Oops("nowhere"))));
        assert_eq!(failure.phase, "Walk");
        assert_eq!(
            ends.take(),
            [
                r#"Some("There") returned"#,
                r#"Some("There") returned"#,
                r#"Some("Lost") returned"#,
                r#"Some("Lost") returned"#,
                "None error",
            ]
        );
    });
}

/// SM-02: the edges that are taken are the edges that are declared, both ways: what a phase may return is an enum of
/// just its exits (the matches below are exhaustive), and here every declared edge is taken.
#[test]
fn edges_taken_and_edges_declared_are_the_same() {
    fn home(exit: &LegAfterHome) -> &'static str {
        match exit {
            LegAfterHome::Walk { steps: _ } => "Walk",
            LegAfterHome::Ride { bus: _ } => "Ride",
            LegAfterHome::Lost => "Lost",
        }
    }
    fn walk(exit: &LegAfterWalk) -> &'static str {
        match exit {
            LegAfterWalk::Walk { steps: _ } => "Walk",
            LegAfterWalk::Ride { bus: _ } => "Ride",
            LegAfterWalk::There { by: _ } => "There",
        }
    }
    let _ = (home, walk);
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let taken = Log::default();
        let log = taken.clone();
        runtime
            .listen(move |step| {
                if let (Some(from), Some(to)) = (step.from(), step.to()) {
                    log.put(format_args!("{from} {to}"));
                }
            })
            .forever();
        for way in WAYS {
            let _ = runtime.submit(Trip::new(way)).await;
        }
        let taken: BTreeSet<_> = taken.take().into_iter().collect();
        let declared: BTreeSet<_> = Trip::GRAPH
            .edges()
            .map(|(from, to)| format!("{} {}", from.name(), to.name()))
            .collect();
        assert_eq!(taken, declared);
    });
}

/// SM-03: start, end and failure are flags of phases; an end has no exits, and only an end is a failure.
#[test]
fn flags_of_phases() {
    let flags = |name| {
        let phase = Trip::GRAPH.find(name).unwrap();
        (phase.is_start(), phase.is_end(), phase.is_failure())
    };
    assert_eq!(flags("Home"), (true, false, false));
    assert_eq!(flags("Walk"), (false, false, false));
    assert_eq!(flags("Ride"), (false, false, false));
    assert_eq!(flags("There"), (false, true, false));
    assert_eq!(flags("Lost"), (false, true, true));
    for phase in Trip::GRAPH.phases() {
        assert_eq!(phase.is_end(), phase.exit_indexes().is_empty());
        assert_eq!(phase.is_end(), phase.mode() == Mode::End);
    }
}

/// SM-04: each phase has a stable index, its place in the declaration, which edges name; what is no edge is not found.
#[test]
fn phases_have_indexes_and_edges_name_them() {
    let kinds = [
        LegKind::Home,
        LegKind::Walk,
        LegKind::Ride,
        LegKind::There,
        LegKind::Lost,
    ];
    for (index, kind) in kinds.into_iter().enumerate() {
        assert_eq!(Trip::index(kind), index);
        assert_eq!(
            Trip::GRAPH.phase(index).unwrap().name(),
            format!("{kind:?}")
        );
    }
    assert!(Trip::GRAPH.phase(kinds.len()).is_none());
    let table: Vec<Vec<u16>> = Trip::GRAPH
        .phases()
        .iter()
        .map(|phase| phase.exit_indexes().to_vec())
        .collect();
    assert_eq!(
        table,
        [vec![1, 2, 4], vec![1, 2, 3], vec![1, 3, 4], vec![], vec![]]
    );
    let is_edge = |from: &str, to: &str| {
        let from = Trip::GRAPH.find(from).unwrap();
        Trip::GRAPH.exits(from).any(|phase| phase.name() == to)
    };
    assert!(is_edge("Walk", "Walk"));
    assert!(!is_edge("Ride", "Ride"));
    assert!(!is_edge("Home", "There"));
}

/// SM-05: one transition is: the old phase's function returns and its data is dropped, the phase is stored, listeners
/// hear of it and see the new phase, the new phase's function is entered. What a phase does on exit and entry is its
/// function's end and beginning.
#[test]
fn the_order_of_one_transition() {
    struct Noisy(Log, &'static str);
    impl Drop for Noisy {
        fn drop(&mut self) {
            self.0.put(format_args!("{} dropped", self.1));
        }
    }
    struct Pass(Log);
    #[fom(operation(Pass), transient)]
    enum Passing {
        #[phase(start, to(First))]
        Begin,
        #[phase(to(Second))]
        First { held: Noisy },
        #[phase(to(Done))]
        Second { held: Noisy },
        #[phase(end)]
        Done,
    }
    impl PassingTransitions for Pass {
        async fn begin(
            &mut self,
            _: &mut Cx<'_>,
        ) -> Result<PassingAfterBegin, fom_runtime::BoxError> {
            self.0.put("begin returns");
            Ok(PassingAfterBegin::First {
                held: Noisy(self.0.clone(), "data of First"),
            })
        }
        async fn first(
            &mut self,
            _: &mut Cx<'_>,
            _: &mut Noisy,
        ) -> Result<PassingAfterFirst, fom_runtime::BoxError> {
            self.0.put("first entered");
            let _local = Noisy(self.0.clone(), "local of first");
            Ok(PassingAfterFirst::Second {
                held: Noisy(self.0.clone(), "data of Second"),
            })
        }
        async fn second(
            &mut self,
            _: &mut Cx<'_>,
            _: &mut Noisy,
        ) -> Result<(), fom_runtime::BoxError> {
            self.0.put("second entered");
            Ok(())
        }
    }
    limited(|| async {
        let log = Log::default();
        let runtime = one(&TestClock::new()).build().unwrap();
        let (seen, lookup) = (log.clone(), runtime.clone());
        let listening = runtime.listen(move |step| {
            // The listing already shows the new phase, and in the end nothing but that.
            let now = lookup.operation(step.id()).map(|fom| fom.phase);
            seen.put(format_args!("{step} seen in {}", now.unwrap_or("none")));
        });
        runtime.submit(Pass(log.clone())).await.unwrap();
        drop(listening);
        let id = 1;
        assert_eq!(
            log.take(),
            [
                format!("Pass {id}: Begin (started) seen in Begin"),
                "begin returns".into(),
                format!("Pass {id}: Begin -> First (returned) seen in First"),
                "first entered".into(),
                "local of first dropped".into(),
                "data of First dropped".into(),
                format!("Pass {id}: First -> Second (returned) seen in Second"),
                "second entered".into(),
                "data of Second dropped".into(),
                format!("Pass {id}: Second -> Done (returned) seen in Done"),
            ]
        );
    });
}

mod chain {
    use super::*;

    pub(super) struct Count {
        pub(super) left: u32,
        pub(super) least_stack: usize,
    }

    #[fom(operation(Count), transient)]
    pub(super) enum Counting {
        #[phase(start, to(Link, Done), sync)]
        Link,
        #[phase(end)]
        Done,
    }

    impl CountingTransitions for Count {
        fn link(&mut self, _: &mut Cx<'_>) -> Result<CountingAfterLink, fom_runtime::BoxError> {
            let here = 0u8;
            self.least_stack = self.least_stack.min(std::ptr::from_ref(&here).addr());
            self.left -= 1;
            Ok(if self.left == 0 {
                CountingAfterLink::Done
            } else {
                CountingAfterLink::Link
            })
        }
    }

    pub(super) struct AsyncCount(pub(super) u32);

    #[fom(operation(AsyncCount), transient)]
    pub(super) enum AsyncCounting {
        #[phase(start, to(Even, Done))]
        Odd,
        #[phase(to(Odd, Done))]
        Even,
        #[phase(end)]
        Done,
    }

    impl AsyncCountingTransitions for AsyncCount {
        async fn odd(
            &mut self,
            _: &mut Cx<'_>,
        ) -> Result<AsyncCountingAfterOdd, fom_runtime::BoxError> {
            self.0 -= 1;
            Ok(if self.0 == 0 {
                AsyncCountingAfterOdd::Done
            } else {
                AsyncCountingAfterOdd::Even
            })
        }
        async fn even(
            &mut self,
            _: &mut Cx<'_>,
        ) -> Result<AsyncCountingAfterEven, fom_runtime::BoxError> {
            self.0 -= 1;
            Ok(if self.0 == 0 {
                AsyncCountingAfterEven::Done
            } else {
                AsyncCountingAfterEven::Odd
            })
        }
    }
}

const LINKS: u32 = 100_000;

/// SM-06: a chain of 100,000 links, each of them checked, counted and told to listeners, does not recurse: the phase
/// function never lies deeper in the stack than in its first runs.
#[test]
fn a_chain_of_any_length_does_not_recurse() {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let told = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&told);
        runtime
            .listen(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            })
            .forever();
        let short = chain::Count {
            left: 10,
            least_stack: usize::MAX,
        };
        let short = runtime.submit(short).await.unwrap().operation;
        assert_eq!(
            told.swap(0, Ordering::Relaxed),
            11,
            "the start and ten exits"
        );
        let long = chain::Count {
            left: LINKS,
            least_stack: usize::MAX,
        };
        let long = runtime.submit(long).await.unwrap().operation;
        assert_eq!(told.swap(0, Ordering::Relaxed), LINKS + 1);
        // Another thread of the locality may have run it; but each has a stack of its own, far away.
        let deeper = short.least_stack.saturating_sub(long.least_stack);
        assert!(!(4096..1 << 20).contains(&deeper), "{deeper} bytes deeper");
        runtime.submit(chain::AsyncCount(LINKS)).await.unwrap();
        assert_eq!(told.swap(0, Ordering::Relaxed), LINKS + 1);
    });
}

/// SM-07: a transition of a phase to itself is a transition: its function is entered again with new data, listeners hear
/// of it, and the deadline begins anew.
#[test]
fn a_phase_that_goes_to_itself_is_entered_again() {
    struct Again(u32, Log);
    #[fom(operation(Again), transient)]
    enum Looping {
        #[phase(start, to(Turn))]
        Begin,
        #[phase(to(Turn, Done), within = "10s")]
        Turn { number: u32 },
        #[phase(end)]
        Done,
    }
    impl LoopingTransitions for Again {
        async fn begin(
            &mut self,
            _: &mut Cx<'_>,
        ) -> Result<LoopingAfterBegin, fom_runtime::BoxError> {
            Ok(LoopingAfterBegin::Turn { number: 1 })
        }
        async fn turn(
            &mut self,
            cx: &mut Cx<'_>,
            number: &mut u32,
        ) -> Result<LoopingAfterTurn, fom_runtime::BoxError> {
            self.1.put(format_args!(
                "turn {number} due {:?}",
                cx.deadline().unwrap()
            ));
            cx.sleep(secs(7)).await;
            Ok(if *number == self.0 {
                LoopingAfterTurn::Done
            } else {
                LoopingAfterTurn::Turn {
                    number: *number + 1,
                }
            })
        }
    }
    limited(|| async {
        let clock = TestClock::new();
        let log = Log::default();
        let runtime = one(&clock).build().unwrap();
        let seen = log.clone();
        runtime
            .listen(move |step| seen.put(format_args!("{:?} to {:?}", step.from(), step.to())))
            .forever();
        let handle = runtime.submit(Again(3, log.clone())).start().unwrap();
        for _ in 0..3 {
            runtime.quiet().await;
            clock.advance(secs(7));
        }
        handle.await.unwrap();
        assert_eq!(
            log.take(),
            [
                r#"None to Some("Begin")"#,
                r#"Some("Begin") to Some("Turn")"#,
                "turn 1 due 10s",
                r#"Some("Turn") to Some("Turn")"#,
                "turn 2 due 17s",
                r#"Some("Turn") to Some("Turn")"#,
                "turn 3 due 24s",
                r#"Some("Turn") to Some("Done")"#,
            ]
        );
    });
}

/// SM-08: a failure carries its error and its phase, and is final: no later transition can clear it, since a fom that
/// failed takes none. The failed outcome is told to listeners once, as the last thing.
/// Trap 4: a state that is set after the failure, and so loses the error, cannot be written.
#[test]
fn the_first_error_stays() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let told = Log::default();
        let log = told.clone();
        runtime.listen(move |step| log.put(step)).forever();
        let handle = runtime
            .submit(Trip::new(&["Walk", "first", "There"]))
            .start()
            .unwrap();
        let fom = handle.fom().clone();
        let failure = handle.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Error(Oops("first"))));
        assert_eq!((failure.phase, failure.cause.name()), ("Walk", "error"));
        let operation = failure.operation.expect("it is given back");
        assert_eq!(operation.way, ["There"], "nothing ran after the failure");
        fom.wake();
        fom.cancel();
        runtime.quiet().await;
        assert_eq!(
            told.take(),
            [
                "Trip 1: Home (started)",
                "Trip 1: Home -> Walk (returned)",
                "Trip 1: Walk -> failed (error)"
            ]
        );
    });
}

/// SM-09: `Ok` goes to the exit, `Err` to the failed outcome with the error, in every kind of phase; `?` does both.
#[test]
fn ok_moves_on_and_an_error_fails() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        for (way, phase) in [
            (&["oh"][..], "Home"),
            (&["Walk", "oh"], "Walk"),
            (&["Ride", "oh"], "Ride"),
        ] {
            let failure = runtime.submit(Trip::new(way)).await.unwrap_err();
            assert!(matches!(failure.cause, Cause::Error(Oops("oh"))));
            assert_eq!(failure.phase, phase);
        }
        // An end phase that is a failure is an outcome like any other, with its data; only the totals count it apart.
        let ended = runtime.submit(Trip::new(&["Ride", "Lost"])).await.unwrap();
        assert!(matches!(ended.phase, Leg::Lost));
        runtime.submit(Trip::new(&["Ride", "There"])).await.unwrap();
        runtime.idle().await;
        let totals = &runtime.operations().types[0];
        assert_eq!((totals.ended, totals.failed), (5, 4));
    });
}

/// SM-13: one definition under every executive: awaited in tokio, waited for in a plain thread, and inside another fom,
/// async or blocking, of the same locality: the transition logs are the same.
#[test]
fn the_same_operation_under_every_executive() {
    struct Parent {
        blocking: bool,
        way: &'static [&'static str],
    }
    #[fom(operation(Parent), error(Oops), transient)]
    enum Parenting {
        #[phase(start, to(Await, Block), sync)]
        Choose,
        #[phase(to(Done))]
        Await,
        #[phase(to(Done), blocking)]
        Block,
        #[phase(end)]
        Done,
    }
    impl ParentingTransitions for Parent {
        fn choose(&mut self, _: &mut Cx<'_>) -> Result<ParentingAfterChoose, Oops> {
            Ok(if self.blocking {
                ParentingAfterChoose::Block
            } else {
                ParentingAfterChoose::Await
            })
        }
        async fn r#await(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
            let _ = cx.runtime().submit(Trip::new(self.way)).await;
            Ok(())
        }
        fn block(&mut self, cx: &mut BlockingCx<'_>) -> Result<(), Oops> {
            let handle = cx
                .runtime()
                .submit(Trip::new(self.way))
                .place(Placement::Locality(0))
                .start()
                .unwrap();
            let _ = handle.wait();
            Ok(())
        }
    }
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let seen = log.clone();
        runtime
            .listen_to::<Trip>(move |step| {
                seen.put(format_args!(
                    "{:?} {:?} {}",
                    step.from(),
                    step.to(),
                    step.cause()
                ));
            })
            .forever();
        for way in WAYS
            .iter()
            .chain(&[&["Walk", "oh"][..], &["Ride", "Walk", "oh"]])
        {
            let way: &'static [&'static str] = way;
            let _ = runtime.submit(Trip::new(way)).await;
            let awaited = log.take();
            assert!(awaited.len() >= 2, "{awaited:?}");
            let in_thread = runtime.clone();
            std::thread::spawn(move || {
                drop(in_thread.submit(Trip::new(way)).start().unwrap().wait())
            })
            .join()
            .unwrap();
            assert_eq!(log.take(), awaited);
            for blocking in [false, true] {
                runtime.submit(Parent { blocking, way }).await.unwrap();
                assert_eq!(log.take(), awaited);
            }
        }
    });
}

/// In this phase, this result.
type Instead = (&'static str, fn() -> Result<Leg, Oops>);

/// Takes down what it is asked, and changes what it is told to.
struct Layer {
    name: &'static str,
    log: Log,
    before: Option<Instead>,
    after: Option<Instead>,
}

impl Layer {
    fn new(name: &'static str, log: &Log) -> Self {
        Self {
            name,
            log: log.clone(),
            before: None,
            after: None,
        }
    }
}

impl Interpose<Trip> for Layer {
    fn before(&self, _: &mut Trip, phase: &mut Leg) -> Option<Result<Leg, Oops>> {
        let kind = format!("{:?}", Trip::kind(phase));
        self.log.put(format_args!("{} before {kind}", self.name));
        self.before
            .filter(|(at, _)| *at == kind)
            .map(|(_, make)| make())
    }

    fn after(&self, _: &mut Trip, phase: &mut Leg, result: Result<Leg, Oops>) -> Result<Leg, Oops> {
        let kind = format!("{:?}", Trip::kind(phase));
        let seen = match &result {
            Ok(next) => format!("{:?}", Trip::kind(next)),
            Err(Oops(word)) => format!("error {word}"),
        };
        self.log
            .put(format_args!("{} after {kind}: {seen}", self.name));
        match self.after {
            Some((at, make)) if at == kind => make(),
            _ => result,
        }
    }
}

/// SM-14: interposers are stacked, the last one added outermost; `before` goes inwards, `after` outwards.
#[test]
fn interposers_stand_round_each_phase_in_the_order_of_a_stack() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let inner = runtime.interpose::<Trip>(Layer::new("inner", &log));
        let outer = runtime.interpose::<Trip>(Layer::new("outer", &log));
        let mut trip = Trip::new(&["Walk", "There"]);
        trip.log = log.clone();
        runtime.submit(trip).await.unwrap();
        assert_eq!(
            log.take(),
            [
                "outer before Home",
                "inner before Home",
                "home",
                "inner after Home: Walk",
                "outer after Home: Walk",
                "outer before Walk",
                "inner before Walk",
                "walk 1",
                "inner after Walk: There",
                "outer after Walk: There",
            ]
        );
        // Last in, first out is enforced, and the one that may not go yet is given back, still in place.
        let inner = inner.remove().unwrap_err().0;
        outer.remove().unwrap();
        let mut trip = Trip::new(&["Lost"]);
        trip.log = log.clone();
        runtime.submit(trip).await.unwrap();
        assert_eq!(
            log.take(),
            ["inner before Home", "home", "inner after Home: Lost"]
        );
        inner.remove().unwrap();
        runtime.submit(Trip::new(&["Lost"])).await.unwrap();
        assert_eq!(log.take(), [""; 0]);
    });
}

/// SM-14: a `before` may take the place of the phase function: neither that nor the interposers inside run, but every
/// `after` sees the result.
#[test]
fn a_before_takes_the_place_of_the_phase() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let _inner = runtime.interpose::<Trip>(Layer::new("inner", &log));
        let _outer = runtime.interpose::<Trip>(Layer {
            before: Some(("Home", || Ok(Leg::Ride { bus: 3 }))),
            ..Layer::new("outer", &log)
        });
        let mut trip = Trip::new(&["There"]);
        trip.log = log.clone();
        let ended = runtime.submit(trip).await.unwrap();
        assert!(matches!(ended.phase, Leg::There { by: "bus" }));
        assert_eq!(
            log.take(),
            [
                "outer before Home",
                "inner after Home: Ride",
                "outer after Home: Ride",
                "outer before Ride",
                "inner before Ride",
                "ride 3",
                "inner after Ride: There",
                "outer after Ride: There",
            ]
        );
    });
}

/// SM-14: an `after` may replace the result: an exit, an error by an exit, an exit by an error; an exit that the phase
/// does not declare fails the fom, and says which one it was.
#[test]
fn an_after_replaces_the_result() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let after = Some(("Home", (|| Ok(Leg::Lost)) as fn() -> _));
        let layer = runtime.interpose::<Trip>(Layer {
            after,
            ..Layer::new("x", &log)
        });
        let ended = runtime.submit(Trip::new(&["oh"])).await.unwrap();
        assert!(
            matches!(ended.phase, Leg::Lost),
            "the error was replaced by an exit"
        );
        layer.remove().unwrap();

        let after = Some(("Ride", (|| Err(Oops("replaced"))) as fn() -> _));
        let layer = runtime.interpose::<Trip>(Layer {
            after,
            ..Layer::new("x", &log)
        });
        let failure = runtime
            .submit(Trip::new(&["Ride", "There"]))
            .await
            .unwrap_err();
        assert!(matches!(failure.cause, Cause::Error(Oops("replaced"))));
        layer.remove().unwrap();

        let after = Some(("Home", (|| Ok(Leg::There { by: "magic" })) as fn() -> _));
        let layer = runtime.interpose::<Trip>(Layer {
            after,
            ..Layer::new("x", &log)
        });
        let failure = runtime.submit(Trip::new(&["Walk"])).await.unwrap_err();
        assert!(
            matches!(failure.cause, Cause::UndeclaredExit { to: "There" }),
            "{:?}",
            failure.cause
        );
        assert_eq!((failure.phase, failure.operation.is_some()), ("Home", true));
        layer.remove().unwrap();
    });
}

/// SM-14: an interposer that panics fails the fom that it was asked for, and nothing else.
#[test]
fn an_interposer_that_panics_fails_its_fom() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        for before in [false, true] {
            let layer = Layer::new("x", &log);
            let panics = Some(("Walk", (|| panic!("in the interposer")) as fn() -> _));
            let layer = if before {
                Layer {
                    before: panics,
                    ..layer
                }
            } else {
                Layer {
                    after: panics,
                    ..layer
                }
            };
            let layer = runtime.interpose::<Trip>(layer);
            let failure = runtime
                .submit(Trip::new(&["Walk", "There"]))
                .await
                .unwrap_err();
            assert!(matches!(&failure.cause, Cause::Panicked(what) if what == "in the interposer"));
            assert_eq!(failure.phase, "Walk");
            runtime.submit(Trip::new(&["Ride", "There"])).await.unwrap();
            layer.remove().unwrap();
        }
    });
}

/// SM-15: every drawing is made from the table that the runtime runs by: each names every phase and every edge. (That
/// drawings and table are equal, line by line, is tested beside them in `graph/tests.rs`.)
#[test]
fn drawings_show_what_runs() {
    let graph = Trip::GRAPH;
    for (name, drawing) in [
        ("mermaid", graph.mermaid().to_string()),
        ("dot", graph.dot().to_string()),
        ("table", graph.table().to_string()),
        ("json", graph.json().to_string()),
        ("drawing", graph.drawing().to_string()),
    ] {
        for phase in graph.phases() {
            assert!(
                drawing.contains(phase.name()),
                "{name} lacks {}",
                phase.name()
            );
        }
    }
    let mermaid = graph.mermaid().to_string();
    for (from, to) in graph.edges() {
        let edge = format!("{} --> {}", from.name(), to.name());
        assert_eq!(mermaid.matches(&edge).count(), 1, "{edge} in {mermaid}");
    }
}

/// SM-19: only a `blocking` phase and `enter_block` give a `BlockingCx`, by types (tests/ui has the programs that do not
/// compile); what runs with one leaves its locality to others meanwhile.
#[test]
fn only_blocking_sections_block() {
    use std::sync::{Arc, Barrier};
    struct Section {
        guard: bool,
        meet: Arc<Barrier>,
    }
    #[fom(operation(Section), error(Oops), transient)]
    enum Sectioning {
        #[phase(start, to(Guard, Whole), sync)]
        Choose,
        #[phase(to(Done))]
        Guard,
        #[phase(to(Done), blocking)]
        Whole,
        #[phase(end)]
        Done,
    }
    fn blocks(_: &BlockingCx<'_>, meet: &Barrier) {
        meet.wait();
    }
    impl SectioningTransitions for Section {
        fn choose(&mut self, _: &mut Cx<'_>) -> Result<SectioningAfterChoose, Oops> {
            Ok(if self.guard {
                SectioningAfterChoose::Guard
            } else {
                SectioningAfterChoose::Whole
            })
        }
        async fn guard(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
            let guard = cx.enter_block().unwrap();
            blocks(&guard, &self.meet);
            Ok(())
        }
        fn whole(&mut self, cx: &mut BlockingCx<'_>) -> Result<(), Oops> {
            blocks(cx, &self.meet);
            Ok(())
        }
    }
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        // All of them meet in one locality, which works only if none of them holds it while it waits.
        let meet = Arc::new(Barrier::new(4));
        let foms: Vec<_> = (0..4)
            .map(|n| {
                runtime
                    .submit(Section {
                        guard: n % 2 == 0,
                        meet: Arc::clone(&meet),
                    })
                    .start()
                    .unwrap()
            })
            .collect();
        for fom in foms {
            fom.await.unwrap();
        }
        // A phase that does not block has no such context: the runtime sees nobody in a blocking section.
        assert_eq!(Section::GRAPH.find("Whole").unwrap().mode(), Mode::Blocking);
        assert_eq!(Section::GRAPH.find("Guard").unwrap().mode(), Mode::Async);
        assert_eq!(runtime.operations().localities[0].blocked_threads, 0);
    });
}

/// A machine of plain functions is stored without a future: header, operation and phase.
#[test]
fn a_machine_of_plain_functions_is_small() {
    struct Small {
        _state: [u8; 64],
    }
    #[derive(Debug, PartialEq)]
    enum Poke {
        Go,
    }
    #[fom(operation(Small), error(Oops), event(Poke), transient)]
    enum Smalling {
        #[phase(start, to(Done), sync, on(Go))]
        Wait,
        #[phase(end)]
        Done,
    }
    impl SmallingTransitions for Small {
        fn wait(&mut self, _: &mut Cx<'_, Poke>, event: Poke) -> Result<SmallingAfterWait, Oops> {
            assert_eq!(event, Poke::Go);
            Ok(SmallingAfterWait::Done)
        }
    }
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let fom = runtime.submit(Small { _state: [0; 64] }).start().unwrap();
        runtime.quiet().await;
        let bytes = runtime.operation(fom.id()).unwrap().bytes;
        assert!((64..=512).contains(&bytes), "{bytes} bytes");
        fom.send(Poke::Go).unwrap();
        fom.await.unwrap();
    });
}

/// Every transition says why: started, returned, late, or the failure's word.
#[test]
fn transitions_say_their_cause() {
    struct Slow;
    #[fom(operation(Slow), error(Oops), transient)]
    enum Slowly {
        #[phase(start, to(Second), within = "1s", late)]
        First,
        #[phase(to(Never), within = "1s")]
        Second,
        #[phase(end)]
        Never,
    }
    impl SlowlyTransitions for Slow {
        async fn first(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
            std::future::pending().await
        }
        async fn first_late(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
            Ok(())
        }
        async fn second(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
            std::future::pending().await
        }
    }
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let causes = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = std::sync::Arc::clone(&causes);
        runtime
            .listen(move |step| seen.lock().unwrap().push(step.cause()))
            .forever();
        let fom = runtime.submit(Slow).start().unwrap();
        for _ in 0..2 {
            runtime.quiet().await;
            clock.advance(secs(1));
        }
        let failure = fom.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Late { armed_in: "Second" }));
        assert_eq!(
            *causes.lock().unwrap(),
            [
                TransitionCause::Started,
                TransitionCause::Late,
                TransitionCause::Failed("late")
            ]
        );
    });
}
