//! The outcome of a run.

use super::Nanos;

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Foms per second that ended while more arrived.
    pub(crate) throughput: f64,
    /// The waits of the foms until they ran, and those of the hot key, shortest first.
    pub(crate) waits: Vec<Nanos>,
    pub(crate) hot_waits: Vec<Nanos>,
    /// The number of moves, and of moved foms.
    pub(crate) moves: usize,
    pub(crate) moved: usize,
    /// Loans of processors.
    pub(crate) loans: usize,
    /// The longest queue.
    pub(crate) worst_queue: usize,
    in_time: usize,
}

impl Outcome {
    pub(super) fn queue(&mut self, length: usize) {
        self.worst_queue = self.worst_queue.max(length);
    }

    pub(super) fn waited(&mut self, time: Nanos, hot: bool) {
        self.waits.push(time);
        if hot {
            self.hot_waits.push(time);
        }
    }

    pub(super) fn ended(&mut self, foms: usize, in_time: bool) {
        if in_time {
            self.in_time += foms;
        }
    }

    pub(super) fn moved(&mut self, foms: usize) {
        self.moves += 1;
        self.moved += foms;
    }

    pub(super) fn lent(&mut self) {
        self.loans += 1;
    }

    pub(super) fn finish(mut self, until: Nanos) -> Self {
        self.throughput = self.in_time as f64 / (until as f64 / 1e9);
        self.waits.sort_unstable();
        self.hot_waits.sort_unstable();
        self
    }

    /// Returns the wait that so many percent of the foms did not exceed.
    pub(crate) fn wait(&self, percent: f64) -> Nanos {
        percentile(&self.waits, percent)
    }
}

pub(crate) fn percentile(sorted: &[Nanos], percent: f64) -> Nanos {
    let at = (sorted.len() as f64 * percent / 100.0) as usize;
    sorted.get(at).or(sorted.last()).copied().unwrap_or(0)
}
