//! The metrics in a registry of `prometheus-client`.

use std::fmt;

use fom_runtime::Runtime;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, prometheus_text},
    metrics::{MetricType, exemplar::Exemplar},
    registry::Registry,
};

use crate::{
    catalog::Kind,
    metrics::Metrics,
    value::{Metric, Value},
};

/// Reads the [`Metrics`] of a runtime at each scrape of a registry. It does not keep the runtime alive.
///
/// A registry takes the collector of one runtime: those of two have the same names.
#[derive(Debug)]
pub struct RuntimeCollector {
    runtime: Runtime,
}

impl RuntimeCollector {
    /// Returns a collector of this runtime. From now on the runtime [counts](Runtime::observe).
    pub fn new(runtime: &Runtime) -> Self {
        runtime.observe();
        Self {
            runtime: runtime.detached(),
        }
    }
}

impl Collector for RuntimeCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let read = Metrics::read(&self.runtime);
        read.metrics
            .iter()
            .try_for_each(|metric| encode(metric, &mut encoder))
    }
}

/// Returns the metrics of a runtime as text, in the format 0.0.4 of Prometheus. From now on the runtime
/// [counts](Runtime::observe). It can block for 100 ms, as [`Inspect::parts`](fom_runtime::observe::Inspect::parts) can.
///
/// ```
/// # use fom_runtime::prelude::*;
/// # fn main() -> Result<(), BoxError> {
/// # let runtime = Runtime::new()?;
/// println!("{}", fom_metrics::text(&runtime)?);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Fails only if `prometheus-client` fails.
pub fn text(runtime: &Runtime) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(RuntimeCollector::new(runtime)));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

/// No exemplars.
const NONE: Option<&Exemplar<[(&str, &str); 0], u64>> = None;

fn encode(metric: &Metric, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    // The encoder adds the suffix of a counter.
    let name = metric.name.strip_suffix("_total").unwrap_or(metric.name);
    let kind = match metric.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    };
    let mut encoder = encoder.encode_descriptor(name, metric.help, None, kind)?;
    for sample in &metric.samples {
        let values = sample.labels.iter().map(String::as_str);
        let labels: Vec<(&str, &str)> = metric.labels.iter().copied().zip(values).collect();
        encode_value(metric.kind, &sample.value, encoder.encode_family(&labels)?)?;
    }
    Ok(())
}

fn encode_value(kind: Kind, value: &Value, mut encoder: MetricEncoder<'_>) -> fmt::Result {
    match (kind, value) {
        (Kind::Counter, Value::Count(count)) => encoder.encode_counter(count, NONE),
        (Kind::Counter, Value::Number(number)) => encoder.encode_counter(number, NONE),
        (_, Value::Count(count)) => encoder.encode_gauge(count),
        (_, Value::Number(number)) => encoder.encode_gauge(number),
        (_, Value::Buckets(of)) => {
            let none = None::<&std::collections::HashMap<usize, Exemplar<[(&str, &str); 0], f64>>>;
            encoder.encode_histogram(of.sum(), of.count(), of.buckets(), none)
        }
    }
}
