//! Operations that run on the stack of the fom that submits them ([`Submission::now`]).
//!
//! [`Submission::now`]: fom_runtime::Submission::now

use fom_runtime::{
    error::BoxError,
    observe::FlightEvent,
    prelude::*,
    submission::{Ended, Now},
    time::TestClock,
};

use crate::kit::{Log, hush_localities, limited, one, secs, task::quick};

/// What a [`Step`] does in its first phase.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    End,
    Fail,
    Panic,
    Circle(u32),
    Block,
    Nest,
}

/// A step of plain functions, with or without events and deadlines.
struct Step {
    does: Does,
    log: Log,
    steps: u32,
}

#[fom(operation(Step), transient)]
enum Stepping {
    #[phase(start, sync, to(Circle, Done))]
    Begin,
    #[phase(sync, to(Circle, Done))]
    Circle,
    #[phase(end)]
    Done,
}

impl SteppingTransitions for Step {
    fn begin(&mut self, cx: &mut Cx<'_>) -> Result<SteppingAfterBegin, BoxError> {
        self.log.put(format!("begin {:?}", self.does));
        match self.does {
            Does::Fail => return Err("the step fails".into()),
            Does::Panic => panic!("the step panics"),
            Does::Block => {
                let id = cx.id();
                let log = self.log.clone();
                cx.blocking(|_| {
                    while !log.lines().contains(&"other".to_owned()) {
                        std::thread::yield_now();
                    }
                });
                assert_eq!(cx.id(), id);
            }
            Does::Nest => {
                let log = self.log.clone();
                let inner = Step {
                    does: Does::End,
                    log,
                    steps: 0,
                };
                let inner = cx.submit(inner).now()?;
                self.log.put(match inner {
                    Now::Ended(_) => "nested ended",
                    Now::GoesOn(_) => "nested goes on",
                });
            }
            Does::Circle(_) => return Ok(SteppingAfterBegin::Circle),
            _ => {}
        }
        Ok(SteppingAfterBegin::Done)
    }

    fn circle(&mut self, _: &mut Cx<'_>) -> Result<SteppingAfterCircle, BoxError> {
        self.steps += 1;
        let Does::Circle(steps) = self.does else {
            unreachable!("only these circle")
        };
        Ok(if self.steps < steps {
            SteppingAfterCircle::Circle
        } else {
            SteppingAfterCircle::Done
        })
    }
}

#[derive(Debug, PartialEq)]
enum Word {
    Go(u32),
    Rest(u32),
}

/// Waits for a word, at most 5 s. Sends itself some words first.
struct Waits {
    own: Vec<Word>,
}

#[fom(operation(Waits), event(Word), transient)]
#[allow(dead_code, reason = "no word leads to `Rest`")]
enum Waiting {
    #[phase(start, sync, to(Wait))]
    Begin,
    #[phase(sync, to(Rest, Went), on(Go), within = "5s")]
    Wait,
    #[phase(sync, to(Went), on(Rest))]
    Rest,
    #[phase(end)]
    Went { number: u32 },
}

impl WaitingTransitions for Waits {
    fn begin(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        for word in self.own.drain(..) {
            cx.address().send(word).unwrap();
        }
        Ok(())
    }

    fn wait(&mut self, _: &mut Cx<'_, Word>, word: Word) -> Result<WaitingAfterWait, BoxError> {
        let Word::Go(number) = word else {
            unreachable!("the phase takes `Go` only")
        };
        Ok(WaitingAfterWait::Went { number })
    }

