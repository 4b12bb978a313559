//! Runs a locality without threads, on the thread that calls, one fom at a time. It is for tests of one operation.
//!
//! Between two calls the core lies in the slot, as it does in a blocking section. No other thread looks there, because
//! the threads of such a locality exist by number only.

use std::{io, sync::Arc};

use crate::locality::{
    Core, Home, Spawner,
    handler::{end, run_fom, run_jobs},
    parts::{self, Pause},
};
use fom_protocol::sync::atomic::Ordering;

impl Spawner {
    /// Counts threads, and makes none.
    pub(crate) fn of_no_threads() -> Self {
        Self(Arc::new(|_, _| Ok::<_, io::Error>(())))
    }
}

impl Home {
    /// Runs the next fom once, after the jobs and timers that are due. Returns whether a fom was ready.
    pub(crate) fn run_one_by_hand(&self) -> bool {
        let Some(core) = self.slot.take() else {
            return false;
        };
        let _entered = self.reactor.enter();
        let (core, ran) = run_one(core, self);
        if let Some(core) = core {
            self.slot.put(core);
            // The next call reads the mail in any case.
            let _ = self.inbox.vacate();
        }
        ran
    }
}

/// Returns no core if the locality has ended.
fn run_one(mut core: Box<Core>, home: &Home) -> (Option<Box<Core>>, bool) {
    loop {
        core.drain();
        core = run_jobs(core);
        core.fire_timers();
        if home.env().is_frozen() {
            return (Some(core), false);
        }
        if let Some(fom) = core.queue.pop() {
            return (Some(run_fom(core, fom)), true);
        }
        if core.parts.is_ready() {
            core = parts::run(core);
        }
        core.reactor.turn();
        core.pause(Pause::Idle);
        if core.has_work() || home.inbox.has_mail() {
            continue;
        }
        home.localities().tell_idle();
        if home.stopping.load(Ordering::Acquire) {
            if home.counts.is_idle() {
                end(core);
                return (None, false);
            }
            if home.sweep() {
                continue;
            }
        }
        return (Some(core), false);
    }
}
