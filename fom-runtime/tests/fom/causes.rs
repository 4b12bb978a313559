//! The causes of failures: errors with their sources, as a caller sees them.

use std::{error::Error, io};

use fom_runtime::{
    Cause, Refused, error::RefusedReason, observe::Attempt, prelude::*, time::TestClock,
};

use crate::kit::{Log, limited, millis, one, secs};

/// An error that does not write its source.
#[derive(Debug, thiserror::Error)]
#[error("the provider did not answer")]
struct Silent(#[source] io::Error);

/// A type that is no `Error`.
#[derive(Debug)]
struct Code(#[allow(dead_code, reason = "`Debug` shows it")] u32);

fn silent() -> Silent {
    Silent(io::Error::other("the line is cut"))
}

/// Fails with an error of its own.
struct Charge;

#[fom(operation(Charge), transient, error(Silent))]
enum Charging {
    #[phase(start, sync, to(Done))]
    Ask,
    #[phase(end)]
    Done,
}

impl ChargingTransitions for Charge {
    fn ask(&mut self, _: &mut Cx<'_>) -> Result<(), Silent> {
        Err(silent())
    }
}

/// Fails with a boxed error, or panics.
struct Ship {
    panics: bool,
}

#[fom(operation(Ship), transient)]
enum Shipping {
    #[phase(start, sync, to(Done))]
    Pack,
    #[phase(end)]
    Done,
}

impl ShippingTransitions for Ship {
    fn pack(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        assert!(!self.panics, "no box");
        Err(silent().into())
    }
}

/// Fails with an error that has no source.
struct Count;

#[fom(operation(Count), transient, error(Code))]
enum Counting {
    #[phase(start, sync, to(Done))]
    Begin,
    #[phase(end)]
    Done,
}

impl CountingTransitions for Count {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), Code> {
        Err(Code(7))
    }
}

/// The source of a failure is the error of the phase function, and its source follows.
#[test]
fn a_failure_has_the_error_as_its_source() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let own = runtime.submit(Charge).await.unwrap_err();
        let boxed = runtime.submit(Ship { panics: false }).await.unwrap_err();
        for failure in [&own as &dyn Error, &boxed] {
            let source = failure.source().unwrap();
            assert!(source.is::<Silent>(), "{source:?}");
            assert_eq!(source.source().unwrap().to_string(), "the line is cut");
        }
    });
}

/// A panic, and an error of a type that is no `Error`, have no source.
#[test]
fn a_cause_without_an_error_has_no_source() {
    crate::kit::hush_localities();
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let panicked = runtime.submit(Ship { panics: true }).await.unwrap_err();
        assert!(matches!(panicked.cause, Cause::Panicked(_)));
        assert!(panicked.source().is_none());
        let code = runtime.submit(Count).await.unwrap_err();
        assert!(matches!(code.cause, Cause::Error(Code(7))));
    });
}

/// The source of a refusal is its reason, also after it has become a failure.
#[test]
fn a_refusal_has_its_reason_as_its_source() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let _suspended = runtime.suspend_key::<Ship>("a");
        let submit = || {
            let submission = runtime.submit(Ship { panics: false }).key("a");
            submission.start().unwrap_err()
        };
        let refused: Refused<Ship> = submit();
        let failure = fom_runtime::Failure::from(submit());
        for error in [&refused as &dyn Error, &failure] {
            let reason = error.source().unwrap().downcast_ref::<RefusedReason>();
            assert_eq!(reason, Some(&RefusedReason::KeySuspended));
        }
    });
}

/// Fails twice, with a pause of 100 ms and one of 200 ms, and then once more.
struct Insist {
    calls: u32,
}

/// The provider did not answer this call.
#[derive(Debug, thiserror::Error)]
#[error("call {0} failed")]
struct NoAnswer(u32, #[source] io::Error);

#[fom(operation(Insist), transient, error(NoAnswer))]
enum Insisting {
    #[phase(start, sync, to(Ask))]
    Begin,
    #[phase(sync, to(Done), retry = "2, 100ms..1s")]
    Ask,
    #[phase(end)]
    Done,
}

impl InsistingTransitions for Insist {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), NoAnswer> {
        Ok(())
    }

    fn ask(&mut self, _: &mut Cx<'_>) -> Result<(), NoAnswer> {
        self.calls += 1;
        Err(NoAnswer(self.calls, io::Error::other("the line is cut")))
    }
}

