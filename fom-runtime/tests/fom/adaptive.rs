//! Deadlines that follow what visits take (`within = "adaptive"`), on a clock that is moved by hand.
//!
//! The estimates have their own tests beside the estimator (`src/adaptive/tests.rs`). The tests here show that the
//! runtime measures the right visits and ignores the others.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use fom_runtime::{error::BoxError, prelude::*, snapshot::Snapshot, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{Gate, Log, limited, many, millis, one, secs};

/// Answers that are needed before anything is estimated.
const ENOUGH: usize = 32;
const FLOOR: Duration = millis(10);
const CEILING: Duration = millis(1000);

/// A question that is answered after `takes` milliseconds.
#[derive(Clone, Serialize, Deserialize)]
struct Ask {
    takes: u64,
}

#[fom(operation(Ask))]
#[derive(Debug, PartialEq)]
enum Asking {
    #[phase(start, to(Wait), sync)]
    Begin,
    #[phase(to(Answered, GivenUp), within = "adaptive, 10ms..1s", late)]
    Wait,
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    GivenUp,
}

impl AskingTransitions for Ask {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    async fn wait(&mut self, cx: &mut Cx<'_>) -> Result<AskingAfterWait, BoxError> {
        match self.takes {
            u64::MAX => Err("refused".into()),
            takes => {
                cx.sleep(millis(takes)).await;
                Ok(AskingAfterWait::Answered)
            }
        }
    }
    async fn wait_late(&mut self, cx: &mut Cx<'_>) -> Result<AskingAfterWait, BoxError> {
        assert_eq!(cx.deadline(), None);
        Ok(AskingAfterWait::GivenUp)
    }
}

/// Returns the time left for the fom's phase, as the listing shows it.
fn given(runtime: &Runtime, handle: &Handle<impl Operation>) -> Duration {
    let listed = runtime.operation(handle.fom().id()).unwrap();
    listed.times.deadline_in.unwrap()
}

/// Returns the least and the most that a locality gives, as the listing of types shows them.
fn shown(runtime: &Runtime) -> (Duration, Duration) {
    let types = runtime.operations().types;
    let ask = types.iter().find(|info| info.operation == "Ask").unwrap();
    let [wait] = ask.adaptive.as_slice() else {
        panic!("one phase is adaptive: {:?}", ask.adaptive)
    };
    assert_eq!(wait.phase, "Wait");
    assert_eq!((wait.floor, wait.ceiling), (FLOOR, CEILING));
    (wait.least, wait.most)
}

/// Makes one visit. Returns the time that the visit was given, and where it ended.
async fn visit(runtime: &Runtime, clock: &TestClock, takes: u64) -> (Duration, AskingEnd) {
    visit_at(runtime, clock, takes, 0).await
}

async fn visit_at(
    runtime: &Runtime,
    clock: &TestClock,
    takes: u64,
    locality: usize,
) -> (Duration, AskingEnd) {
    let asked = runtime
        .submit(Ask { takes })
        .place(Placement::Locality(locality));
    let asked = asked.start().unwrap();
    runtime.quiet().await;
    let given = given(runtime, &asked);
    clock.advance(given.min(millis(takes)));
    (given, asked.await.unwrap().end)
}

/// Makes `times` visits that are answered after `takes` milliseconds. Returns the time that the last visit was given.
async fn visits(runtime: &Runtime, clock: &TestClock, takes: u64, times: usize) -> Duration {
    let mut last = None;
    for _ in 0..times {
        let (given, end) = visit(runtime, clock, takes).await;
        assert_eq!(end, AskingEnd::Answered);
        last = Some(given);
    }
    last.unwrap()
}

#[test]
fn it_follows_the_latency_up_and_down() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        // Nothing is known yet: the ceiling.
        assert_eq!(visits(&runtime, &clock, 20, ENOUGH).await, CEILING);
        assert_eq!(shown(&runtime), (millis(40), millis(40)));
        assert_eq!(visits(&runtime, &clock, 20, 1).await, millis(40));
        // Slower: one visit is late, and the late function runs. The next visit measures how slow it is.
        let (given, end) = visit(&runtime, &clock, 300).await;
        assert_eq!((given, end), (millis(40), AskingEnd::GivenUp));
        assert_eq!(visits(&runtime, &clock, 300, 1).await, CEILING);
        visits(&runtime, &clock, 300, 20).await;
        assert_eq!(shown(&runtime), (millis(600), millis(600)));
        // Faster: after two ceilings the slow visits are forgotten.
        visits(&runtime, &clock, 20, 150).await;
        assert_eq!(shown(&runtime), (millis(40), millis(40)));
        assert_eq!(visits(&runtime, &clock, 20, 1).await, millis(40));
    });
}

