//! When a fom is in its spans: from the begin of a run to its end.

use std::{cell::RefCell, sync::Arc};

use fom_runtime::{
    Builder,
    extension::{Run, RunListener},
    observe::{FailedAttempt, Transition},
};
use tracing::{Span, span::EnteredSpan};

use crate::{settings::Tracing, trace::Trace};

/// The name of the trace in a journal.
const NAME: &str = "fom-tracing";

/// The fom that this thread runs, in its spans. The spans are left in the order of the fields.
struct Running {
    run: Option<EnteredSpan>,
    phase: Option<EnteredSpan>,
    #[expect(dead_code, reason = "its drop leaves the span")]
    operation: EnteredSpan,
    trace: Arc<Trace>,
}

thread_local! {
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

struct Listener(Tracing);

impl RunListener for Listener {
    fn begins(&self, run: &Run<'_>) {
        let Some(trace) = run.carried::<Trace>() else {
            return;
        };
        if let Some(open) = trace.run(run, &self.0) {
            let operation = open.operation.entered();
            let phase = Some(open.phase.entered());
            let running = Running {
                run: open.run.map(Span::entered),
                phase,
                operation,
                trace,
            };
            RUNNING.set(Some(running));
        }
    }

    fn ends(&self) {
        drop(RUNNING.take());
    }
}

/// Leads a fom from the span of a phase to that of the next one.
fn step(transition: &Transition<'_>) {
    let Some(trace) = transition.carried::<Trace>() else {
        return;
    };
    let open = trace.step(transition);
    RUNNING.with_borrow_mut(|running| {
        if let Some(running) = running
            && Arc::ptr_eq(&running.trace, &trace)
        {
            running.run = None;
            running.phase = None;
            if let Some((phase, run)) = open {
                running.phase = Some(phase.entered());
                running.run = run.map(Span::entered);
            }
        }
    });
}

/// Notes the number of the next attempt.
fn fail(failed: &FailedAttempt<'_>) {
    if let Some(trace) = failed.carried::<Trace>()
        && let Some(phase) = &trace.spans().phase
    {
        phase.record("attempt", failed.number());
    }
}

pub(crate) fn add(builder: Builder, tracing: Tracing) -> Builder {
    let begin = tracing.clone();
    builder
        .carry(NAME, move |_: Option<&Trace>| Trace::begin(&begin))
        .listen(step)
        .listen_to_failures(fail)
        .listen_to_runs(Listener(tracing))
}
