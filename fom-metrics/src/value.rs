//! One metric with its values.

use crate::{buckets::Buckets, catalog::Kind};

/// One metric.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// The name, as Prometheus has it: a counter ends in `_total`, and times are in seconds.
    pub name: &'static str,
    /// What the metric measures, in one or two sentences.
    pub help: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// The values. No two of them have the same labels.
    pub samples: Vec<Sample>,
}

/// A value with its labels.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sample {
    /// The values of the labels, in the order of their names.
    pub labels: Vec<String>,
    /// The value.
    pub value: Value,
}

/// A value of a metric.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A number of things.
    Count(u64),
    /// A time in seconds.
    Number(f64),
    /// Times or numbers of things in buckets.
    Buckets(Buckets),
}
