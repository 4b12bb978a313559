//! Metrics of a runtime: what its counters, loads, parts, failures and incidents count, with the names and units of
//! Prometheus.
//!
//! [`RuntimeCollector`] adds them to a registry of `prometheus-client`, beside the program's own metrics:
//!
//! ```
//! use fom_metrics::RuntimeCollector;
//! use fom_runtime::prelude::*;
//! use prometheus_client::{encoding::prometheus_text, registry::Registry};
//!
//! # fn main() -> Result<(), BoxError> {
//! let runtime = Runtime::new()?;
//! let mut registry = Registry::default();
//! registry.register_collector(Box::new(RuntimeCollector::new(&runtime)));
//!
//! // At each scrape:
//! let mut text = String::new();
//! prometheus_text::encode(&mut text, &registry)?;
//! assert!(text.contains("fom_in_flight 0"));
//! # Ok(())
//! # }
//! ```
//!
//! | to | see |
//! | --- | --- |
//! | add the metrics to a registry | [`RuntimeCollector`] |
//! | serve them without a registry | [`text`] |
//! | give them to another library | [`Metrics`] |
//! | see all of their names | the chapter "Metrics" of the book |
//!
//! # What it costs
//!
//! Nothing between two scrapes, beside what a runtime that [counts](fom_runtime::Builder::observe) pays: a few nanoseconds
//! for each transition. A scrape reads the listings of the runtime. It walks no foms and stops none. It can block for
//! 100 ms, as [`Inspect::parts`](fom_runtime::observe::Inspect::parts) can, so a phase function must not call it.
//!
//! No label has a key or an id, so the number of time series does not grow with the number of foms.

#![forbid(unsafe_code)]

mod buckets;
mod catalog;
mod collector;
mod localities;
mod metrics;
mod operations;
mod parts;
mod problems;
mod readings;
mod value;

pub use buckets::Buckets;
pub use catalog::Kind;
pub use collector::{RuntimeCollector, text};
pub use metrics::Metrics;
pub use value::{Metric, Sample, Value};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
