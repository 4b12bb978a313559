//! Gates that fail, and gates that panic outside of their polls.

use std::task::{Context, Poll};

use fom_runtime::{
    extension::{Gate, GateError},
    prelude::*,
};

/// A gate that panics in its drop.
struct Brittle;

impl Gate for Brittle {
    fn poll_open(&mut self, _: &mut Context<'_>) -> Poll<Result<(), GateError>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Brittle {
    fn drop(&mut self) {
        panic!("brittle");
    }
}

struct Passage {
    fails: bool,
}

#[fom(operation(Passage), transient)]
enum Passing {
    #[phase(start, sync, gate, to(Through))]
    Pass,
    #[phase(end)]
    Through,
}

impl PassingTransitions for Passage {
    fn pass_gate(&self, _: &Cx<'_>) -> impl Gate {
        Brittle
    }

    fn pass(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        match self.fails {
            true => Err("it fails".into()),
            false => Ok(()),
        }
    }
}

/// The fom keeps its outcome, and its locality goes on.
#[test]
fn a_gate_that_panics_in_its_drop_harms_no_fom() {
    let runtime = Runtime::builder().localities(1).build().unwrap();
    for fails in [true, false, true] {
        let outcome = runtime.submit(Passage { fails }).start().unwrap().wait();
        assert_eq!(outcome.is_err(), fails);
    }
    let incidents = runtime.operations().incidents;
    assert_eq!(incidents.len(), 3, "{incidents:?}");
    assert!(
        incidents[0].text.starts_with("Passage ")
            && incidents[0].text.ends_with("in its gate: brittle"),
        "{incidents:?}"
    );
}

/// A gate that never opens.
struct Shut;

impl Gate for Shut {
    fn poll_open(&mut self, _: &mut Context<'_>) -> Poll<Result<(), GateError>> {
        Poll::Ready(Err(GateError::new("shut", "it is shut")))
    }
}

struct Visit;

#[fom(operation(Visit), transient)]
#[derive(Debug)]
enum Visiting {
    #[phase(start, gate, to(Inside), failed(Outside))]
    Enter,
    #[phase(end)]
    Inside,
    #[phase(end, failure)]
    Outside { cause: Cause<BoxError> },
}

impl VisitingTransitions for Visit {
    fn enter_gate(&self, _: &Cx<'_>) -> impl Gate {
        Shut
    }

    async fn enter(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        unreachable!("the gate never opens")
    }

    async fn enter_failed(
        &mut self,
        _: &mut Cx<'_>,
        cause: Cause<BoxError>,
    ) -> Result<VisitingAfterEnterFailed, BoxError> {
        Ok(VisitingAfterEnterFailed::Outside { cause })
    }
}

/// The error of a gate is a failure of its phase, and takes the exit for failures with its cause.
#[test]
fn the_error_of_a_gate_takes_the_exit_for_failures() {
    let runtime = Runtime::builder().localities(1).build().unwrap();
    let outcome = runtime.submit(Visit).start().unwrap().wait().unwrap();
    let VisitingEnd::Outside {
        cause: Cause::Gate(error),
    } = outcome.end
    else {
        panic!("another end: {:?}", outcome.end)
    };
    assert_eq!(error.to_string(), "it is shut");
}
