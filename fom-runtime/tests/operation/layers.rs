//! Layers: phases before and after those of operations that know nothing of the layer.

use std::sync::{Arc, Mutex};

use fom_runtime::{machine::Layered, observe::Interpose, prelude::*, time::TestClock};

use crate::kit::{Log, limited, many, secs};
use crate::request::{
    Answer, Disk, Guarded, Put, Read, ReadingEnd, ReadingKind, ServerError, Standard, StandardEnd,
    StandardKind, Write,
};

/// A layer that only stands before, around another layer or not.
struct Counted<R> {
    log: Log,
    count: u32,
    request: R,
}

#[fom(operation("Counted<R>"), around(R), transient)]
enum Counting<R: Operation> {
    #[phase(start, sync, to(Run))]
    Count,
    #[phase(inner(request))]
    Run { phase: R::Phase },
}

impl<R: Operation> CountingTransitions<R> for Counted<R> {
    fn count(&mut self, _: &mut Cx<'_, R::Event>) -> Result<(), BoxError> {
        self.log.put("count");
        self.count += 1;
        Ok(())
    }
}

fn write(log: &Log, disk: Disk) -> Write {
    Write {
        log: log.clone(),
        text: String::new(),
        disk,
    }
}

fn read(log: &Log, name: &'static str) -> Read {
    let log = log.clone();
    Read { log, name }
}

/// SM-11: the phases of the layer stand before and after those of the inner operation, and all is one fom. Each of its
/// transitions is told, by the names of the joined graph.
#[test]
fn the_phases_of_a_layer_stand_round_those_of_an_operation() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let log = Log::default();
        let ways = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&ways);
        let _listening = runtime.listen(move |transition| {
            heard.lock().unwrap().push(transition.to().unwrap());
        });
        let request = Guarded::new(&log, "Ada", read(&log, "sky"));
        let ended = runtime.submit(request).await.unwrap();
        assert!(matches!(ended.end, StandardEnd::Done));
        assert_eq!(ended.operation.answer, "sky at 3");
        assert_eq!(
            log.take(),
            [
                "authenticate",
                "authorise",
                "look",
                "fetch",
                "served",
                "reply"
            ]
        );
        assert_eq!(
            *ways.lock().unwrap(),
            [
                "Authenticate",
                "Authorise",
                "Serve.Look",
                "Serve.Fetch",
                "Serve.Done",
                "Reply",
                "Done"
            ]
        );
    });
}

/// SM-11: a phase before may refuse the request; nothing of the request has run then.
#[test]
fn a_request_that_is_turned_away_is_not_begun() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let log = Log::default();
        let request = Guarded::new(&log, "guest", read(&log, "sky"));
        let ended = runtime.submit(request).await.unwrap();
        assert!(matches!(ended.end, StandardEnd::Denied { why: "no" }));
        assert_eq!(log.take(), ["authenticate", "authorise"]);
    });
}

/// SM-11: the type of the inner operation is unchanged: it still runs by itself.
#[test]
fn what_is_inside_a_layer_still_runs_by_itself() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let ended = runtime.submit(read(&Log::default(), "sky")).await.unwrap();
        assert!(matches!(ended.end, ReadingEnd::Done { text } if text == "sky at 3"));
    });
}

/// SM-08, SM-10: errors keep their types, and say whether the layer or the operation failed.
#[test]
fn an_error_says_whether_it_is_the_layers_own() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let log = Log::default();
        let own = Guarded::new(&log, "broken", read(&log, "sky"));
        let own = runtime.submit(own).await.unwrap_err();
        assert!(matches!(
            own.cause,
            Cause::Error(Layered::Own(ServerError("no list")))
        ));
        assert_eq!(own.phase, Layered::Own(StandardKind::Authorise));
        assert_eq!(own.phase_name(), "Authorise");
        let inner = Counted {
            log,
            count: 0,
            request: read(&Log::default(), "broken"),
        };
        let inner = runtime.submit(inner).await.unwrap_err();
        assert_eq!(inner.phase_name(), "Run.Look");
        assert!(matches!(inner.cause, Cause::Error(Layered::Inner(error)) if error.0 == "broken"));
        assert_eq!(inner.phase, Layered::Inner(ReadingKind::Look));
        assert_eq!(inner.operation.unwrap().into_inner().request.name, "broken");
    });
}

