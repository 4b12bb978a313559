//! Interposers: a stack around each phase that looks, takes the phase's place, or replaces its result.

use fom_runtime::{observe::Interpose, prelude::*, time::TestClock};

use crate::kit::{Log, limited, one};
use crate::trip::{Leg, LegEnd, Oops, Trip};

/// A phase, and the result to use there.
type Instead = (&'static str, fn() -> Result<Leg, Oops>);

/// Logs its calls, and replaces the results that a test names.
struct Layer {
    name: &'static str,
    log: Log,
    before: Option<Instead>,
    after: Option<Instead>,
}

impl Layer {
    fn new(name: &'static str, log: &Log) -> Self {
        Self {
            name,
            log: log.clone(),
            before: None,
            after: None,
        }
    }
}

impl Interpose<Trip> for Layer {
    fn before(&self, _: &mut Trip, phase: &mut Leg) -> Option<Result<Leg, Oops>> {
        let kind = format!("{:?}", Trip::kind(phase));
        self.log.put(format_args!("{} before {kind}", self.name));
        self.before
            .filter(|(at, _)| *at == kind)
            .map(|(_, make)| make())
    }

    fn after(&self, _: &mut Trip, phase: &mut Leg, result: Result<Leg, Oops>) -> Result<Leg, Oops> {
        let kind = format!("{:?}", Trip::kind(phase));
        let seen = match &result {
            Ok(next) => format!("{:?}", Trip::kind(next)),
            Err(Oops(word)) => format!("error {word}"),
        };
        self.log
            .put(format_args!("{} after {kind}: {seen}", self.name));
        match self.after {
            Some((at, make)) if at == kind => make(),
            _ => result,
        }
    }
}

/// SM-14: interposers are stacked, with the last one added outermost. `before` goes inwards, `after` outwards.
#[test]
fn interposers_stand_round_each_phase_in_the_order_of_a_stack() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let inner = runtime.interpose::<Trip>(Layer::new("inner", &log));
        let outer = runtime.interpose::<Trip>(Layer::new("outer", &log));
        let mut trip = Trip::new(&["Walk", "There"]);
        trip.log = log.clone();
        runtime.submit(trip).await.unwrap();
        assert_eq!(
            log.take(),
            [
                "outer before Home",
                "inner before Home",
                "home",
                "inner after Home: Walk",
                "outer after Home: Walk",
                "outer before Walk",
                "inner before Walk",
                "walk 1",
                "inner after Walk: There",
                "outer after Walk: There",
            ]
        );
        // The order is last in, first out. An interposer that may not go yet is given back, still in place.
        let inner = inner.remove().unwrap_err().0;
        outer.remove().unwrap();
        let mut trip = Trip::new(&["Lost"]);
        trip.log = log.clone();
        runtime.submit(trip).await.unwrap();
        assert_eq!(
            log.take(),
            ["inner before Home", "home", "inner after Home: Lost"]
        );
        inner.remove().unwrap();
        runtime.submit(Trip::new(&["Lost"])).await.unwrap();
        assert_eq!(log.take(), [""; 0]);
    });
}

/// SM-14: a `before` may take the place of the phase function. Then neither the function nor any inner `before` runs,
/// but every `after` sees the result.
#[test]
fn a_before_takes_the_place_of_the_phase() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let _inner = runtime.interpose::<Trip>(Layer::new("inner", &log));
        let _outer = runtime.interpose::<Trip>(Layer {
            before: Some(("Home", || Ok(Leg::Ride { bus: 3 }))),
            ..Layer::new("outer", &log)
        });
        let mut trip = Trip::new(&["There"]);
        trip.log = log.clone();
        let ended = runtime.submit(trip).await.unwrap();
        assert!(matches!(ended.end, LegEnd::There { by: "bus" }));
        assert_eq!(
            log.take(),
            [
                "outer before Home",
                "inner after Home: Ride",
                "outer after Home: Ride",
                "outer before Ride",
                "inner before Ride",
                "ride 3",
                "inner after Ride: There",
                "outer after Ride: There",
            ]
        );
    });
}

/// SM-14: an `after` may replace the result: an exit, an error by an exit, an exit by an error. An exit that the phase
/// does not declare fails the fom, and the cause names the exit.
#[test]
fn an_after_replaces_the_result() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let after = Some(("Home", (|| Ok(Leg::Lost)) as fn() -> _));
        let layer = runtime.interpose::<Trip>(Layer {
            after,
            ..Layer::new("x", &log)
        });
        let ended = runtime.submit(Trip::new(&["oh"])).await.unwrap();
        assert!(
            matches!(ended.end, LegEnd::Lost),
            "the error was replaced by an exit"
        );
        layer.remove().unwrap();

        let after = Some(("Ride", (|| Err(Oops("replaced"))) as fn() -> _));
        let layer = runtime.interpose::<Trip>(Layer {
            after,
            ..Layer::new("x", &log)
        });
        let failure = runtime
            .submit(Trip::new(&["Ride", "There"]))
            .await
            .unwrap_err();
        assert!(matches!(failure.cause, Cause::Error(Oops("replaced"))));
        layer.remove().unwrap();

        let after = Some(("Home", (|| Ok(Leg::There { by: "magic" })) as fn() -> _));
        let layer = runtime.interpose::<Trip>(Layer {
            after,
            ..Layer::new("x", &log)
        });
        let failure = runtime.submit(Trip::new(&["Walk"])).await.unwrap_err();
        assert!(
            matches!(failure.cause, Cause::UndeclaredExit { to: "There" }),
            "{:?}",
            failure.cause
        );
        assert_eq!(
            (failure.phase_name(), failure.operation.is_some()),
            ("Home", true)
        );
        layer.remove().unwrap();
    });
}

/// SM-14: an interposer that panics fails only the fom for which it was called.
#[test]
fn an_interposer_that_panics_fails_its_fom() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        for before in [false, true] {
            let layer = Layer::new("x", &log);
            let panics = Some(("Walk", (|| panic!("in the interposer")) as fn() -> _));
            let layer = if before {
                Layer {
                    before: panics,
                    ..layer
                }
            } else {
                Layer {
                    after: panics,
                    ..layer
                }
            };
            let layer = runtime.interpose::<Trip>(layer);
            let failure = runtime
                .submit(Trip::new(&["Walk", "There"]))
                .await
                .unwrap_err();
            assert!(matches!(&failure.cause, Cause::Panicked(what) if what == "in the interposer"));
            assert_eq!(failure.phase_name(), "Walk");
            runtime.submit(Trip::new(&["Ride", "There"])).await.unwrap();
            layer.remove().unwrap();
        }
    });
}
