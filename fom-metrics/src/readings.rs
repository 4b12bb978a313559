//! What a scrape has read so far.

use std::collections::BTreeMap;

use crate::{
    buckets::Buckets,
    catalog::{ALL, Described, Join},
    value::{Metric, Sample, Value},
};

/// The samples of each metric, by their labels. Samples with the same labels become one: Prometheus takes no other.
#[derive(Default)]
pub(crate) struct Readings(BTreeMap<&'static str, BTreeMap<Vec<String>, Value>>);

impl Readings {
    /// Adds a sample. The labels are in the order of the metric.
    pub(crate) fn add(&mut self, of: &'static Described, labels: &[&str], value: Value) {
        debug_assert_eq!(labels.len(), of.labels.len(), "{}", of.name);
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        let samples = self.0.entry(of.name).or_default();
        match samples.get_mut(&labels) {
            Some(before) => join(before, value, of.join),
            None => drop(samples.insert(labels, value)),
        }
    }

    pub(crate) fn count(&mut self, of: &'static Described, labels: &[&str], count: u64) {
        self.add(of, labels, Value::Count(count));
    }

    pub(crate) fn seconds(
        &mut self,
        of: &'static Described,
        labels: &[&str],
        time: std::time::Duration,
    ) {
        self.add(of, labels, Value::Number(time.as_secs_f64()));
    }

    pub(crate) fn times(
        &mut self,
        of: &'static Described,
        labels: &[&str],
        times: &fom_runtime::observe::Histogram,
    ) {
        self.add(of, labels, Value::Buckets(Buckets::of_times(times)));
    }

    pub(crate) fn numbers(
        &mut self,
        of: &'static Described,
        labels: &[&str],
        numbers: &fom_runtime::observe::Histogram<u64>,
    ) {
        self.add(of, labels, Value::Buckets(Buckets::of_numbers(numbers)));
    }

    /// Returns all metrics, also those without a sample, in the order of the catalog.
    pub(crate) fn metrics(mut self) -> Vec<Metric> {
        let metric = |of: &&'static Described| Metric {
            name: of.name,
            help: of.help,
            kind: of.kind,
            labels: of.labels,
            samples: {
                let samples = self.0.remove(of.name).unwrap_or_default();
                let sample = |(labels, value)| Sample { labels, value };
                samples.into_iter().map(sample).collect()
            },
        };
        ALL.iter().map(metric).collect()
    }
}

fn join(into: &mut Value, value: Value, join: Join) {
    match (into, value) {
        (Value::Count(one), Value::Count(other)) => match join {
            Join::Sum => *one += other,
            Join::Largest => *one = other.max(*one),
        },
        (Value::Number(one), Value::Number(other)) => match join {
            Join::Sum => *one += other,
            Join::Largest => *one = other.max(*one),
        },
        (Value::Buckets(one), Value::Buckets(other)) => one.add(&other),
        // A metric has values of one type.
        (into, value) => debug_assert!(false, "{into:?} and {value:?}"),
    }
}
