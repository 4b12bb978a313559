//! The load that a locality reports. While the runtime counts, the handler measures each run. Otherwise it reports only
//! the numbers that it has anyway.
//!
//! The time from ready to running follows from the order of the run queue. The measure assumes that the n-th fom that
//! enters the queue is the n-th fom that leaves it. At each [`Mark`] the handler notes the time, and how many foms have
//! entered. The measure assumes that a fom is ready since the last mark before it entered. So the time includes the wait
//! in the inbox. With foms of several priorities, the single times are wrong, and their mean is right.

use std::{collections::VecDeque, sync::OnceLock};

use crate::{
    clock::passed,
    fom::counters::Steps,
    id::FomId,
    locality::{Core, Locality},
};
use fom_protocol::{
    count,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// The most marks that are kept. Above it, every other mark is dropped.
const MARKS: usize = 1024;

/// The load of a locality, for other threads. Only the handler writes it.
#[derive(Default)]
pub(crate) struct Load {
    /// Number of foms in the run queue.
    pub(crate) ready: AtomicUsize,
    /// Number of runs of foms and jobs.
    pub(crate) runs: AtomicU64,
    /// The time in which the locality had work, in nanoseconds.
    pub(crate) busy: AtomicU64,
    /// The longest run, in nanoseconds.
    pub(crate) longest: AtomicU64,
    /// When the current run began, or zero.
    pub(crate) running_since: AtomicU64,
    /// The id of the fom of the current run, or of the last one.
    pub(crate) running_fom: AtomicU64,
    /// Number of measured runs that made no step: neither a transition nor an event of a plain phase.
    pub(crate) idle_runs: AtomicU64,
    /// The id of the fom of the last such run, or zero.
    pub(crate) idle_fom: AtomicU64,
    distributions: OnceLock<Box<Distributions>>,
}

/// What the handler counts in steps. The times are in nanoseconds.
#[derive(Default)]
pub(crate) struct Distributions {
    /// How long foms were ready before they ran.
    pub(crate) delays: Distribution,
    /// How long the runs took that kept the core.
    pub(crate) runs: Distribution,
    /// How long the blocking sections took.
    pub(crate) sections: Distribution,
    /// The number of foms in the run queue when a run began, with the fom that ran.
    pub(crate) queued: Distribution,
}

/// Numbers in steps, and their sum.
#[derive(Default)]
pub(crate) struct Distribution {
    steps: Steps,
    sum: AtomicU64,
}

impl Distribution {
    #[inline]
    fn add(&self, number: u64) {
        self.steps.add(number);
        count(&self.sum, number);
    }

    pub(crate) fn read(&self) -> (&Steps, u64) {
        (&self.steps, self.sum.load(Ordering::Relaxed))
    }
}

impl Load {
    /// Notes that the current run is over, or that it goes on without the core.
    pub(super) fn run_ends(&self) -> u64 {
        let since = self.running_since.load(Ordering::Relaxed);
        if since > 0 {
            self.running_since.store(0, Ordering::Relaxed);
        }
        since
    }

    /// Returns what is counted in steps, if anything was.
    pub(crate) fn distributions(&self) -> Option<&Distributions> {
        self.distributions.get().map(|all| &**all)
    }

    /// Counts a blocking section. Called with the core that it got back.
    pub(super) fn section_ended(&self, since: u64, until: u64) {
        self.add_to().sections.add(passed(until, since));
    }

    fn add_to(&self) -> &Distributions {
        self.distributions.get_or_init(Box::default)
    }
}

/// What the handler needs to measure.
#[derive(Debug, Default)]
pub(super) struct Measure {
    /// The end of the measured time.
    until: u64,
    marks: VecDeque<Mark>,
    /// The time of the last mark before all foms that are in the queue.
    passed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    at: u64,
    /// How many foms had entered the run queue.
    entered: u32,
}

impl Core {
    /// Begins to measure, after a time without work and a look at the clock.
    pub(super) fn measure_from_now(&mut self) {
        if self.home.env().hooks.are_counted() {
            self.busy.measured.until = self.now();
            self.mark();
        }
    }

    /// Adds the time since the last call to the time in which the locality had work.
    pub(super) fn measure_busy(&mut self) {
        if self.home.env().hooks.are_counted() {
            let now = self.look();
            self.add_busy(now);
        }
    }

    fn add_busy(&mut self, now: u64) {
        if self.busy.measured.until > 0 {
            count(&self.home.load.busy, passed(now, self.busy.measured.until));
        }
        self.busy.measured.until = now;
    }

    /// Notes how many foms have entered the run queue by now.
    fn mark(&mut self) {
        let mark = Mark {
            at: self.now(),
            entered: self.queue.entered(),
        };
        let marks = &mut self.busy.measured.marks;
        if marks
            .back()
            .is_some_and(|last| last.entered == mark.entered)
        {
            // What enters next is ready since the later time.
            marks.pop_back();
        }
        if marks.len() == MARKS {
            let mut nth = 0;
            marks.retain(|_| {
                nth += 1;
                nth % 2 == 1
            });
        }
        marks.push_back(mark);
    }

    /// Called before the next fom is taken out of the run queue. Measures if the runtime counts.
    pub(super) fn measure_start(&mut self) {
        if !self.home.env().hooks.are_counted() {
            return;
        }
        let now = self.now();
        let load = &self.home.load;
        // Zero says that no fom runs. The clock of a test begins there.
        load.running_since.store(now.max(1), Ordering::Relaxed);
        let next = self.queue.left();
        let all = load.add_to();
        all.queued.add(self.queue.len() as u64);
        let measure = &mut self.busy.measured;
        while let Some(mark) = measure.marks.front()
            && next.wrapping_sub(mark.entered).cast_signed() >= 0
        {
            measure.passed = mark.at;
            measure.marks.pop_front();
        }
        if measure.passed > 0 {
            let delay = passed(now, measure.passed);
            all.delays.add(delay);
        }
    }

    /// Called with the fom that runs next.
    pub(super) fn measure_fom(&self, id: FomId) {
        let load = &self.home.load;
        load.running_fom.store(id.get(), Ordering::Relaxed);
    }

    /// Called after the run of a fom. Measures if the runtime counts.
    pub(super) fn measure_end(&mut self) {
        if !self.home.env().hooks.are_counted() {
            return;
        }
        let made_no_step = self.run_budget.is_whole();
        let now = self.look();
        let load = &self.home.load;
        let since = load.run_ends();
        if since > 0 && made_no_step {
            let id = load.running_fom.load(Ordering::Relaxed);
            load.idle_fom.store(id, Ordering::Relaxed);
            count(&load.idle_runs, 1);
        }
        // Zero if another thread took over while the fom was in a blocking section.
        if since > 0 {
            let took = passed(now, since);
            load.add_to().runs.add(took);
            if took > load.longest.load(Ordering::Relaxed) {
                load.longest.store(took, Ordering::Relaxed);
            }
        }
        self.add_busy(now);
        self.publish();
        self.mark();
    }
}

impl Locality {
    /// Returns how long the current run has gone on, if the locality measures and runs a fom.
    pub(crate) fn running_for(&self, now: u64) -> Option<u64> {
        let since = self.load.running_since.load(Ordering::Relaxed);
        (since > 0).then(|| passed(now, since))
    }
}