#[test]
fn floor_and_ceiling_hold() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        assert_eq!(visits(&runtime, &clock, 1, ENOUGH + 1).await, FLOOR);
        let runtime = one(&clock).build().unwrap();
        assert_eq!(visits(&runtime, &clock, 999, ENOUGH + 1).await, CEILING);
        let (given, end) = visit(&runtime, &clock, 1001).await;
        assert_eq!((given, end), (CEILING, AskingEnd::GivenUp));
    });
}

/// If more visits are under way than were ever measured, each has the time that a queue of them needs. Once they have
/// left, the times are as before.
#[test]
fn it_follows_the_load() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        visits(&runtime, &clock, 20, ENOUGH).await;
        let burst: Vec<_> = (0..10)
            .map(|_| runtime.submit(Ask { takes: 20 }).start().unwrap())
            .collect();
        runtime.quiet().await;
        let mut times: Vec<_> = burst.iter().map(|ask| given(&runtime, ask)).collect();
        times.sort_unstable();
        let expected: Vec<_> = (1..=10).map(|n| millis(40 * n)).collect();
        assert_eq!(times, expected);
        // Visits that end without an answer are no longer load, and are not measured.
        for ask in burst {
            ask.fom().cancel();
            assert!(matches!(ask.await.unwrap_err().cause, Cause::Cancelled));
        }
        assert_eq!(visits(&runtime, &clock, 20, 1).await, millis(40));
        let burst: Vec<_> = (0..10)
            .map(|_| runtime.submit(Ask { takes: 20 }).start().unwrap())
            .collect();
        runtime.quiet().await;
        clock.advance(millis(20));
        for ask in burst {
            assert_eq!(ask.await.unwrap().end, AskingEnd::Answered);
        }
        // Ten visits at once were measured now: they take no longer.
        let burst: Vec<_> = (0..10)
            .map(|_| runtime.submit(Ask { takes: 20 }).start().unwrap())
            .collect();
        runtime.quiet().await;
        assert!(burst.iter().all(|ask| given(&runtime, ask) == millis(40)));
    });
}

/// An error that comes soon is not an answer that came soon.
#[test]
fn errors_are_not_measured() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        for _ in 0..2 * ENOUGH {
            let asked = runtime.submit(Ask { takes: u64::MAX }).start().unwrap();
            assert!(matches!(asked.await.unwrap_err().cause, Cause::Error(_)));
        }
        assert_eq!(shown(&runtime), (CEILING, CEILING));
        assert_eq!(visits(&runtime, &clock, 20, ENOUGH).await, CEILING);
        assert_eq!(visits(&runtime, &clock, 20, 1).await, millis(40));
    });
}

/// Each locality measures its own visits.
#[test]
fn localities_measure_for_themselves() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = many(2, &clock).build().unwrap();
        for _ in 0..ENOUGH {
            visit_at(&runtime, &clock, 20, 0).await;
            visit_at(&runtime, &clock, 200, 1).await;
        }
        assert_eq!(shown(&runtime), (millis(40), millis(400)));
        assert_eq!(visit_at(&runtime, &clock, 20, 0).await.0, millis(40));
        assert_eq!(visit_at(&runtime, &clock, 20, 1).await.0, millis(400));
    });
}

