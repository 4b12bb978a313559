//! The buckets of histograms.

use std::iter;

use fom_runtime::observe::Histogram;

/// The bounds of times in seconds: the defaults of Prometheus, with more on both sides.
const TIMES: [f64; 20] = [
    1e-6, 1e-5, 1e-4, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    60.0, 600.0, 3600.0, 86400.0,
];

/// The bounds of numbers of things.
const NUMBERS: [f64; 16] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8,
];

/// Times in seconds or numbers of things, counted in buckets.
///
/// A [`Histogram`] has eight steps for each doubling of its values. A bucket has the steps that are in it as a whole. So a
/// value counts as up to an eighth larger than it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    buckets: Vec<(f64, u64)>,
    sum: f64,
}

impl Buckets {
    /// Puts the times of a histogram into buckets.
    pub(crate) fn of_times(times: &Histogram) -> Self {
        let steps = times.steps().iter();
        let steps = steps.map(|(longest, count)| (longest.as_secs_f64(), *count));
        Self::of(&TIMES, steps, times.sum().as_secs_f64())
    }

    /// Puts the numbers of a histogram into buckets.
    pub(crate) fn of_numbers(numbers: &Histogram<u64>) -> Self {
        let steps = numbers.steps().iter();
        let steps = steps.map(|(largest, count)| (*largest as f64, *count));
        Self::of(&NUMBERS, steps, numbers.sum() as f64)
    }

    fn of(bounds: &[f64], steps: impl Iterator<Item = (f64, u64)>, sum: f64) -> Self {
        let bounds = bounds.iter().copied().chain(iter::once(f64::INFINITY));
        let mut buckets: Vec<_> = bounds.map(|bound| (bound, 0)).collect();
        for (largest, count) in steps {
            // The last bucket has each value.
            if let Some((_, in_it)) = buckets.iter_mut().find(|(bound, _)| largest <= *bound) {
                *in_it += count;
            }
        }
        Self { buckets, sum }
    }

    /// Adds the values of another histogram of the same metric, which has the same bounds.
    pub(crate) fn add(&mut self, other: &Self) {
        for ((_, count), (_, more)) in self.buckets.iter_mut().zip(&other.buckets) {
            *count += more;
        }
        self.sum += other.sum;
    }

    /// Returns the buckets: the largest value, and the number of values that are in this bucket and in no earlier one. The bound of the last bucket is infinite.
    pub fn buckets(&self) -> &[(f64, u64)] {
        &self.buckets
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// Returns the sum of the values.
    pub fn sum(&self) -> f64 {
        self.sum
    }
}
