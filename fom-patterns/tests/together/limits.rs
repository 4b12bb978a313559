//! Limits: how many foms run a phase at once.

use fom_patterns::{
    limit::{LimitStatus, Limits},
    prelude::*,
};
use fom_runtime::{Handle, time::TestClock};

use crate::kit::{Log, limited, one, secs};

/// Charges, waits for a word, and books, with the place of the charge.
struct Order {
    name: &'static str,
    log: Log,
    fails: bool,
}

#[derive(Debug)]
enum Word {
    Go,
}

#[fom(operation(Order), event(Word), transient)]
enum Ordering {
    #[phase(start, sync, limit = "charges", retry = "1, 5s..5s", to(Charged))]
    Charge,
    #[phase(sync, limit = "charges", on(Go), to(Done))]
    Charged,
    #[phase(end)]
    Done,
}

impl OrderingTransitions for Order {
    fn charge(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        self.log.put(self.name);
        if std::mem::take(&mut self.fails) {
            return Err("the provider is down".into());
        }
        Ok(())
    }

    fn charged(
        &mut self,
        _: &mut Cx<'_, Word>,
        Word::Go: Word,
    ) -> Result<OrderingAfterCharged, BoxError> {
        Ok(OrderingAfterCharged::Done)
    }
}

fn order(runtime: &Runtime, log: &Log, name: &'static str) -> Handle<Order> {
    let order = Order {
        name,
        log: log.clone(),
        fails: name == "fails",
    };
    runtime.submit(order).start().unwrap()
}

fn status(runtime: &Runtime) -> (Option<usize>, usize, usize) {
    let all = runtime.limits().status();
    let [
        LimitStatus {
            places,
            running,
            waiting,
            ..
        },
    ] = all.as_slice()
    else {
        panic!("one limit: {all:?}");
    };
    (*places, *running, *waiting)
}

/// A limit lets that many foms into its phases, first come, first served. A fom keeps its place over the phases of one
/// limit. The limit changes while foms run: a higher one lets more in at once, a lower one lets those inside go on.
#[test]
fn a_limit_changes_while_foms_run() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let names = ["a", "b", "c", "d", "e"];
        let mut foms: Vec<_> = names.map(|name| order(&runtime, &log, name)).into();
        runtime.quiet().await;
        assert!(
            log.take().is_empty(),
            "a limit that was never set is closed"
        );
        assert_eq!(status(&runtime), (None, 0, 5));
        let listed = runtime.operation(foms[0].id()).unwrap();
        assert_eq!(
            listed.waiting_for().as_deref(),
            Some("a place under a limit")
        );

        runtime.limits().set("charges", 2);
        runtime.quiet().await;
        assert_eq!(log.take(), ["a", "b"]);
        assert_eq!(status(&runtime), (Some(2), 2, 3));

        foms.remove(1).send(Word::Go).unwrap();
        runtime.quiet().await;
        assert_eq!(log.take(), ["c"], "one place, one fom");

        runtime.limits().set("charges", 3);
        runtime.quiet().await;
        assert_eq!(log.take(), ["d"]);

        runtime.limits().set("charges", 1);
        assert_eq!(status(&runtime), (Some(1), 3, 1));
        for _ in ["a", "c"] {
            foms.remove(0).send(Word::Go).unwrap();
            runtime.quiet().await;
            assert!(
                log.take().is_empty(),
                "more are inside than there are places"
            );
        }
        foms.remove(0).send(Word::Go).unwrap();
        runtime.quiet().await;
        assert_eq!(log.take(), ["e"]);
        foms.remove(0).send(Word::Go).unwrap();
        runtime.idle().await;
        assert_eq!(status(&runtime), (Some(1), 0, 0));
    });
}

/// A fom keeps its place in the pause before a retry. A fom that is cancelled in the queue leaves the queue, and one that
/// is cancelled inside leaves its place.
#[test]
fn a_place_is_kept_over_retries_and_left_at_every_end() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        runtime.limits().set("charges", 1);
        let log = Log::default();
        let failing = order(&runtime, &log, "fails");
        let queued = order(&runtime, &log, "b");
        let last = order(&runtime, &log, "c");
        runtime.quiet().await;
        assert_eq!(log.take(), ["fails"]);
        assert_eq!(status(&runtime), (Some(1), 1, 2));
        queued.cancel();
        runtime.quiet().await;
        assert_eq!(status(&runtime), (Some(1), 1, 1));
        clock.advance(secs(5));
        runtime.quiet().await;
        assert_eq!(log.take(), ["fails"], "tried again, in its place");
        failing.cancel();
        runtime.quiet().await;
        assert_eq!(log.take(), ["c"]);
        last.cancel();
        runtime.idle().await;
        assert_eq!(status(&runtime), (Some(1), 0, 0));
        assert!(failing.await.is_err());
        assert!(queued.await.is_err());
        assert!(last.await.is_err());
    });
}

/// The graph shows the limit of a phase.
#[test]
fn the_graph_names_the_limit() {
    let drawing = Order::GRAPH.drawing();
    assert!(drawing.contains("limit charges"), "{drawing}");
}

/// Runtimes that have the same limits as a resource share the places, and each lists them. A runtime that ends gives its places back.
#[test]
fn runtimes_share_limits() {
    limited(|| async {
        let (limits, log) = (Limits::new(), Log::default());
        limits.set("charges", 1);
        let runtime = || one(&TestClock::new()).resource(limits.clone()).build();
        let (first, second) = (runtime().unwrap(), runtime().unwrap());
        let _inside = order(&first, &log, "a");
        first.quiet().await;
        let waits = order(&second, &log, "b");
        second.quiet().await;
        assert_eq!(log.take(), ["a"]);
        for runtime in [&first, &second] {
            assert_eq!(status(runtime), (Some(1), 1, 1));
            let parts = runtime.inspect().parts().parts;
            assert!(parts.iter().any(|part| part.kind == "limit"), "{parts:?}");
        }
        first.shutdown(Shutdown::Now, secs(10)).await;
        second.quiet().await;
        assert_eq!(log.take(), ["b"]);
        waits.send(Word::Go).unwrap();
        second.idle().await;
        assert_eq!(status(&second), (Some(1), 0, 0));
    });
}
