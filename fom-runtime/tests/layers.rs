//! Layers: phases before and after those of operations that know nothing of it.

mod kit;
mod request;

use std::sync::{Arc, Mutex};

use fom_runtime::{Layered, TestClock, prelude::*};
use kit::{Log, limited, many};
use request::{Guarded, Read, Reading, ReadingKind, ServerError, Standard, StandardKind};

fn read(log: &Log, name: &'static str) -> Read {
    let log = log.clone();
    Read { log, name }
}

/// SM-11: the phases of the layer stand before and after those of the operation inside, and it is one fom: each of its transitions
/// is told, by the names of the joined graph.
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
        assert!(matches!(ended.phase, Standard::Done));
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

/// SM-11: what stands before may turn the request away; nothing of it has run then.
#[test]
fn a_request_that_is_turned_away_is_not_begun() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let log = Log::default();
        let request = Guarded::new(&log, "guest", read(&log, "sky"));
        let ended = runtime.submit(request).await.unwrap();
        assert!(matches!(ended.phase, Standard::Denied { why: "no" }));
        assert_eq!(log.take(), ["authenticate", "authorise"]);
    });
}

/// SM-11: the type of the operation inside is as it was: it still runs by itself.
#[test]
fn what_is_inside_a_layer_still_runs_by_itself() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let ended = runtime.submit(read(&Log::default(), "sky")).await.unwrap();
        assert!(matches!(ended.phase, Reading::Done { text } if text == "sky at 3"));
    });
}

/// SM-08, SM-10: errors keep their types, and say whose they are.
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
        assert_eq!(own.phase, "Authorise");
        let inner = Guarded::new(&log, "Ada", read(&log, "broken"));
        let inner = runtime.submit(inner).await.unwrap_err();
        assert!(matches!(inner.cause, Cause::Error(Layered::Inner(error)) if error.0 == "broken"));
        assert_eq!(inner.phase, "Serve.Look");
        assert_eq!(inner.operation.unwrap().request.name, "broken");
    });
}

/// SM-10, SM-15: the joined graph has the phases of both, and every way between them.
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
            "Serve.Fetch > Serve.Done",
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
