//! Order per key: which fom waits behind which, which foms go together, and how many may wait.

use fom_runtime::{
    Key, error::RefusedReason, machine::FomState, observe::WaitsFor, prelude::*,
    submission::Joined, time::TestClock,
};

use crate::kit::foms::{Drops, Held, Walker, Word, walker};
use crate::kit::{Log, limited, millis, one, secs};

/// KY-01: foms with the same key run one after the other, in the order of their submissions, however the earlier foms
/// end. A waiting fom is in flight, says what it waits for, and runs nothing.
#[test]
fn one_after_the_other_in_the_order_of_their_submissions() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let start = |name| {
            let submission = runtime.submit(walker(&log, name)).key("k");
            submission.queue().start().unwrap()
        };
        let (a, b, c) = (start("a"), start("b"), start("c"));
        runtime.quiet().await;
        assert_eq!(log.take(), ["a begins", "a waits"]);
        let holder = format!("its key, held by Walker {} (key k) in Waits", a.id());
        let texts = [holder.clone(), format!("{holder}, behind 1 more")];
        for (place, behind) in [&b, &c].into_iter().enumerate() {
            let info = runtime.operation(behind.id()).unwrap();
            assert_eq!(info.waiting_for().as_ref(), Some(&texts[place]));
            let [wait] = &info.waits[..] else {
                panic!("one wait: {:?}", info.waits)
            };
            assert_eq!(wait.holders()[0].fom, Some(a.id()));
            let WaitsFor::Turn { series, ahead, .. } = &wait.on else {
                panic!("not its turn: {wait}")
            };
            assert_eq!((series, *ahead), (&None, place));
            assert_eq!(info.state, FomState::Waiting);
            assert_eq!(info.key, Some("k".into()));
            // A wake of either fom changes nothing.
            behind.wake();
            runtime.wake(behind.id());
        }
        // The graph of all waits has one edge from each of them.
        let edges = runtime.inspect().waits().into_iter();
        let edges: Vec<_> = edges
            .map(|wait| (wait.fom, wait.wait.holders()[0].fom))
            .collect();
        assert_eq!(edges, [(b.id(), Some(a.id())), (c.id(), Some(a.id()))]);
        assert_eq!(runtime.find::<Walker>("k").unwrap().id(), a.id());
        runtime.quiet().await;
        assert_eq!(log.take(), [""; 0]);
        // The first fails.
        a.send(Word::Fail).unwrap();
        assert!(a.await.is_err());
        runtime.quiet().await;
        assert_eq!(log.take(), ["a Fail", "b begins", "b waits"]);
        // The second is cancelled; the third gets the message sent to it while it waited.
        c.send(Word::Stop).unwrap();
        b.cancel();
        assert_eq!(b.await.unwrap_err().cause.name(), "cancelled");
        c.await.unwrap();
        assert_eq!(log.take(), ["c begins", "c waits", "c Stop"]);
        assert!(runtime.find::<Walker>("k").is_none());
        assert_eq!(runtime.in_flight(), 0);
    });
}

/// KY-01: foms with different keys, or of different types, do not wait for each other.
#[test]
fn different_keys_go_on_side_by_side() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let start = |name, key: u64| {
            let submission = runtime.submit(walker(&log, name)).key(key);
            submission.queue().start().unwrap()
        };
        let held = [start("a", 1), start("b", 1), start("c", 2), start("d", 3)];
        runtime.quiet().await;
        let waits = |name: &str| log.lines().contains(&format!("{name} waits"));
        assert_eq!(["a", "b", "c", "d"].map(waits), [true, false, true, true]);
        drop(held);
    });
}

