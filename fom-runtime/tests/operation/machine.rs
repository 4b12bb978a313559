//! What a machine promises: its phases, edges and ends, as declared and as drawn, and the same under every executive.

use std::collections::BTreeSet;

use fom_runtime::{
    error::BoxError,
    machine::{Graph, Mode},
    prelude::*,
    time::TestClock,
};

use crate::kit::{Log, limited, one};
use crate::trip::{LegAfterHome, LegAfterWalk, LegKind, Oops, Trip, WAYS};

/// SM-01: there is one start. Whatever the way, the outcome is an end phase or the standard failed outcome, told once.
/// Types rule out any other end: a handle gives `Ended` or `Failure`, and a phase without an exit does not compile
/// (tests/ui).
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
            let kind = ended.kind();
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
        assert_eq!(failure.phase_name(), "Walk");
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

/// SM-02: the edges taken are the edges declared, both ways. A phase can return only an enum of its exits (the matches
/// below are exhaustive), and here every declared edge is taken. rustc reports a declared exit that no function returns.
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

/// SM-02: an edge can have a name, which listeners and every picture show. An edge without a name stays without.
#[test]
fn an_edge_has_its_name_in_the_graph_the_listeners_and_the_pictures() {
    struct Call(bool);
    #[fom(operation(Call), transient)]
    enum Route {
        #[phase(start, sync, to(Ring = "found", Rejected = "no: such #1; user"))]
        Locate,
        #[phase(sync, to(Answered))]
        Ring,
        #[phase(end)]
        Answered,
        #[phase(end)]
        Rejected,
    }
    impl RouteTransitions for Call {
        fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
            Ok(if self.0 {
                RouteAfterLocate::Ring
            } else {
                RouteAfterLocate::Rejected
            })
        }
        fn ring(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            Ok(())
        }
    }
    let graph = Call::GRAPH;
    let named: Vec<_> = graph
        .edges()
        .map(|(from, to)| (to.name(), graph.edge_name(from, to)))
        .collect();
    assert_eq!(
        named,
        [
            ("Ring", Some("found")),
            ("Rejected", Some("no: such #1; user")),
            ("Answered", None),
        ]
    );
    let mermaid = graph.mermaid();
    assert!(mermaid.contains("Locate --> Ring: found\n"), "{mermaid}");
    let escaped = "Locate --> Rejected: no#58; such #35;1#59; user\n";
    assert!(mermaid.contains(escaped), "{mermaid}");
    assert!(mermaid.contains("Ring --> Answered\n"), "{mermaid}");
    let dot = graph.dot();
    assert!(
        dot.contains(r#""Locate" -> "Ring" [label="found"];"#),
        "{dot}"
    );
    let table = graph.table();
    assert!(table.contains("`Ring` (found)"), "{table}");
    let json = graph.json();
    assert!(json.contains(r#""description": "found""#), "{json}");
    let drawing = graph.drawing();
    assert!(drawing.contains("found: Ring"), "{drawing}");
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let heard = log.clone();
        let _listening = runtime.listen(move |step| {
            heard.put(format_args!("{:?} {step}", step.edge()));
        });
        runtime.submit(Call(true)).await.unwrap();
        assert_eq!(
            log.take(),
            [
                "None Call 1: Locate (started)",
                r#"Some("found") Call 1: Locate -> Ring (returned, found)"#,
                "None Call 1: Ring -> Answered (returned)",
            ]
        );
    });
}

/// SM-16: every machine of the program is in the list, transient or saved, with its types, its phases and the names of
/// its edges. None of them needs to have run. A generic machine is many, and is not in the list.
#[test]
fn every_machine_of_the_program_is_listed() {
    struct Unused;
    #[fom(operation(Unused), transient)]
    enum Unusing {
        #[phase(start, sync, to(Never = "nobody asked"))]
        Idle,
        #[phase(end)]
        Never,
    }
    impl UnusingTransitions for Unused {
        fn idle(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            Ok(())
        }
    }
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Kept;
    #[fom(operation(Kept))]
    enum Keeping {
        #[phase(start, sync, to(Over))]
        Begin,
        #[phase(end)]
        Over,
    }
    impl KeepingTransitions for Kept {
        fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            Ok(())
        }
    }
    struct Of<T>(T);
    #[fom(operation(Of<T>), generics("T: Send + 'static"), transient)]
    enum OfAny {
        #[phase(start, sync, to(Over))]
        Begin,
        #[phase(end)]
        Over,
    }
    impl<T: Send + 'static> OfAnyTransitions for Of<T> {
        fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            let _ = &self.0;
            Ok(())
        }
    }
    let all = fom_runtime::machine::all();
    let found = |name: &str| {
        let mut found = all.iter().filter(|graph| graph.name() == name);
        let graph = found.next();
        assert!(found.next().is_none(), "{name} is listed once");
        graph.copied()
    };
    let unused = found("Unusing").expect("a transient machine");
    assert_eq!(unused.operation(), "Unused");
    let edges: Vec<_> = unused
        .edges()
        .map(|(from, to)| (from.name(), to.name(), unused.edge_name(from, to)))
        .collect();
    assert_eq!(edges, [("Idle", "Never", Some("nobody asked"))]);
    assert_eq!(found("Keeping").map(Graph::operation), Some("Kept"));
    assert!(found("OfAny").is_none());
    assert!(all.is_sorted_by_key(|graph| (graph.operation(), graph.name())));
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

/// SM-04: each phase has a stable index, its place in the declaration, which edges name; a pair without an edge is not
/// found.
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

/// SM-13: one definition under every executive. It is awaited in tokio, waited for in a plain thread, and run inside
/// another fom of the same locality, async or blocking. The transition logs are the same.
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

/// SM-15: every drawing is made from the table by which the runtime runs: each names every phase and every edge. (A
/// test in `graph/tests.rs` compares drawings and table line by line.)
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

/// SM-19: only a `blocking` phase and `enter_block` give a `BlockingCx`, by types (tests/ui has the programs that do
/// not compile). A section with a `BlockingCx` leaves its locality to others meanwhile.
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
        // All sections meet in one locality, which works only if none holds it while it waits.
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
        // A phase that does not block has no such context: the runtime sees no fom in a blocking section.
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
        let bytes = runtime.operation(fom.id()).unwrap().home.bytes;
        assert!((64..=512).contains(&bytes), "{bytes} bytes");
        fom.send(Poke::Go).unwrap();
        fom.await.unwrap();
    });
}
