//! The causes of failures: errors with their sources, as a caller sees them.

use std::{error::Error, io};

use fom_runtime::{Cause, Refused, error::RefusedReason, prelude::*, time::TestClock};

use crate::kit::{limited, one};

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
