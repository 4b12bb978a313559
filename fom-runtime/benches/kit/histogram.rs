//! Latencies, counted by size.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

/// Counts of values, in steps of 3 %. Any thread may add.
#[derive(Debug)]
pub struct Histogram(Box<[AtomicU64]>);

/// Steps within a power of two.
const STEPS: usize = 32;

impl Histogram {
    /// Makes a histogram that lives forever.
    pub fn new() -> &'static Self {
        let counts = (0..64 * STEPS).map(|_| AtomicU64::new(0)).collect();
        Box::leak(Box::new(Self(counts)))
    }

    /// Counts this value.
    pub fn add(&self, value: u64) {
        self.0[place(value)].fetch_add(1, Ordering::Relaxed);
    }

    /// Adds all values of another histogram.
    pub fn add_all(&self, other: &Self) {
        for (count, other) in self.0.iter().zip(&other.0) {
            count.fetch_add(other.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.0
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }

    /// Removes all values, at the end of the warm-up.
    pub fn clear(&self) {
        self.0
            .iter()
            .for_each(|count| count.store(0, Ordering::Relaxed));
    }

    /// Returns the value below which this part (0 to 1) lies.
    pub fn percentile(&self, part: f64) -> f64 {
        let counts: Vec<_> = self
            .0
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .collect();
        let all: u64 = counts.iter().sum();
        let below = (all as f64 * part) as u64;
        let mut seen = 0;
        let found = counts.iter().position(|count| {
            seen += count;
            seen > below
        });
        found.map_or(f64::NAN, middle)
    }
}

fn place(value: u64) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let power = value.ilog2() as usize;
    let step = (value >> (power - 5)) as usize & (STEPS - 1);
    (power - 4) * STEPS + step
}

fn middle(place: usize) -> f64 {
    if place < STEPS {
        return place as f64;
    }
    let (power, step) = (place / STEPS + 4, place % STEPS);
    let size = (1_u64 << power) as f64;
    size * (1.0 + (step as f64 + 0.5) / STEPS as f64)
}

/// Returns the nanoseconds since the first call in the process; never 0.
pub fn now() -> u64 {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}
