//! Foms from closures.

use fom_patterns::prelude::*;
use fom_runtime::time::TestClock;

use crate::kit::{Log, limited, many, one, secs};

/// FL-09: a closure runs as a fom, in order for its key, with the clock of the runtime. A value ends it, and so does an
/// error or a panic.
#[test]
fn a_closure_runs_as_a_fom_of_its_key() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let heard = log.clone();
        let first = runtime.run("alice", async move |cx| {
            cx.sleep(secs(5)).await;
            heard.put("first");
            Ok(cx.id())
        });
        let first = first.unwrap();
        let heard = log.clone();
        let second = runtime.run("alice", async move |cx| {
            heard.put("second");
            Ok(cx.id())
        });
        let second = second.unwrap();
        let failing = runtime.run("bob", async |_| Err::<(), _>("told to".into()));
        let failure = failing.unwrap().await.unwrap_err();
        assert_eq!(failure.cause.to_string(), "told to");
        let panicking = runtime.run("bob", async |_| {
            if true {
                panic!("told to");
            }
            Ok(1)
        });
        let failure = panicking.unwrap().await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Panicked(_)));
        runtime.quiet().await;
        assert!(log.take().is_empty());
        assert_eq!(runtime.operation(first.id()).unwrap().phase, "Run");
        clock.advance(secs(5));
        let (id, other) = (first.id(), second.id());
        assert_eq!(first.await.unwrap().operation.into_value(), Some(id));
        assert_eq!(second.await.unwrap().operation.into_value(), Some(other));
        assert_eq!(log.take(), ["first", "second"]);
    });
}

/// FL-09: of one closure in each locality, the fom with the index i runs in locality i.
#[test]
fn one_closure_runs_in_each_locality() {
    limited(|| async {
        let runtime = many(3, &TestClock::new()).build().unwrap();
        let foms = runtime.run_in_each(async |cx| Ok(cx.locality())).unwrap();
        let mut places = Vec::new();
        for fom in foms {
            places.extend(fom.await.unwrap().operation.into_value());
        }
        assert_eq!(places, [0, 1, 2]);
    });
}
