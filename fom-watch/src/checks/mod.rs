//! The checks of a look. Each is in a file of its own, and remembers what it needs of earlier looks.

mod cycles;
mod growth;
mod hung;
mod journal;
mod late;
mod lease;
mod quarantine;
mod runs;
mod similar;
mod starving;
mod storms;

use fom_runtime::{Runtime, time::Instant};

use crate::{WarningKind, Watch, board::Finding, sight::Sight};

/// The number of ids in a warning.
const IDS: usize = 8;

#[derive(Default)]
pub(crate) struct Checks {
    runs: runs::Runs,
    storms: storms::Storms,
    starving: starving::Starving,
    growth: growth::Growth,
    late: late::Late,
    cycles: cycles::Cycles,
    journal: journal::Behind,
    lease: lease::Lease,
    quarantine: quarantine::Quarantine,
}

impl Checks {
    /// Tells the checks when the watch began, which can be long before the first look.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.starving.begin(now);
    }

    /// Returns what is wrong.
    pub(crate) fn check(
        &mut self,
        runtime: &Runtime,
        watch: &Watch,
        sight: &Sight,
    ) -> Vec<Finding> {
        let mut found = self.runs.check(runtime, watch, sight);
        // Foms that share a locality with a long run starve by it.
        let standing: Vec<_> = found.iter().map(|one| one.subject.clone()).collect();
        let is_standing = |locality: usize| standing.contains(&locality_name(locality));
        found.extend(hung::check(runtime, watch, sight));
        found.extend(self.storms.check(runtime, watch, sight));
        found.extend(self.starving.check(runtime, watch, sight, is_standing));
        found.extend(self.growth.check(runtime, watch, sight));
        found.extend(self.late.check(runtime, sight));
        if watch.has(WarningKind::WaitCycle) {
            found.extend(self.cycles.check(runtime, watch, sight));
        }
        found.extend(self.journal.check(watch, sight));
        found.extend(self.lease.check(watch, sight));
        if watch.has(WarningKind::Quarantine) {
            found.extend(self.quarantine.check(runtime, sight.now));
        }
        found.retain(|one| watch.has(one.kind));
        found
    }
}

/// Returns the name of a locality in warnings.
fn locality_name(index: usize) -> String {
    format!("locality {index}")
}
