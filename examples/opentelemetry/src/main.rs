//! The spans of foms in OpenTelemetry. An order waits over a restart of the program, and its trace goes on.
//!
//! `cargo run --manifest-path examples/opentelemetry/Cargo.toml`. The spans stay in memory here, and are printed at the end.
//! A program sends them to a collector, with the exporter of `opentelemetry-otlp` in place of this one.

use std::{collections::HashMap, error::Error};

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_tracing::{Tracing, TracingExt as _};
use opentelemetry::{
    Value,
    propagation::TextMapPropagator as _,
    trace::{SpanId, TracerProvider as _},
};
use opentelemetry_sdk::{
    propagation::TraceContextPropagator,
    trace::{InMemorySpanExporter, SdkTracerProvider, SpanData},
};
use serde::{Deserialize, Serialize};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::layer::SubscriberExt as _;

/// The header of the W3C.
const TRACEPARENT: &str = "traceparent";

#[derive(Serialize, Deserialize)]
struct Order;

#[derive(Serialize, Deserialize)]
enum Word {
    Paid,
}

#[fom(operation(Order), event(Word))]
enum Ordering {
    #[phase(start, to(Pay))]
    Reserve,
    /// The customer pays after the restart.
    #[phase(to(Sent), on(Paid))]
    Pay,
    #[phase(end)]
    Sent,
}

impl OrderingTransitions for Order {
    async fn reserve(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        cx.submit(Reservation).await?;
        Ok(())
    }

    async fn pay(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        let Word::Paid = cx.event().await;
        Ok(())
    }
}

struct Reservation;

#[fom(operation(Reservation), transient)]
enum Reserving {
    #[phase(start, sync, to(Reserved))]
    Take,
    #[phase(end)]
    Reserved,
}

impl ReservingTransitions for Reservation {
    fn take(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Keeps the context of a trace with each fom, in the journal.
fn tracing() -> Tracing {
    Tracing::default().propagate(
        |span| {
            let mut headers = HashMap::new();
            TraceContextPropagator::new().inject_context(&span.context(), &mut headers);
            headers.remove(TRACEPARENT)
        },
        |span, context| {
            let headers = HashMap::from([(TRACEPARENT.to_owned(), context.to_owned())]);
            let parent = TraceContextPropagator::new().extract(&headers);
            // A span that no layer wants has no parent.
            let _ = span.set_parent(parent);
        },
    )
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("orders"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;

    // The journal outlives the first runtime, as that of a file outlives a process.
    let journal = MemoryJournal::default();
    let start = || {
        let builder = Runtime::builder().localities(1).tracing(tracing());
        builder.journal_with(journal.clone()).build()
    };
    let runtime = start()?;
    let order = runtime.submit(Order).key("order 7").start()?;
    fom_runtime::extension::block_on(runtime.quiet());
    drop((order, runtime));

    let runtime = start()?;
    let order = runtime
        .find::<Order>("order 7")
        .ok_or("the order is gone")?;
    order.send(Word::Paid)?;
    fom_runtime::extension::block_on(runtime.quiet());
    drop((order, runtime));

    let spans = exporter.get_finished_spans()?;
    print(&spans, SpanId::INVALID, 0);
    check(&spans)
}

/// Each phase, with the number of its spans. The order waits in `Pay` before the restart and after it.
const EXPECTED: [(&str, usize); 3] = [("Reserve", 1), ("Take", 1), ("Pay", 2)];

/// Checks that each phase has its spans, and that all spans are of one trace.
fn check(spans: &[SpanData]) -> Result<(), Box<dyn Error + Send + Sync>> {
    for (phase, expected) in EXPECTED {
        let of_phase = spans.iter().filter(|span| is_of(span, phase));
        let found = of_phase.count();
        if found != expected {
            return Err(format!("{found} spans of the phase {phase}, not {expected}").into());
        }
    }
    let trace = spans.first().map(|span| span.span_context.trace_id());
    let mut traces = spans.iter().map(|span| Some(span.span_context.trace_id()));
    match traces.all(|of| of == trace) {
        true => Ok(()),
        false => Err("the spans are not of one trace".into()),
    }
}

fn is_of(span: &SpanData, phase: &str) -> bool {
    span.name == "phase" && value(span, "phase").as_deref() == Some(phase)
}

/// Returns the value of an attribute as text.
fn value(span: &SpanData, name: &str) -> Option<String> {
    let mut all = span.attributes.iter();
    let found = all.find(|of| of.key.as_str() == name);
    found.map(|of| match &of.value {
        Value::String(text) => text.to_string(),
        other => other.to_string(),
    })
}

/// Prints the spans below a span.
fn print(spans: &[SpanData], parent: SpanId, depth: usize) {
    for span in spans.iter().filter(|span| span.parent_span_id == parent) {
        let names = ["type", "key", "phase", "outcome"];
        let words = names.into_iter().filter_map(|name| value(span, name));
        let words: Vec<_> = words.collect();
        println!("{:3$}{} {}", "", span.name, words.join(" "), depth * 2);
        print(spans, span.span_context.span_id(), depth + 1);
    }
}
