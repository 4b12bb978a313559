//! The spans of one fom, which it carries.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fom_runtime::{extension::Run, observe::Transition};
use serde::{Deserialize, Serialize};
use tracing::{Span, field::Empty, info_span};

use crate::settings::Tracing;

/// What a fom carries of its trace.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Trace {
    /// The fom that submitted it.
    submitter: Option<u64>,
    /// The context of its first span, as text.
    context: Option<String>,
    /// A fom that came back has no spans before its first run.
    #[serde(skip)]
    spans: Mutex<Spans>,
}

/// The spans that are open.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    pub(crate) operation: Option<Span>,
    pub(crate) phase: Option<Span>,
    /// The number of runs that have begun, and the locality of the last one. Kept if runs have spans.
    last_run: Option<(u64, usize)>,
    /// Whether the fields of the operation are known.
    is_named: bool,
    has_ended: bool,
}

/// The spans that a fom is in while it runs.
pub(crate) struct Open {
    pub(crate) operation: Span,
    pub(crate) phase: Span,
    pub(crate) run: Option<Span>,
}

impl Spans {
    /// Returns a new span of the current run, if runs have spans.
    pub(crate) fn of_run(&self) -> Option<Span> {
        let (number, locality) = self.last_run?;
        Some(info_span!(parent: self.phase.as_ref()?, "run", number, locality))
    }
}

impl Trace {
    /// Begins the trace of an operation that this thread submits.
    pub(crate) fn begin(tracing: &Tracing) -> Self {
        let submitter = fom_runtime::extension::current_fom().map(|fom| fom.id().get());
        let operation = span(submitter);
        Self {
            submitter,
            context: tracing.inject(&operation),
            spans: Mutex::new(Spans {
                operation: Some(operation),
                ..Spans::default()
            }),
        }
    }

    pub(crate) fn spans(&self) -> MutexGuard<'_, Spans> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the spans of a fom whose run begins. Makes those that it does not have.
    pub(crate) fn run(&self, run: &Run<'_>, tracing: &Tracing) -> Option<Open> {
        let mut spans = self.spans();
        if spans.has_ended {
            return None;
        }
        if spans.operation.is_none() {
            // It has no parent: this thread may be in a span of its own.
            let operation = root(self.submitter);
            tracing.extract(&operation, self.context.as_deref());
            spans.operation = Some(operation);
        }
        let operation = spans.operation.clone()?;
        if !spans.is_named {
            spans.is_named = true;
            operation.record("id", run.id().get());
            operation.record("type", run.operation());
            if let Some(key) = run.key() {
                operation.record("key", tracing::field::display(key));
            }
        }
        let made = || phase(&operation, run.phase(), run.attempt(), run.locality());
        let phase = spans.phase.get_or_insert_with(made).clone();
        if tracing.has_runs() {
            let before = spans.last_run.map_or(0, |(number, _)| number);
            spans.last_run = Some((before + 1, run.locality()));
        }
        Some(Open {
            operation,
            phase,
            run: spans.of_run(),
        })
    }

    /// Notes a transition. Returns the spans of the new phase and of the run in it, unless the fom has ended.
    pub(crate) fn step(&self, transition: &Transition<'_>) -> Option<(Span, Option<Span>)> {
        let mut spans = self.spans();
        let operation = spans.operation.clone()?;
        let to = transition.to();
        if to.is_none() || transition.ends() {
            let cause = transition.cause();
            match to {
                Some(end) => operation.record("outcome", end),
                None => operation.record("outcome", tracing::field::display(cause)),
            };
            *spans = Spans {
                has_ended: true,
                ..Spans::default()
            };
            return None;
        }
        // The span of the first phase is there already.
        if transition.from().is_some() || spans.phase.is_none() {
            let phase = phase(&operation, to?, 0, transition.locality());
            spans.phase = Some(phase);
        }
        Some((spans.phase.clone()?, spans.of_run()))
    }
}

/// Returns the span of an operation, below the span that this thread is in.
fn span(submitter: Option<u64>) -> Span {
    info_span!(
        "operation",
        id = Empty,
        key = Empty,
        r#type = Empty,
        submitter,
        outcome = Empty
    )
}

/// As [`span`], without a parent.
fn root(submitter: Option<u64>) -> Span {
    info_span!(
        parent: None,
        "operation",
        id = Empty,
        key = Empty,
        r#type = Empty,
        submitter,
        outcome = Empty
    )
}

fn phase(operation: &Span, phase: &str, attempt: u32, locality: usize) -> Span {
    info_span!(parent: operation, "phase", phase, attempt, locality)
}