/// A resumed fom has the time that was left of its deadline. A visit that was seen only in part measures nothing.
#[test]
fn a_resumed_fom_has_what_was_left() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        visits(&runtime, &clock, 20, ENOUGH).await;
        let saved = Arc::new(Mutex::new(None));
        let to = Arc::clone(&saved);
        runtime
            .listen_to::<Ask>(move |step| {
                if step.to() == Some("Wait") {
                    *to.lock().unwrap() = Some(step.snapshot().unwrap().as_bytes().to_vec());
                }
            })
            .forever();
        let mut snapshots = Vec::new();
        for takes in [30, 300] {
            let asked = runtime.submit(Ask { takes }).start().unwrap();
            runtime.quiet().await;
            asked.fom().cancel();
            asked.await.unwrap_err();
            let bytes = saved.lock().unwrap().take().unwrap();
            snapshots.push(Snapshot::from_bytes(bytes).unwrap());
        }

        // In another process, where nothing was measured.
        let runtime = one(&clock).build().unwrap();
        for _ in 0..2 * ENOUGH {
            for (snapshot, end) in snapshots
                .iter()
                .zip([AskingEnd::Answered, AskingEnd::GivenUp])
            {
                let resumed = runtime.resume::<Ask>(snapshot).unwrap().start().unwrap();
                runtime.quiet().await;
                assert_eq!(given(&runtime, &resumed), millis(40));
                clock.advance(millis(if end == AskingEnd::Answered { 30 } else { 40 }));
                assert_eq!(resumed.await.unwrap().end, end);
            }
        }
        assert_eq!(shown(&runtime), (CEILING, CEILING));
        assert_eq!(visits(&runtime, &clock, 20, ENOUGH).await, CEILING);
        assert_eq!(visits(&runtime, &clock, 20, 1).await, millis(40));
    });
}

/// Phases of other kinds: without a late function, retried, plain, waiting for events, blocking, and going to itself.
#[test]
fn every_kind_of_phase_is_measured() {
    struct Kinds(Log);

    enum News {
        Come,
    }

    #[fom(operation(Kinds), event(News), transient)]
    enum Kind {
        #[phase(start, to(Take), within = "adaptive, 1ms..1m", retry = "1, 5ms..5ms")]
        Again,
        #[phase(to(Block, Take), sync, on(Come), within = "adaptive, 1ms..1m")]
        Take,
        #[phase(to(Done), blocking, within = "adaptive, 1ms..1m")]
        Block,
        #[phase(end)]
        Done,
    }

    impl KindTransitions for Kinds {
        async fn again(&mut self, cx: &mut Cx<'_, News>) -> Result<(), BoxError> {
            cx.sleep(millis(10)).await;
            if cx.attempt() == 0 {
                return Err("once more".into());
            }
            Ok(())
        }
        fn take(&mut self, cx: &mut Cx<'_, News>, _: News) -> Result<KindAfterTake, BoxError> {
            let deadline = cx.deadline().unwrap() - cx.now();
            self.0.put(format_args!("{deadline:?}"));
            Ok(if self.0.lines().len() % 2 == 1 {
                KindAfterTake::Take
            } else {
                KindAfterTake::Block
            })
        }
        fn block(&mut self, _: &mut BlockingCx<'_>) -> Result<(), BoxError> {
            Ok(())
        }
    }

    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        for _ in 0..ENOUGH {
            let fom = runtime.submit(Kinds(log.clone())).start().unwrap();
            // The first attempt, the wait before the second attempt, and the second attempt. Then the wait for each of
            // the events.
            for wait in [10, 5, 10] {
                runtime.quiet().await;
                clock.advance(millis(wait));
            }
            for wait in [3, 4] {
                runtime.quiet().await;
                clock.advance(millis(wait));
                fom.send(News::Come).unwrap();
            }
            fom.await.unwrap();
        }
        let types = runtime.operations().types;
        let times: Vec<_> = types[0]
            .adaptive
            .iter()
            .map(|of| (of.phase, of.most))
            .collect();
        let expected = [
            ("Again", millis(50)),
            ("Take", millis(8)),
            ("Block", millis(1)),
        ];
        assert_eq!(times, expected);
        // Without a late function the fom fails, and the cause says where.
        let fom = runtime.submit(Kinds(log)).start().unwrap();
        runtime.quiet().await;
        for wait in [10, 5, 10, 8] {
            runtime.quiet().await;
            clock.advance(millis(wait));
        }
        let failure = fom.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Late { armed_in: "Take" }));
    });
}

