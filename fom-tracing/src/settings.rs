//! The settings of the spans.

use std::{fmt, sync::Arc};

use tracing::Span;

type Inject = dyn Fn(&Span) -> Option<String> + Send + Sync;
type Extract = dyn Fn(&Span, &str) + Send + Sync;

/// How foms are traced.
#[derive(Clone, Default)]
#[must_use = "settings do nothing by themselves"]
pub struct Tracing {
    propagation: Option<(Arc<Inject>, Arc<Extract>)>,
    runs: bool,
}

impl fmt::Debug for Tracing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracing")
            .field("propagates", &self.propagation.is_some())
            .field("runs", &self.runs)
            .finish()
    }
}

impl Tracing {
    /// Keeps the context of a distributed trace with each fom, so that the trace goes on after a restart.
    ///
    /// `inject` returns the context of the new span of an operation as text, such as the header `traceparent`. The journal
    /// keeps it with the fom. `extract` gets the span that the operation has after a restart, and this text. It makes the
    /// context the parent of the span. With OpenTelemetry, `inject` reads `span.context()`, and `extract` calls
    /// `span.set_parent(context)`; both are in `tracing-opentelemetry`.
    ///
    /// Both run in the locality of the fom, or on the thread that submits, and must not block.
    ///
    /// ```
    /// use fom_tracing::Tracing;
    ///
    /// let tracing = Tracing::default().propagate(
    ///     |span| span.id().map(|id| id.into_u64().to_string()),
    ///     |_span, context| println!("it goes on from span {context}"),
    /// );
    /// # let _ = tracing;
    /// ```
    pub fn propagate(
        mut self,
        inject: impl Fn(&Span) -> Option<String> + Send + Sync + 'static,
        extract: impl Fn(&Span, &str) + Send + Sync + 'static,
    ) -> Self {
        self.propagation = Some((Arc::new(inject), Arc::new(extract)));
        self
    }

    /// Gives each run a span `run` inside the span of its phase.
    ///
    /// Its `number` counts the runs of the fom, from 1, in this process. Its `locality` is the one that runs the fom now. So
    /// an event says in which run it was written. It costs a further span for each run and each phase.
    pub fn runs(mut self) -> Self {
        self.runs = true;
        self
    }

    pub(crate) fn has_runs(&self) -> bool {
        self.runs
    }

    pub(crate) fn inject(&self, span: &Span) -> Option<String> {
        let (inject, _) = self.propagation.as_ref()?;
        inject(span)
    }

    pub(crate) fn extract(&self, span: &Span, context: Option<&str>) {
        if let (Some((_, extract)), Some(context)) = (&self.propagation, context) {
            extract(span, context);
        }
    }
}