/// KY-05: a fom that gives up leaves the queue at once, wherever it stands, and the rest keep their order.
#[test]
fn a_fom_that_gives_up_leaves_the_queue() {
    limited(|| async {
        let runtime = one(&TestClock::new()).key_queue(3).build().unwrap();
        let log = Log::default();
        let submit = |name| runtime.submit(walker(&log, name)).key(7).queue().start();
        let a = submit("a").unwrap();
        let (b, c, d) = (
            submit("b").unwrap(),
            submit("c").unwrap(),
            submit("d").unwrap(),
        );
        let refused = submit("e").unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::KeyFull);
        assert_eq!(refused.into_operation().name, "e");
        c.cancel();
        let failure = c.await.unwrap_err();
        assert_eq!(failure.cause.name(), "cancelled");
        assert_eq!(failure.operation.unwrap().into_inner().name, "c");
        let e = submit("e").unwrap();
        for fom in [&a, &b, &d, &e] {
            fom.send(Word::Stop).unwrap();
        }
        e.await.unwrap();
        let begun: Vec<_> = log.lines();
        let begun: Vec<_> = begun
            .iter()
            .filter_map(|line| line.strip_suffix(" begins"))
            .collect();
        assert_eq!(begun, ["a", "b", "d", "e"]);
        drop((a, b, d));
    });
}

/// KY-05: with shedding, the fom that has waited longest makes room, and its cause says so.
#[test]
fn the_oldest_makes_room() {
    limited(|| async {
        let runtime = one(&TestClock::new()).key_queue(2).build().unwrap();
        let log = Log::default();
        let submit = |name| {
            let submission = runtime.submit(walker(&log, name)).key(7);
            submission.shed_oldest().start().unwrap()
        };
        let (a, b, c, d) = (submit("a"), submit("b"), submit("c"), submit("d"));
        let failure = b.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Shed));
        assert_eq!(failure.operation.unwrap().into_inner().name, "b");
        for fom in [&a, &c, &d] {
            fom.send(Word::Stop).unwrap();
        }
        d.await.unwrap();
        assert!(!log.lines().iter().any(|line| line.starts_with('b')));
        drop((a, c));
    });
}

/// KY-14: foms that share a key have it together. None of them passes an earlier fom that does not share it.
#[test]
fn readers_go_together_and_never_pass_a_writer() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let read = |name| {
            let submission = runtime.submit(walker(&log, name)).key(7);
            submission.queue().shared().start().unwrap()
        };
        let write = |name| {
            let submission = runtime.submit(walker(&log, name)).key(7);
            submission.queue().start().unwrap()
        };
        let begun = || {
            let lines = log.take();
            let begun = lines.iter().filter_map(|line| line.strip_suffix(" begins"));
            begun.map(str::to_owned).collect::<Vec<_>>()
        };
        let (r1, r2, w1, r3, r4, w2) = (
            read("r1"),
            read("r2"),
            write("w1"),
            read("r3"),
            read("r4"),
            write("w2"),
        );
        runtime.quiet().await;
        assert_eq!(begun(), ["r1", "r2"]);
        let stop = async |fom: Handle<Walker>| {
            fom.send(Word::Stop).unwrap();
            fom.await.unwrap();
            runtime.quiet().await;
        };
        stop(r1).await;
        assert_eq!(begun(), [""; 0]);
        stop(r2).await;
        assert_eq!(begun(), ["w1"]);
        stop(w1).await;
        assert_eq!(begun(), ["r3", "r4"]);
        // A new reader waits behind the writer; when the writer gives up, nothing is between the readers any more.
        let r5 = read("r5");
        runtime.quiet().await;
        assert_eq!(begun(), [""; 0]);
        w2.cancel();
        drop(w2.await);
        runtime.quiet().await;
        assert_eq!(begun(), ["r5"]);
        drop((r3, r4, r5));
    });
}

/// KY-01: the second submission of a key is refused, queues, or gets the address of the first, as it requests.
#[test]
fn the_second_chooses() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let submit = |name| runtime.submit(walker(&log, name)).key(7);
        let Joined::Started(first) = submit("first").join().unwrap() else {
            panic!("nobody has the key")
        };
        let refused = submit("second").start().unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::KeyInUse);
        assert_eq!(refused.live().unwrap().id(), first.id());
        let Joined::Live { fom, operation } = submit("third").join().unwrap() else {
            panic!("the first has the key")
        };
        assert_eq!((fom.id(), operation.name), (first.id(), "third"));
        let fourth = submit("fourth").queue().start().unwrap();
        first.send(Word::Stop).unwrap();
        fourth.send(Word::Stop).unwrap();
        first.await.unwrap();
        fourth.await.unwrap();
    });
}

