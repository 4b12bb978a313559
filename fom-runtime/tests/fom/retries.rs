//! Retries: a phase that is entered again after an error, on time, up to its last attempt.

use fom_runtime::{
    observe::WaitsFor,
    prelude::*,
    time::{Instant, TestClock},
};

use crate::kit::{Log, limited, millis, one};

#[derive(Debug, PartialEq)]
struct Oops(u32);

/// Fails a few times before it succeeds.
struct Timed {
    /// The number of attempts that fail before one succeeds.
    fails: u32,
    log: Log,
}

impl Timed {
    fn try_it(&mut self, now: Instant, attempt: u32) -> Result<(), Oops> {
        self.log.put(format_args!("attempt {attempt} at {now:?}"));
        if self.fails == 0 {
            return Ok(());
        }
        self.fails -= 1;
        Err(Oops(attempt))
    }
}

fn timed(fails: u32, log: &Log) -> Timed {
    Timed {
        fails,
        log: log.clone(),
    }
}

/// Moves the clock from one due event to the next, in steps of a millisecond.
async fn run_for(runtime: &Runtime, clock: &TestClock, steps: u32) {
    for _ in 0..steps {
        runtime.quiet().await;
        clock.advance(millis(1));
    }
    runtime.quiet().await;
}

#[fom(operation(Timed), error(Oops), transient)]
enum Trying {
    #[phase(start, to(Done), retry = "3, 50ms..150ms")]
    Try,
    #[phase(end)]
    Done,
}
impl TryingTransitions for Timed {
    async fn r#try(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
        tokio::task::yield_now().await;
        self.try_it(cx.now(), cx.attempt())
    }
}

/// The same in a plain function, with data of the phase and a second phase with retries.
struct Plain(Timed);

#[fom(operation(Plain), error(Oops), transient)]
enum PlainTrying {
    #[phase(start, to(Try), sync)]
    Begin,
    #[phase(to(Then), retry = "3, 50ms..150ms", sync)]
    Try { kept: u32 },
    #[phase(to(Done), retry = "1, 10ms..10ms", sync)]
    Then { kept: u32 },
    #[phase(end)]
    Done { kept: u32 },
}
impl PlainTryingTransitions for Plain {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<PlainTryingAfterBegin, Oops> {
        Ok(PlainTryingAfterBegin::Try { kept: 0 })
    }
    fn r#try(&mut self, cx: &mut Cx<'_>, kept: &mut u32) -> Result<PlainTryingAfterTry, Oops> {
        *kept += 1;
        self.0.try_it(cx.now(), cx.attempt())?;
        self.0.fails = 1;
        Ok(PlainTryingAfterTry::Then { kept: *kept })
    }
    fn then(&mut self, cx: &mut Cx<'_>, kept: &mut u32) -> Result<PlainTryingAfterThen, Oops> {
        self.0.try_it(cx.now(), cx.attempt())?;
        Ok(PlainTryingAfterThen::Done { kept: *kept })
    }
}

/// With a deadline over all attempts, and a late function that may fail.
struct Late {
    timed: Timed,
    late: Result<(), Oops>,
}

#[fom(operation(Late), error(Oops), transient)]
enum LateTrying {
    #[phase(start, to(Done), retry = "5, 50ms..150ms", within = "200ms", late)]
    Try,
    #[phase(end)]
    Done,
}
impl LateTryingTransitions for Late {
    async fn r#try(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
        self.timed.try_it(cx.now(), cx.attempt())
    }
    async fn try_late(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
        self.timed.log.put(format_args!("late at {:?}", cx.now()));
        std::mem::replace(&mut self.late, Ok(()))
    }
}

/// Panics, which is not retried.
struct Panics(Log);

#[fom(operation(Panics), error(Oops), transient)]
enum Panicking {
    #[phase(start, to(Done), retry = "3, 50ms..150ms")]
    Try,
    #[phase(end)]
    Done,
}
impl PanickingTransitions for Panics {
    async fn r#try(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
        self.0.put("tried");
        panic!("no use")
    }
}

/// A phase with retries is entered again after an error, with its number of failed attempts. The waits double up to
/// their maximum, on the runtime's clock.
#[test]
fn retries_wait_twice_as_long_each_time() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let expected = [
            "attempt 0 at 0ns",
            "attempt 1 at 50ms",
            "attempt 2 at 150ms",
            "attempt 3 at 300ms",
        ];
        let fom = runtime.submit(timed(3, &log)).start().unwrap();
        runtime.quiet().await;
        let listed = runtime.operation(fom.id()).unwrap();
        assert_eq!(
            (listed.past.attempt, listed.waiting_for().as_deref()),
            (1, Some("its next attempt"))
        );
        let next = WaitsFor::NextAttempt {
            number: 2,
            at: Instant::START + millis(50),
        };
        assert_eq!(listed.waits[0].on, next);
        run_for(&runtime, &clock, 300).await;
        assert!(matches!(fom.await.unwrap().end, TryingEnd::Done));
        assert_eq!(log.take(), expected);
    });
}

