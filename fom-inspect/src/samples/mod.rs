//! What the inspector remembers of the counters: one sample every 2 s, for rates and strips.

mod edges;
mod rate;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use fom_runtime::{
    machine::Graph,
    observe::{Counters, LocalityInfo},
};

use edges::EdgeNames;
pub(crate) use edges::{Edge, Ended, Totals, edge_key, kind, totals};
pub(crate) use rate::Rates;

/// The time between two samples.
pub(crate) const STEP: Duration = Duration::from_secs(2);
/// The samples of the last two minutes.
const FINE: usize = 61;
/// Each tenth sample, of the last ten minutes.
const COARSE: usize = 31;
const COARSENESS: u64 = 10;
/// The cells of a strip: five minutes.
const CELLS: usize = 150;

/// The numbers of one time.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    /// The counts of the edges of each machine, in the order of its [names](EdgeNames).
    edges: Vec<Vec<u64>>,
    /// The runs of each locality.
    runs: Vec<u64>,
    busy: Vec<Option<Duration>>,
    /// The syncs of the journal, and the bytes that it wrote.
    journal: Option<(u64, u64)>,
}

/// The samples of the last ten minutes.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    names: EdgeNames,
    fine: VecDeque<Sample>,
    coarse: VecDeque<Sample>,
    /// The share of busy time of each locality, by step.
    busy: Vec<VecDeque<f64>>,
    taken: u64,
}

impl Samples {
    /// Takes a sample.
    pub(crate) fn take(
        &mut self,
        counters: &Counters,
        loads: &[LocalityInfo],
        journal: Option<(u64, u64)>,
    ) {
        let busy = |of: &LocalityInfo| Some(of.measured.as_ref()?.busy);
        let sample = Sample {
            at: Instant::now(),
            edges: self.names.counts(counters),
            runs: loads.iter().map(|of| of.runs).collect(),
            busy: loads.iter().map(busy).collect(),
            journal,
        };
        self.keep(sample);
    }

    fn keep(&mut self, sample: Sample) {
        if let Some(last) = self.fine.back() {
            self.busy.resize_with(sample.busy.len(), VecDeque::new);
            for (locality, cells) in self.busy.iter_mut().enumerate() {
                push(cells, share(last, &sample, locality), CELLS);
            }
        }
        if self.taken.is_multiple_of(COARSENESS) {
            push(&mut self.coarse, sample.clone(), COARSE);
        }
        self.taken += 1;
        push(&mut self.fine, sample, FINE);
    }

    /// Returns the samples, the oldest first.
    fn all(&self) -> impl Iterator<Item = &Sample> {
        let first = self.fine.front().map(|sample| sample.at);
        let old = self
            .coarse
            .iter()
            .filter(move |sample| first.is_some_and(|first| sample.at < first));
        old.chain(&self.fine)
    }

    /// Returns the shares of busy time of a locality, the newest last.
    pub(crate) fn strip(&self, locality: usize) -> Vec<f64> {
        let cells = self.busy.get(locality);
        cells.map_or_else(Vec::new, |cells| cells.iter().copied().collect())
    }

    /// Returns how often in a second something happened in each step of the last two minutes, the newest last.
    fn spark(&self, count: impl Fn(&Sample) -> Option<u64>) -> Vec<f64> {
        let of = |sample| count(sample).unwrap_or(0);
        let pairs = self.fine.iter().zip(self.fine.iter().skip(1));
        pairs
            .map(|(one, next)| {
                let time = next.at.duration_since(one.at).as_secs_f64().max(1e-3);
                rounded(of(next).saturating_sub(of(one)) as f64 / time)
            })
            .collect()
    }

    /// Returns how often in a second something happened until the last sample. So a rate changes every two seconds.
    pub(crate) fn rates(&self, count: impl Fn(&Sample) -> Option<u64>) -> Rates {
        let of = |sample| count(sample).unwrap_or(0);
        let rate = |window: Duration| {
            let now = self.fine.back()?;
            let since = now.at.checked_sub(window);
            // The first sample in the window. A window that is not complete has the time so far.
            let first = self
                .all()
                .find(|sample| since.is_none_or(|since| sample.at >= since))?;
            let time = now.at.duration_since(first.at);
            // The first sample alone has no rate, and a shorter time says little.
            let enough = time >= STEP / 2;
            enough.then(|| rounded(of(now).saturating_sub(of(first)) as f64 / time.as_secs_f64()))
        };
        Rates::of(rate)
    }

    /// Returns the samples of one machine.
    pub(crate) fn machine(&self, graph: &Graph) -> MachineSamples<'_> {
        MachineSamples {
            samples: self,
            machine: self.names.of(graph),
        }
    }
}

impl Sample {
    /// Returns the runs of a locality.
    pub(crate) fn runs(&self, locality: usize) -> Option<u64> {
        self.runs.get(locality).copied()
    }

    /// Returns the syncs of the journal.
    pub(crate) fn syncs(&self) -> Option<u64> {
        self.journal.map(|(syncs, _)| syncs)
    }

    /// Returns the bytes that the journal wrote.
    pub(crate) fn written(&self) -> Option<u64> {
        self.journal.map(|(_, bytes)| bytes)
    }
}

/// The samples of one machine.
pub(crate) struct MachineSamples<'a> {
    samples: &'a Samples,
    /// The index of the machine, and its edges.
    machine: Option<(usize, &'a [Edge])>,
}

impl MachineSamples<'_> {
    /// Returns how often foms took the edges that `is` covers, by sample.
    fn count(&self, is: impl Fn(&Edge) -> bool) -> impl Fn(&Sample) -> Option<u64> {
        let names = self.machine.map_or(&[][..], |(_, names)| names);
        let covered: Vec<_> = (0..names.len())
            .filter(|place| is(&names[*place]))
            .collect();
        let machine = self.machine.map(|(machine, _)| machine);
        move |sample| {
            let counts = sample.edges.get(machine?)?;
            // An edge that is new has no count in an older sample.
            let counts = covered.iter().filter_map(|place| counts.get(*place));
            Some(counts.sum())
        }
    }

    pub(crate) fn rates(&self, is: impl Fn(&Edge) -> bool) -> Rates {
        self.samples.rates(self.count(is))
    }

    /// Returns how often foms took these edges in a second, in each step of the last two minutes, the newest last.
    pub(crate) fn spark(&self, is: impl Fn(&Edge) -> bool) -> Vec<f64> {
        self.samples.spark(self.count(is))
    }
}

fn push<T>(ring: &mut VecDeque<T>, value: T, most: usize) {
    if ring.len() == most {
        ring.pop_front();
    }
    ring.push_back(value);
}

/// Returns the share of busy time of a locality between two samples.
fn share(one: &Sample, next: &Sample, locality: usize) -> f64 {
    let busy = |sample: &Sample| sample.busy.get(locality).copied().flatten();
    let (Some(before), Some(after)) = (busy(one), busy(next)) else {
        return 0.0;
    };
    let time = next.at.duration_since(one.at).as_secs_f64().max(1e-3);
    let share = after.saturating_sub(before).as_secs_f64() / time;
    rounded(share.min(1.0))
}

/// Keeps three digits behind the point: more are noise, and make answers long.
pub(crate) fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}