    fn rest(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<WaitingAfterRest, BoxError> {
        unreachable!("no word leads here")
    }
}

/// An async function that waits for a time, or for none.
struct Sleeps(u64);

#[fom(operation(Sleeps), transient)]
enum Sleeping {
    #[phase(start, to(Woken))]
    Sleep,
    #[phase(end)]
    Woken { after: u64 },
}

impl SleepingTransitions for Sleeps {
    async fn sleep(&mut self, cx: &mut Cx<'_>) -> Result<SleepingAfterSleep, BoxError> {
        if self.0 > 0 {
            cx.sleep(secs(self.0)).await;
        }
        Ok(SleepingAfterSleep::Woken { after: self.0 })
    }
}

fn step(does: Does, log: &Log) -> Step {
    Step {
        does,
        log: log.clone(),
        steps: 0,
    }
}

/// Calls `act` in a phase function, and returns its result.
async fn inside<R: Send + 'static>(
    runtime: &Runtime,
    act: impl FnOnce(&mut Cx<'_>) -> R + Send + 'static,
) -> R {
    let (tell, told) = tokio::sync::oneshot::channel();
    let acts = quick(move |cx| drop(tell.send(act(cx))));
    runtime.submit(acts).await.unwrap();
    told.await.unwrap()
}

/// Runs the operation in place, which must end there.
async fn ended<O: Operation>(runtime: &Runtime, operation: O) -> Result<Ended<O>, Failure<O>> {
    match inside(runtime, |cx| cx.submit(operation).now().unwrap()).await {
        Now::Ended(outcome) => outcome,
        Now::GoesOn(handle) => panic!("{handle:?} goes on"),
    }
}

/// Runs the operation in place, which must go on.
async fn going<O: Operation>(runtime: &Runtime, operation: O) -> Handle<O> {
    match inside(runtime, |cx| cx.submit(operation).now().unwrap()).await {
        ended @ Now::Ended(_) => panic!("{ended:?}"),
        Now::GoesOn(handle) => handle,
    }
}

/// Returns how many operations of a type were started, have ended and have failed.
fn totals(runtime: &Runtime, operation: &str) -> (u64, u64, u64) {
    let listed = runtime.operations();
    let of = listed
        .types
        .iter()
        .find(|it| it.operation == operation)
        .unwrap();
    (of.started, of.ended, of.failed)
}

/// The operation runs before those that wait for their turn, and before the submitter goes on. It is counted.
#[test]
fn an_operation_that_never_waits_ends_in_place() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let of_submitter = log.clone();
        inside(&runtime, move |cx| {
            let log = of_submitter;
            let queued = log.clone();
            let _ = cx.submit(quick(move |_| queued.put("queued"))).detach();
            let id = cx.id();
            let ran = cx.submit(step(Does::End, &log)).now().unwrap();
            assert!(matches!(
                ran,
                Now::Ended(Ok(Ended {
                    end: SteppingEnd::Done,
                    ..
                }))
            ));
            assert_eq!(cx.id(), id);
            assert_eq!(cx.runtime().in_flight(), 2);
            log.put("submitter");
        })
        .await;
        runtime.idle().await;
        assert_eq!(log.lines(), ["begin End", "submitter", "queued"]);
        assert_eq!(totals(&runtime, "Step"), (1, 1, 0));
        assert!(runtime.operations().foms.is_empty());
    });
}

#[test]
fn a_failure_and_a_panic_are_returned() {
    hush_localities();
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let failure = ended(&runtime, step(Does::Fail, &log)).await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Error(_)));
        assert_eq!(failure.operation.unwrap().into_inner().does, Does::Fail);
        let failure = ended(&runtime, step(Does::Panic, &log)).await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Panicked(_)));
        runtime.idle().await;
        assert_eq!(totals(&runtime, "Step"), (2, 2, 2));
    });
}

/// A fom that waits goes on like any other: it is listed, takes events, and meets its deadline.
#[test]
fn an_operation_that_waits_goes_on() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let hears = going(&runtime, Waits { own: Vec::new() }).await;
        let late = going(&runtime, Waits { own: Vec::new() }).await;
        drop(going(&runtime, Waits { own: Vec::new() }).await);
        let sleeps = going(&runtime, Sleeps(7)).await;
        runtime.quiet().await;
        assert_eq!(runtime.in_flight(), 4);
        assert_eq!(runtime.operations().foms.len(), 4);
        hears.send(Word::Go(3)).unwrap();
        assert!(matches!(
            hears.await.unwrap().end,
            WaitingEnd::Went { number: 3 }
        ));
        clock.advance(secs(7));
        let failure = late.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Late { armed_in: "Wait" }));
        assert!(matches!(
            sleeps.await.unwrap().end,
            SleepingEnd::Woken { after: 7 }
        ));
        runtime.idle().await;
        assert_eq!(totals(&runtime, "Waits"), (3, 3, 2));
    });
}

#[test]
fn operations_with_events_deadlines_and_futures_end_in_place() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let own = vec![Word::Rest(1), Word::Go(2), Word::Rest(3)];
        let went = ended(&runtime, Waits { own }).await.unwrap();
        assert!(matches!(went.end, WaitingEnd::Went { number: 2 }));
        assert_eq!(went.untaken, [Word::Rest(1), Word::Rest(3)]);
        let woken = ended(&runtime, Sleeps(0)).await.unwrap();
        assert!(matches!(woken.end, SleepingEnd::Woken { after: 0 }));
        // The deadline of the first went with it.
        clock.advance(secs(10));
        runtime.idle().await;
        assert_eq!(runtime.operations().incidents, []);
    });
}