/// A wake in the pause starts the next attempt at once, also at time zero of the clock. The attempt counts, so the
/// next pause is as long as it would be without the wake.
#[test]
fn a_wake_in_the_pause_starts_the_next_attempt() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let fom = runtime.submit(timed(3, &log)).start().unwrap();
        runtime.quiet().await;
        fom.wake();
        runtime.quiet().await;
        assert_eq!(log.take(), ["attempt 0 at 0ns", "attempt 1 at 0ns"]);
        let listed = runtime.operation(fom.id()).unwrap();
        assert_eq!(
            (listed.past.attempt, listed.waiting_for().as_deref()),
            (2, Some("its next attempt"))
        );
        run_for(&runtime, &clock, 99).await;
        assert!(log.take().is_empty());
        run_for(&runtime, &clock, 10).await;
        assert_eq!(log.take(), ["attempt 2 at 100ms"]);
        assert!(runtime.wake(fom.id()));
        assert!(matches!(fom.await.unwrap().end, TryingEnd::Done));
        assert_eq!(log.take(), ["attempt 3 at 109ms"]);
    });
}

/// A wake does not add attempts: after the last one the fom fails as it does without a wake.
#[test]
fn wakes_in_the_pause_use_up_the_attempts() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let fom = runtime.submit(Plain(timed(100, &log))).start().unwrap();
        for _ in 0..3 {
            runtime.quiet().await;
            fom.wake();
        }
        let failure = fom.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Error(Oops(3))));
        assert_eq!(
            log.take(),
            [
                "attempt 0 at 0ns",
                "attempt 1 at 0ns",
                "attempt 2 at 0ns",
                "attempt 3 at 0ns"
            ]
        );
    });
}

/// After the last attempt the fom fails with the last error; nothing is retried after that.
#[test]
fn retries_are_used_up() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let fom = runtime.submit(timed(100, &log)).start().unwrap();
        run_for(&runtime, &clock, 400).await;
        let failure = fom.await.unwrap_err();
        assert!(
            matches!(failure.cause, Cause::Error(Oops(3))),
            "{failure:?}"
        );
        assert_eq!(
            (
                failure.operation.unwrap().into_inner().fails,
                log.take().len()
            ),
            (96, 4)
        );
        // A panic is not retried.
        let failure = runtime.submit(Panics(log.clone())).await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Panicked(_)));
        assert_eq!(log.take(), ["tried"]);
    });
}

/// The same in plain functions: the data of the phase lives over the attempts, and the next phase begins with none.
#[test]
fn retries_of_plain_functions() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let fom = runtime.submit(Plain(timed(2, &log))).start().unwrap();
        run_for(&runtime, &clock, 200).await;
        let ended = fom.await.unwrap();
        assert!(matches!(ended.end, PlainTryingEnd::Done { kept: 3 }));
        assert_eq!(
            log.take(),
            [
                "attempt 0 at 0ns",
                "attempt 1 at 50ms",
                "attempt 2 at 150ms",
                "attempt 0 at 150ms",
                "attempt 1 at 160ms"
            ]
        );
    });
}

/// The deadline of a phase covers all its attempts, and passes also between two of them. The result of the late
/// function is final: after the deadline nothing is retried.
#[test]
fn the_deadline_covers_the_retries() {
    limited(|| async {
        let log = Log::default();
        for late in [Ok(()), Err(Oops(77))] {
            let clock = TestClock::new();
            let runtime = one(&clock).build().unwrap();
            let fails = late.is_err();
            let op = Late {
                timed: timed(100, &log),
                late,
            };
            let fom = runtime.submit(op).start().unwrap();
            run_for(&runtime, &clock, 600).await;
            assert_eq!(
                log.take(),
                [
                    "attempt 0 at 0ns",
                    "attempt 1 at 50ms",
                    "attempt 2 at 150ms",
                    "late at 200ms"
                ]
            );
            match fom.await {
                Ok(ended) => assert!(!fails && matches!(ended.end, LateTryingEnd::Done)),
                Err(failure) => assert!(fails && matches!(failure.cause, Cause::Error(Oops(77)))),
            }
        }
    });
}

/// Cancelled between two attempts: the fom ends at once.
#[test]
fn cancel_between_two_attempts() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let asyn = runtime.submit(timed(100, &log)).start().unwrap();
        let plain = runtime.submit(Plain(timed(100, &log))).start().unwrap();
        runtime.quiet().await;
        asyn.cancel();
        plain.cancel();
        assert!(matches!(asyn.await.unwrap_err().cause, Cause::Cancelled));
        assert!(matches!(plain.await.unwrap_err().cause, Cause::Cancelled));
        run_for(&runtime, &clock, 100).await;
        assert_eq!(log.take(), ["attempt 0 at 0ns"; 2]);
    });
}