/// KY-05: a fom that waits for a key is answered at a shutdown, and dropped once. A drain gives every fom its turn.
#[test]
fn a_shutdown_answers_those_that_wait() {
    limited(|| async {
        for how in [Shutdown::Now, Shutdown::Drain] {
            let runtime = one(&TestClock::new()).build().unwrap();
            let (log, drops) = (Log::default(), Drops::default());
            let foms: Vec<_> = (0..100)
                .map(|_| {
                    let _held = Held(Some(drops.clone()));
                    let fom = Walker {
                        _held,
                        ..walker(&log, "x")
                    };
                    runtime.submit(fom).key(7).queue().start().unwrap()
                })
                .collect();
            runtime.quiet().await;
            for fom in &foms {
                fom.send(Word::Stop).unwrap();
            }
            let report = runtime.shutdown(how, secs(20)).await;
            assert!(report.remained.is_empty());
            for fom in foms {
                match (how, fom.await) {
                    // With `Now`, the first waiting fom may have had its turn.
                    (_, Ok(_)) => {}
                    (Shutdown::Now, Err(failure)) => assert_eq!(failure.cause.name(), "shutdown"),
                    (_, Err(failure)) => panic!("{failure:?}"),
                }
            }
            assert_eq!(drops.count(), 100);
        }
    });
}

/// KY-15, KY-05: the time of a deadline begins when the fom has its key. A holder without an answer ends by its
/// deadline, and the next fom has its turn.
#[test]
fn a_holder_that_gets_no_answer_ends_by_its_deadline() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let start = || runtime.submit(Ask).key(7).queue().start().unwrap();
        let (first, second) = (start(), start());
        runtime.quiet().await;
        clock.advance(millis(999));
        runtime.quiet().await;
        assert!(
            runtime
                .operation(second.id())
                .unwrap()
                .times
                .deadline_in
                .is_none()
        );
        clock.advance(millis(1));
        let failure = first.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Late { armed_in: "Wait" }));
        runtime.quiet().await;
        let info = runtime.operation(second.id()).unwrap();
        assert_eq!(info.times.deadline_in, Some(secs(1)));
        clock.advance(secs(1));
        assert!(second.await.is_err());
    });
}

struct Ask;

#[fom(operation(Ask), transient)]
enum Asking {
    #[phase(start, to(Answered), within = "1s")]
    Wait,
    #[phase(end)]
    Answered,
}

impl AskingTransitions for Ask {
    async fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        std::future::pending().await
    }
}

/// KY-17: keys are equal when all of their parts are, however they were made. An empty key is a key like any other, and
/// a fom without a key waits for no other.
#[test]
fn keys_are_compared_by_value() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let hold = || walker(&log, "a");
        let topic = String::from("orders");
        let keys = [
            Key::from(("orders", 7)),
            Key::from((7, "orders")),
            Key::from("orders/7"),
            Key::from(""),
            Key::from(0),
        ];
        for key in keys {
            runtime.submit(hold()).key(key).detach().unwrap();
        }
        for taken in [Key::from((topic, 7)), Key::from(String::new())] {
            let refused = runtime.submit(hold()).key(taken).start().unwrap_err();
            assert_eq!(refused.reason(), RefusedReason::KeyInUse);
        }
        for _ in 0..2 {
            runtime.submit(hold()).queue().detach().unwrap();
        }
        runtime.quiet().await;
        let listed = runtime.operations().foms;
        assert_eq!(listed.len(), 7);
        assert!(
            listed
                .iter()
                .flat_map(|fom| &fom.waits)
                .all(|wait| !matches!(wait.on, WaitsFor::Turn { .. }))
        );
        assert_eq!(log.take().len(), 14);
    });
}
