//! Measuring from another thread: the work done, its time, and its cost.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{Figures, cpu_time};

/// The work that one worker has finished, on a cache line of its own. The worker updates it once for many operations:
/// the line moves when it is read.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Tally(AtomicU64);

impl Tally {
    /// Makes one tally for each worker. They live forever.
    pub fn of(workers: usize) -> &'static [Self] {
        Box::leak((0..workers).map(|_| Self::default()).collect())
    }

    /// Sets the number finished so far.
    pub fn set(&self, finished: u64) {
        self.0.store(finished, Ordering::Relaxed);
    }

    /// Adds one. For tallies with a single writer.
    pub fn add_alone(&self) {
        self.set(self.get() + 1);
    }

    /// Adds one, from any thread.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The work done in a time, and its cost.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    pub done: u64,
    pub wall: Duration,
    /// The processor time of all threads.
    pub cpu: Duration,
}

impl Spent {
    /// Runs `f`, which returns how much it did, and returns the cost.
    pub fn on(f: impl FnOnce() -> u64) -> Self {
        let (wall, cpu) = (Instant::now(), cpu_time());
        let done = f();
        Self {
            done,
            wall: wall.elapsed(),
            cpu: cpu_time().saturating_sub(cpu),
        }
    }

    /// Returns the nanoseconds of wall clock for each of `parts` parts of the work.
    pub fn ns(&self, parts: u64) -> f64 {
        self.wall.as_nanos() as f64 / (self.done * parts).max(1) as f64
    }

    /// Returns the nanoseconds of processor time for each part.
    pub fn cpu_ns(&self, parts: u64) -> f64 {
        self.cpu.as_nanos() as f64 / (self.done * parts).max(1) as f64
    }

    /// Returns both as `ns_per_<unit>` and `cpu_ns_per_<unit>`.
    pub fn figures(&self, unit: &str, parts: u64) -> Figures {
        Figures::new()
            .with(&format!("ns_per_{unit}"), self.ns(parts))
            .with(&format!("cpu_ns_per_{unit}"), self.cpu_ns(parts))
    }
}

/// Observes workers that run by themselves: lets them warm up, then counts for `span`, or longer if they have not
/// finished anything by then. The measuring thread sleeps meanwhile.
pub fn measure(tallies: &[Tally], warm: Duration, span: Duration) -> Spent {
    let done = || tallies.iter().map(Tally::get).sum::<u64>();
    thread::sleep(warm);
    let before = done();
    Spent::on(|| {
        for _ in 0..30 {
            thread::sleep(span);
            if done() > before {
                break;
            }
        }
        done() - before
    })
}

/// Returns the value below which this part (0 to 1) of the sorted values lies.
pub fn percentile(sorted: &[u64], part: f64) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        n => sorted[((n as f64 * part) as usize).min(n - 1)] as f64,
    }
}