/// A call that returns after its deadline, because nothing can interrupt it, is an answer and is measured as slow as it
/// was.
#[test]
fn a_blocking_call_that_overran_is_measured() {
    struct Slow(mpsc::Receiver<()>);

    #[fom(operation(Slow), transient)]
    enum Slowly {
        #[phase(start, to(Done), blocking, within = "adaptive, 10ms..1s")]
        Work,
        #[phase(end)]
        Done,
    }

    impl SlowlyTransitions for Slow {
        fn work(&mut self, _: &mut BlockingCx<'_>) -> Result<(), BoxError> {
            self.0.recv()?;
            Ok(())
        }
    }

    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let shown = || runtime.operations().types[0].adaptive[0].most;
        for takes in std::iter::repeat_n(millis(5), ENOUGH).chain([millis(200)]) {
            let (go, gone) = mpsc::channel();
            let fom = runtime.submit(Slow(gone)).start().unwrap();
            fom.reached([SlowlyKind::Work]).await;
            clock.advance(takes);
            go.send(()).unwrap();
            fom.await.unwrap();
        }
        assert_eq!(shown(), millis(400));
    });
}

/// The deadline of another phase that goes on in an adaptive phase does not count as a miss there.
#[test]
fn a_kept_deadline_is_no_miss() {
    struct Hurry(u64);

    #[fom(operation(Hurry), transient)]
    #[derive(Clone, Debug, PartialEq)]
    enum Hurrying {
        #[phase(start, to(Ask), within = "100ms", keep(Ask))]
        Prepare,
        #[phase(to(Asked, Missed), within = "adaptive, 10ms..1s", late)]
        Ask,
        #[phase(end)]
        Asked,
        #[phase(end, failure)]
        Missed,
    }

    impl HurryingTransitions for Hurry {
        async fn prepare(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
            cx.sleep(millis(self.0)).await;
            Ok(())
        }
        async fn ask(&mut self, cx: &mut Cx<'_>) -> Result<HurryingAfterAsk, BoxError> {
            cx.sleep(millis(20)).await;
            Ok(HurryingAfterAsk::Asked)
        }
        async fn ask_late(&mut self, _: &mut Cx<'_>) -> Result<HurryingAfterAsk, BoxError> {
            Ok(HurryingAfterAsk::Missed)
        }
    }

    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        for (prepares, left, end) in std::iter::repeat_n((10, 90, HurryingEnd::Asked), ENOUGH)
            .chain([(90, 10, HurryingEnd::Missed), (10, 40, HurryingEnd::Asked)])
        {
            let fom = runtime.submit(Hurry(prepares)).start().unwrap();
            runtime.quiet().await;
            clock.advance(millis(prepares));
            runtime.quiet().await;
            assert_eq!(given(&runtime, &fom), millis(left));
            clock.advance(millis(left.min(20)));
            assert_eq!(fom.await.unwrap().end, end);
        }
    });
}

/// The clock goes on while a fom in the queue waits to be taken in: that time is no part of a visit.
#[test]
fn a_visit_begins_when_it_is_entered() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        visits(&runtime, &clock, 20, ENOUGH).await;
        let gate = Gate::close(&runtime, 0);
        let asked = runtime.submit(Ask { takes: 20 }).start().unwrap();
        clock.advance(secs(5));
        gate.open();
        runtime.quiet().await;
        assert_eq!(given(&runtime, &asked), millis(40));
        clock.advance(millis(20));
        asked.await.unwrap();
        assert_eq!(shown(&runtime), (millis(40), millis(40)));
    });
}

#[test]
fn the_listing_says_what_it_is_now() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = many(2, &clock).build().unwrap();
        for _ in 0..ENOUGH {
            visit_at(&runtime, &clock, 60, 0).await;
        }
        let line = |text: &str| {
            let listing = runtime.operations().to_string();
            assert!(listing.contains(text), "{listing}");
        };
        line("  Wait: within 120ms (adaptive 10ms..1s)\n");
        for _ in 0..ENOUGH {
            visit_at(&runtime, &clock, 25, 1).await;
        }
        line("  Wait: within 50.0ms to 120ms (adaptive 10ms..1s)\n");
        let asked = runtime
            .submit(Ask { takes: 60 })
            .place(Placement::Locality(0));
        let asked = asked.start().unwrap();
        runtime.quiet().await;
        line("120ms left");
        clock.advance(millis(60));
        asked.await.unwrap();
    });
}