/// SM-10, SM-15: the joined graph has the phases of both, and every edge between them.
#[test]
fn the_joined_graph_has_the_phases_of_both() {
    let graph = <Guarded<Read> as Operation>::GRAPH;
    assert_eq!(graph.operation(), "Guarded<Read>");
    let ways: Vec<String> = graph
        .edges()
        .map(|(from, to)| format!("{} > {}", from.name(), to.name()))
        .collect();
    assert_eq!(
        ways,
        [
            "Authenticate > Authorise",
            "Authenticate > Denied",
            "Authorise > Serve.Look",
            "Authorise > Denied",
            "Serve.Look > Serve.Fetch",
            "Serve.Look > Serve.Missing",
            "Serve.Look > Reply",
            "Serve.Fetch > Serve.Done",
            "Serve.Fetch > Reply",
            "Serve.Done > Reply",
            "Serve.Missing > Reply",
            "Reply > Done",
        ]
    );
    type Kind = Layered<StandardKind, ReadingKind>;
    let places = [
        Kind::Own(StandardKind::Authenticate),
        Kind::Own(StandardKind::Authorise),
        Kind::Inner(ReadingKind::Look),
        Kind::Inner(ReadingKind::Fetch),
        Kind::Inner(ReadingKind::Done),
        Kind::Inner(ReadingKind::Missing),
        Kind::Own(StandardKind::Reply),
        Kind::Own(StandardKind::Done),
        Kind::Own(StandardKind::Denied),
    ];
    let of = |kind| Guarded::<Read>::index(kind);
    assert_eq!(places.map(of), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

/// SM-11: a layer that only stands before is short, and the ends of the inner operation are its ends. Layers stand
/// around layers.
#[test]
fn layers_stand_around_layers() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let log = Log::default();
        let count = |request| Counted {
            log: log.clone(),
            count: 0,
            request,
        };
        let ended = runtime.submit(count(read(&log, "sky"))).await.unwrap();
        assert!(matches!(
            ended.end,
            CountingEnd::Run {
                phase: ReadingEnd::Done { .. }
            }
        ));
        assert_eq!(ended.operation.count, 1);
        assert_eq!(log.take(), ["count", "look", "fetch"]);
        let ended = runtime.submit(count(read(&log, ""))).await.unwrap();
        assert!(matches!(
            ended.end,
            CountingEnd::Run {
                phase: ReadingEnd::Missing
            }
        ));
        assert!(
            <Counted<Read> as Operation>::GRAPH
                .find("Run.Missing")
                .unwrap()
                .is_failure()
        );
        log.take();

        let stacked = Counted {
            log: log.clone(),
            count: 0,
            request: Guarded::new(&log, "Ada", read(&log, "sky")),
        };
        let ended = runtime.submit(stacked).await.unwrap();
        assert!(matches!(
            ended.end,
            CountingEnd::Run {
                phase: StandardEnd::Done
            }
        ));
        assert_eq!(ended.operation.request.answer, "sky at 3");
        assert_eq!(
            log.take(),
            [
                "count",
                "authenticate",
                "authorise",
                "look",
                "fetch",
                "served",
                "reply"
            ]
        );
        let graph = <Counted<Guarded<Read>> as Operation>::GRAPH;
        assert_eq!(graph.operation(), "Counted<Guarded<Read>>");
        assert!(graph.find("Run.Serve.Fetch").is_some());
    });
}

/// Returns the end of a write under the layer, and the phases that it went through.
async fn written(disk: Disk, events: &[Put], stacked: bool) -> (String, Vec<String>) {
    let clock = TestClock::new();
    let runtime = many(2, &clock).build().unwrap();
    let log = Log::default();
    let request = Guarded::new(&log, "Ada", write(&log, disk));
    let answer = if stacked {
        let stacked = Counted {
            log: log.clone(),
            count: 0,
            request,
        };
        let writing = runtime.submit(stacked).start().unwrap();
        for event in events {
            writing.send(*event).unwrap();
        }
        wait(&runtime, &clock).await;
        writing.await.unwrap().operation.request.answer
    } else {
        let writing = runtime.submit(request).start().unwrap();
        for event in events {
            writing.send(*event).unwrap();
        }
        wait(&runtime, &clock).await;
        writing.await.unwrap().operation.answer
    };
    (answer, log.take())
}

async fn wait(runtime: &Runtime, clock: &TestClock) {
    for _ in 0..15 {
        runtime.quiet().await;
        clock.advance(secs(1));
    }
}

/// SM-11: events, deadlines, attempts and blocking phases of the inner operation are the same as without a layer.
#[test]
fn what_is_inside_keeps_its_events_deadlines_and_attempts() {
    limited(|| async {
        for stacked in [false, true] {
            let before = match stacked {
                true => &["count", "authenticate", "authorise", "open"][..],
                false => &["authenticate", "authorise", "open"][..],
            };
            let parts = [Put::Part("a"), Put::Part("b"), Put::End];
            for (disk, events, then) in [
                (Disk::Well, &parts[..], &["store ab", "served", "reply"][..]),
                (
                    Disk::Full(2),
                    &parts[..],
                    &["store ab", "store ab", "store ab", "served", "reply"],
                ),
                (
                    Disk::Well,
                    &parts[..1],
                    &["late", "store a…", "served", "reply"],
                ),
            ] {
                let (answer, log) = written(disk, events, stacked).await;
                assert_eq!(answer, "Stored");
                assert_eq!(log, [before, then].concat());
            }
        }
    });
}

