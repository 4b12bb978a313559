//! The buckets of histograms.

use std::iter;

use fom_runtime::observe::Histogram;

/// The bounds in seconds: the defaults of Prometheus, with more on both sides.
const BOUNDS: [f64; 20] = [
    1e-6, 1e-5, 1e-4, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    60.0, 600.0, 3600.0, 86400.0,
];

/// Times, counted in buckets.
///
/// A [`Histogram`] has eight steps for each doubling of the time. A bucket has the steps that are in it as a whole. So a
/// time counts as up to an eighth longer than it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    buckets: Vec<(f64, u64)>,
    sum: f64,
}

impl Buckets {
    /// Puts the times of a histogram into buckets.
    pub(crate) fn of(times: &Histogram) -> Self {
        let bounds = BOUNDS.into_iter().chain(iter::once(f64::INFINITY));
        let mut buckets: Vec<_> = bounds.map(|bound| (bound, 0)).collect();
        for (longest, count) in times.steps() {
            let longest = longest.as_secs_f64();
            // The last bucket has each time.
            if let Some((_, in_it)) = buckets.iter_mut().find(|(bound, _)| longest <= *bound) {
                *in_it += count;
            }
        }
        Self {
            buckets,
            sum: times.sum().as_secs_f64(),
        }
    }

    /// Adds the times of another histogram. All have the same bounds.
    pub(crate) fn add(&mut self, other: &Self) {
        for ((_, count), (_, more)) in self.buckets.iter_mut().zip(&other.buckets) {
            *count += more;
        }
        self.sum += other.sum;
    }

    /// Returns the buckets: the longest time in seconds, and the number of times that are in this bucket and in no earlier
    /// one. The bound of the last bucket is infinite.
    pub fn buckets(&self) -> &[(f64, u64)] {
        &self.buckets
    }

    /// Returns the number of times.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// Returns the sum of the times, in seconds.
    pub fn sum(&self) -> f64 {
        self.sum
    }
}