/// The number, the text and the age in ms of each attempt.
fn told(attempts: &[Attempt]) -> Vec<(u32, &str, u128)> {
    let told = attempts.iter();
    told.map(|it| (it.number, it.error.as_str(), it.age.as_millis()))
        .collect()
}

/// The attempts, with the sources of their errors, are in the listing, in the transition and in the outcome.
#[test]
fn the_last_error_is_seen_everywhere() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let heard = log.clone();
        let _listening = runtime.listen(move |transition| {
            if let Some(error) = transition.error() {
                heard.put(format_args!("{error} | {transition}"));
            }
        });
        let handle = runtime.submit(Insist { calls: 0 }).start().unwrap();
        let id = handle.id();
        let (one, two) = (
            "call 1 failed: the line is cut",
            "call 2 failed: the line is cut",
        );
        runtime.quiet().await;
        let first = runtime.operations();
        assert_eq!(told(&first.foms[0].past.attempts), [(1, one, 0)]);
        clock.advance(millis(100));
        runtime.quiet().await;
        clock.advance(millis(50));
        let second = runtime.operations();
        let attempts = &second.foms[0].past.attempts;
        assert_eq!(told(attempts), [(1, one, 150), (2, two, 50)]);
        let last = format!("its next attempt; attempt 2 failed 50.0ms ago: {two}");
        assert!(second.to_string().contains(&last), "{second}");

        clock.advance(millis(150));
        let failure = handle.await.unwrap_err();
        assert_eq!(told(&failure.attempts), [(1, one, 300), (2, two, 200)]);
        let error = "call 3 failed: the line is cut";
        let line = format!("{error} | Insist {id}: Ask -> failed (error): {error}");
        assert_eq!(log.take(), [line]);
    });
}

/// A listener hears of each failed attempt at once, with its number, its error and the time of the next attempt.
#[test]
fn a_listener_hears_of_every_failed_attempt() {
    limited(|| async {
        let clock = TestClock::new();
        let log = Log::default();
        let heard = log.clone();
        let runtime = one(&clock)
            .listen_to_failures(move |attempt| {
                let next = attempt.next();
                heard.put(format_args!("{:?} {next:?} {attempt}", attempt.at()));
            })
            .build()
            .unwrap();
        let handle = runtime.submit(Insist { calls: 0 }).key(7).start().unwrap();
        let id = handle.id();
        for pause in [100, 200, 0] {
            runtime.quiet().await;
            clock.advance(millis(pause));
        }
        handle.await.unwrap_err();
        let line = |number, times, next| {
            format!(
                "{times} Insist {id} 7: Ask failed, attempt {number}, {next}: call {number} failed: the line is cut"
            )
        };
        let lines = [
            line(1, "0ns Some(100ms)", "the next in 100ms"),
            line(2, "100ms Some(300ms)", "the next in 200ms"),
            line(3, "300ms None", "the last"),
        ];
        assert_eq!(log.take(), lines);
    });
}

/// A phase without `retry` has one attempt. A panic and a passed deadline fail it, and a cancel does not.
#[test]
fn every_failure_of_a_phase_is_heard_of() {
    crate::kit::hush_localities();
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let heard = log.clone();
        let listening = runtime.listen_to_failures(move |attempt| {
            let (number, cause, error) = (attempt.number(), attempt.cause(), attempt.error());
            heard.put(format_args!(
                "{} {number} {cause}: {error}",
                attempt.phase()
            ));
        });
        runtime.submit(Ship { panics: true }).await.unwrap_err();
        runtime.submit(Ship { panics: false }).await.unwrap_err();
        let late = runtime.submit(Hang).start().unwrap();
        runtime.quiet().await;
        clock.advance(secs(1));
        late.await.unwrap_err();
        let cancelled = runtime.submit(Hang).start().unwrap();
        runtime.quiet().await;
        cancelled.cancel();
        cancelled.await.unwrap_err();
        let lines = [
            "Pack 1 panicked: panicked: no box",
            "Pack 1 error: the provider did not answer: the line is cut",
            "Wait 1 late: the deadline of `Wait` passed",
        ];
        assert_eq!(log.take(), lines);
        drop(listening);
        runtime.submit(Ship { panics: false }).await.unwrap_err();
        assert!(log.take().is_empty());
    });
}

/// Waits for ever.
struct Hang;

#[fom(operation(Hang), transient)]
enum Hanging {
    #[phase(start, to(Done), within = "1s")]
    Wait,
    #[phase(end)]
    Done,
}

impl HangingTransitions for Hang {
    async fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        std::future::pending().await
    }
}
