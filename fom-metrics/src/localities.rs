//! The loads of the localities.

use std::time::Duration;

use fom_runtime::observe::LocalityInfo;

use crate::{
    catalog::{
        LOCALITY_BLOCKED, LOCALITY_BUSY, LOCALITY_FOMS, LOCALITY_IDLE_RUNS, LOCALITY_INBOX,
        LOCALITY_LONGEST_RUN, LOCALITY_QUEUED, LOCALITY_READY, LOCALITY_READY_WAIT, LOCALITY_RUN,
        LOCALITY_RUN_TIMES, LOCALITY_RUNS, LOCALITY_SECTIONS, LOCALITY_THREADS,
    },
    readings::Readings,
};

pub(crate) fn read(localities: &[LocalityInfo], into: &mut Readings) {
    for of in localities {
        let index = of.index.to_string();
        let labels = [&*index];
        into.count(LOCALITY_FOMS, &labels, of.foms as u64);
        into.count(LOCALITY_READY, &labels, of.ready as u64);
        into.count(LOCALITY_INBOX, &labels, of.inbox as u64);
        into.count(LOCALITY_THREADS, &labels, of.threads as u64);
        into.count(LOCALITY_BLOCKED, &labels, of.blocked_threads as u64);
        into.count(LOCALITY_RUNS, &labels, of.runs);
        let Some(measured) = &of.measured else {
            continue;
        };
        let run = measured.running.unwrap_or(Duration::ZERO);
        into.count(LOCALITY_IDLE_RUNS, &labels, measured.idle_runs);
        into.seconds(LOCALITY_BUSY, &labels, measured.busy);
        into.seconds(LOCALITY_RUN, &labels, run);
        into.seconds(LOCALITY_LONGEST_RUN, &labels, measured.longest_run);
        into.times(LOCALITY_READY_WAIT, &labels, &measured.ready);
        into.times(LOCALITY_RUN_TIMES, &labels, &measured.run_times);
        into.times(LOCALITY_SECTIONS, &labels, &measured.sections);
        into.numbers(LOCALITY_QUEUED, &labels, &measured.queued);
    }
}
