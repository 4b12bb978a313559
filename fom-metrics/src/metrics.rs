//! All metrics of a runtime at one moment, as a value.

use fom_runtime::Runtime;

use crate::{catalog, localities, operations, parts, problems, readings::Readings, value::Metric};

/// What a runtime counts, at one moment. Each number was read at its own moment.
///
/// ```
/// use fom_metrics::Metrics;
/// use fom_runtime::prelude::*;
///
/// # fn main() -> Result<(), BoxError> {
/// let runtime = Runtime::builder().localities(1).observe().build()?;
/// let metrics = Metrics::read(&runtime);
/// let threads = metrics.find("fom_locality_threads").expect("it is one of them");
/// assert_eq!(threads.labels, ["locality"]);
/// assert_eq!(threads.samples[0].labels, ["0"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// The metrics. All are there, also those without a sample.
    pub metrics: Vec<Metric>,
}

impl Metrics {
    /// Reads the metrics. This walks no foms. It can block for 100 ms, as [`Inspect::parts`](fom_runtime::observe::Inspect::parts) can.
    ///
    /// Without [`Builder::observe`](fom_runtime::Builder::observe) or [`Runtime::observe`], the runtime counts no transitions
    /// and measures no loads.
    pub fn read(runtime: &Runtime) -> Self {
        let mut readings = Readings::default();
        let into = &mut readings;
        into.count(catalog::IN_FLIGHT, &[], runtime.in_flight() as u64);
        into.count(catalog::PENDING, &[], runtime.inspect().queued() as u64);
        let counters = runtime.inspect().counters();
        operations::read(&counters.operations, into);
        problems::read_incidents(&counters.incidents, into);
        problems::read_failures(&runtime.inspect().failures(), into);
        problems::read_quarantine(&runtime.inspect().quarantined(), into);
        localities::read(&runtime.inspect().loads(), into);
        parts::read(&runtime.inspect().parts().parts, into);
        Self {
            metrics: readings.metrics(),
        }
    }

    /// Returns the metric with this name.
    pub fn find(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }
}