/// The operation has a budget of its own, and leaves that of the submitter alone.
#[test]
fn a_long_operation_goes_on_in_its_turn() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let circles = ended(&runtime, step(Does::Circle(30), &log)).await.unwrap();
        assert_eq!(circles.operation.steps, 30);
        let circles = going(&runtime, step(Does::Circle(1_000), &log)).await;
        assert_eq!(circles.await.unwrap().operation.steps, 1_000);
        let of_submitter = log.clone();
        inside(&runtime, move |cx| {
            for _ in 0..200 {
                let circles = step(Does::Circle(30), &of_submitter);
                let ran = cx.submit(circles).now().unwrap();
                assert!(matches!(ran, Now::Ended(Ok(_))));
            }
        })
        .await;
    });
}

/// Only one operation runs on the stack of another, so stacks stay small.
#[test]
fn an_operation_in_place_starts_others_in_the_queue() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        assert!(ended(&runtime, step(Does::Nest, &log)).await.is_ok());
        runtime.idle().await;
        assert_eq!(log.lines(), ["begin Nest", "nested goes on", "begin End"]);
    });
}

#[test]
fn a_submission_that_needs_more_is_started() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        // From outside.
        let outside = runtime.submit(step(Does::End, &log)).now().unwrap();
        assert!(matches!(outside, Now::GoesOn(_)));
        assert!(outside.await.is_ok());
        let of_submitter = log.clone();
        let with_key = inside(&runtime, move |cx| {
            cx.submit(step(Does::End, &of_submitter))
                .key(1)
                .now()
                .unwrap()
        });
        let with_key = with_key.await;
        assert!(matches!(with_key, Now::GoesOn(_)));
        assert!(with_key.await.is_ok());
        // In a blocking section, and from a runtime of limits.
        let in_section = inside(&runtime, {
            let log = log.clone();
            move |cx| cx.blocking(|cx| cx.submit(step(Does::End, &log)).now().unwrap())
        });
        assert!(matches!(in_section.await, Now::GoesOn(_)));
        for builder in [
            one(&TestClock::new()).capacity(10),
            one(&TestClock::new()).history(8),
        ] {
            let limits = builder.build().unwrap();
            let step = step(Does::End, &log);
            let limited = inside(&limits, move |cx| cx.submit(step).now().unwrap());
            assert!(matches!(limited.await, Now::GoesOn(_)));
        }
    });
}

/// Other foms of the locality run while an operation in place blocks. Then the submitter goes on, with its own
/// sections.
#[test]
fn an_operation_in_place_may_block() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let of_submitter = log.clone();
        inside(&runtime, move |cx| {
            let log = of_submitter;
            let other = log.clone();
            let _ = cx.submit(quick(move |_| other.put("other"))).detach();
            let id = cx.id();
            let ran = cx.submit(step(Does::Block, &log)).now().unwrap();
            assert!(matches!(ran, Now::Ended(Ok(_))));
            assert_eq!(cx.id(), id);
            cx.blocking(|cx| assert_eq!(cx.id(), id));
            let ran = cx.submit(step(Does::End, &log)).now().unwrap();
            assert!(matches!(ran, Now::Ended(Ok(_))));
        })
        .await;
        assert_eq!(log.lines(), ["begin Block", "other", "begin End"]);
        runtime.idle().await;
        assert!(runtime.operations().incidents.is_empty());
    });
}

/// The flight recorder has the run in place, and the rest of the run of the submitter. Counters have both.
#[test]
fn a_run_in_place_is_seen() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).observe().recorder(256).build().unwrap();
        assert!(ended(&runtime, Sleeps(0)).await.is_ok());
        runtime.idle().await;
        let recording = runtime.inspect().recording();
        let runs: Vec<_> = recording
            .entries
            .iter()
            .filter_map(|entry| match &entry.event {
                FlightEvent::RunBegins { operation, .. } => Some(format!("{operation} begins")),
                FlightEvent::RunEnds => Some("ends".to_owned()),
                _ => None,
            })
            .collect();
        assert_eq!(
            runs,
            [
                "Task begins",
                "Sleeps begins",
                "ends",
                "Task begins",
                "ends"
            ]
        );
        let counters = runtime.inspect().counters();
        let sleeps = counters
            .operations
            .iter()
            .find(|it| it.operation == "Sleeps")
            .unwrap();
        let out = sleeps
            .edges
            .iter()
            .find(|edge| edge.from == Some("Sleep"))
            .unwrap();
        assert_eq!((out.to, out.count), (Some("Woken"), 1));
    });
}

/// A drain waits for what goes on, and a shutdown ends it.
#[test]
fn a_shutdown_ends_what_goes_on() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let waits = going(&runtime, Waits { own: Vec::new() }).await;
        let report = runtime.shutdown(Shutdown::Now, secs(20)).await;
        assert!(report.remained.is_empty());
        assert!(matches!(waits.await.unwrap_err().cause, Cause::Shutdown));
    });
}