/// SM-11: a failure inside takes the way that the inner operation declares. If it declares none, or fails there too,
/// the failure takes the layer's way.
#[test]
fn a_failure_inside_goes_from_the_inside_out() {
    limited(|| async {
        for stacked in [false, true] {
            let full = written(Disk::Full(9), &[Put::End], stacked).await;
            assert_eq!(full.0, "Lost { why: \"full\" }");
            assert_eq!(full.1.last().unwrap(), "reply");
            let panics = written(Disk::Panics, &[Put::End], stacked).await;
            assert_eq!(panics.0, "500: error");
            let tail = panics.1.len() - 4;
            assert_eq!(
                panics.1[tail..],
                ["store ", "not stored: panicked", "failed: error", "reply"]
            );
            let broken = written(Disk::Well, &[Put::Break], stacked).await;
            assert_eq!(broken.0, "500: error");
        }
    });
}

/// SM-15: the joined graph is drawn like any other, with the inner operation as a group.
#[test]
fn the_phases_inside_are_drawn_as_a_group() {
    let graph = <Counted<Read> as Operation>::GRAPH;
    let mermaid = "\
stateDiagram-v2
    state \"Count<br/>sync\" as Count
    state \"Run\" as Run {
        state \"Look\" as Run_Look
        state \"Fetch\" as Run_Fetch
        state \"Done<br/>end\" as Run_Done
        state \"Missing<br/>end, failure\" as Run_Missing
    }
    [*] --> Count
    Count --> Run_Look
    Run_Look --> Run_Fetch
    Run_Look --> Run_Missing
    Run_Fetch --> Run_Done
    Run_Done --> [*]
    Run_Missing --> [*]
    classDef failure stroke:#c00,stroke-dasharray:4
    class Run_Missing failure
";
    assert_eq!(graph.mermaid(), mermaid);
    assert!(
        graph
            .dot()
            .contains("subgraph \"cluster_Run\" { label=\"Run\";")
    );
    let failing = <Guarded<Read> as Operation>::GRAPH;
    assert!(failing.mermaid().contains("Serve_Look --> Reply: failed\n"));
    assert!(failing.mermaid().contains("Serve_Done --> Reply\n"));
    assert!(
        failing
            .dot()
            .contains("\"Serve.Look\" -> \"Reply\" [style=dashed];")
    );
}

/// Notes what it is asked, and replaces one phase's function.
struct Watches {
    name: &'static str,
    log: Log,
    instead: Option<&'static str>,
}

type Course<R> = Result<Standard<R>, Layered<ServerError, <R as Operation>::Error>>;

impl<R: Answer> Interpose<Guarded<R>> for Watches {
    fn before(&self, _: &mut Guarded<R>, phase: &mut Standard<R>) -> Option<Course<R>> {
        let kind = Guarded::<R>::kind(phase);
        self.log.put(format_args!("{} before {kind:?}", self.name));
        let instead = self.instead.filter(|at| format!("{kind:?}") == *at);
        instead.map(|_| Err(Layered::Own(ServerError("instead"))))
    }

    fn after(&self, _: &mut Guarded<R>, phase: &mut Standard<R>, result: Course<R>) -> Course<R> {
        let kind = Guarded::<R>::kind(phase);
        let how = if result.is_ok() { "well" } else { "failed" };
        self.log
            .put(format_args!("{} after {kind:?} {how}", self.name));
        result
    }
}

/// SM-14: interposers stand around the phases of the layer and around those inside. Every `after` sees what a `before`
/// put in the place of a function, as without a layer. A failure put there is a failure like any other.
#[test]
fn interposers_stand_round_the_phases_inside() {
    limited(|| async {
        let runtime = many(1, &TestClock::new()).build().unwrap();
        let log = Log::default();
        let watches = |name, instead| Watches {
            name,
            log: log.clone(),
            instead,
        };
        let _inner = runtime.interpose::<Guarded<Read>>(watches("a", None));
        let _outer = runtime.interpose::<Guarded<Read>>(watches("b", Some("Inner(Fetch)")));
        let quiet = Log::default();
        let request = Guarded::new(&quiet, "Ada", read(&quiet, "sky"));
        let ended = runtime.submit(request).await.unwrap();
        assert_eq!(ended.operation.answer, "500: error");
        let lines = log.take();
        let look = lines.iter().position(|line| line.contains("Look")).unwrap();
        assert_eq!(
            lines[look..],
            [
                "b before Inner(Look)",
                "a before Inner(Look)",
                "a after Inner(Look) well",
                "b after Inner(Look) well",
                "b before Inner(Fetch)",
                "a after Inner(Fetch) failed",
                "b after Inner(Fetch) failed",
                "b before Own(Reply)",
                "a before Own(Reply)",
                "a after Own(Reply) well",
                "b after Own(Reply) well",
            ]
        );
    });
}
