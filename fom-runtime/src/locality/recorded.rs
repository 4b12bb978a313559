//! What a locality writes into the flight recorder, and tells of its runs: their begins and ends, and their blocking
//! sections.

use std::sync::Arc;

use crate::{
    fom::{Header, List, flight::Kind, hand::context::holding},
    locality::Core,
};
use fom_protocol::ENTRY;

/// The end of a run, which is recorded and told after the fom may be gone.
pub(super) struct RunEnd {
    entry: Option<[u64; ENTRY]>,
    listeners: Option<Arc<List>>,
}

impl Core {
    /// Records that a run of this fom begins, if the runtime has a recorder, and tells it.
    #[inline]
    pub(super) fn record_run(&mut self, fom: &Header) -> Option<RunEnd> {
        self.busy.notes_runs.then(|| self.begin_noted(fom))
    }

    #[inline(never)]
    fn begin_noted(&mut self, fom: &Header) -> RunEnd {
        let listeners = self.home.env().hooks.telling_runs();
        if let Some(listeners) = &listeners {
            holding(|| listeners.tell_begin(fom));
        }
        let entry = self.is_recorded().then(|| {
            self.record_in_phase(Kind::RunBegins, fom);
            self.entry(Kind::RunEnds, fom)
        });
        RunEnd { entry, listeners }
    }

    /// Records the end of the run, and tells it.
    #[inline]
    pub(super) fn record_run_end(&mut self, end: Option<RunEnd>) {
        if let Some(end) = end {
            self.end_noted(end);
        }
    }

    #[inline(never)]
    fn end_noted(&mut self, RunEnd { entry, listeners }: RunEnd) {
        if let Some(mut entry) = entry {
            // A runtime that counts has looked at the clock just now.
            entry[0] = match self.home.env().hooks.are_counted() {
                true => self.now(),
                false => self.look(),
            };
            self.record_entry(entry);
        }
        if let Some(listeners) = listeners {
            holding(|| listeners.tell_end(self.home.env()));
        }
    }

    /// Records that a blocking section of this fom begins or ends, if the runtime has a recorder.
    pub(super) fn record_section(&mut self, kind: Kind, fom: &Header) {
        if self.is_recorded() {
            self.look();
            self.record(kind, fom);
        }
    }
}

/// Records that a fom goes on with its run, after the run of a fom on its stack.
pub(super) fn record_rest(core: &mut Core, fom: &Header) {
    if core.is_recorded() {
        core.record_in_phase(Kind::RunBegins, fom);
    }
}
