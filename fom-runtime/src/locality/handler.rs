//! The handler's round.

use std::time::Duration;

use crate::{
    fom::{Resident, hand::context::holding},
    locality::{
        Core, Home, Job, context,
        parts::{self, Pause},
        reject,
        threads::Idle,
    },
};
use fom_protocol::sync::atomic::Ordering;

/// Maximum number of foms run between two looks at jobs and timers.
const BATCH: u32 = 32;
/// Foms run between two looks into the inbox, while there are foms to run. Other threads write to the inbox, so each
/// look moves a cache line.
const LOOK_EVERY: u32 = 8;
/// Maximum number of jobs run in one round, so a flood of jobs cannot starve the foms.
const JOBS: u32 = 32;
/// How long a frozen locality sleeps between two looks at the lease.
const FROZEN: Duration = Duration::from_millis(5);
/// Maximum number of foms and jobs run between two turns of the reactor, unless it rests.
const TURN_EVERY: u32 = 61;

/// The main function of each thread of a locality.
pub(super) fn main(home: &Home) {
    let _registered = home.register();
    let _entered = home.reactor.enter();
    while let Idle::Look = home.threads.idle() {
        if let Some(mut core) = home.slot.take() {
            // From now on, the section lasts until its thread gets the core back.
            if core.running.take().is_some() {
                home.load.run_ends();
                core.leave_turn();
                home.threads.block();
            }
            handle(core);
        }
    }
}

/// Runs the locality until the core goes to another thread or the locality ends.
fn handle(mut core: Box<Core>) {
    let home = core.home.clone();
    loop {
        // A thread that returns from leave-block goes before everything else.
        if home.threads.is_awaited() {
            match home.threads.give(core) {
                None => return,
                Some(mine) => core = mine,
            }
        }
        core.drain();
        core = run_jobs(core);
        core.fire_timers();
        let is_observed = home.env().hooks.extras().are_observed();
        // A frozen locality runs no fom and no part. It takes mail, and threads return to it.
        let is_frozen = is_observed && home.env().is_frozen();
        if !is_frozen {
            core = if is_observed {
                run_foms::<true>(core)
            } else {
                run_foms::<false>(core)
            };
            if core.parts.is_ready() {
                core = parts::run(core);
            }
        }
        core.look_at_share();
        // Also when nothing is ready at this moment. If each attempt to sleep finds new mail in the inbox, the handler
        // never looks at the sockets there.
        if core.turns.since >= TURN_EVERY {
            core.turns.since = 0;
            core.turn_reactor();
            core.trim_when_wanted();
        }
        if core.has_work() && !is_frozen || home.threads.is_awaited() {
            continue;
        }
        core.pause(Pause::Idle);
        if core.has_work() && !is_frozen {
            continue;
        }
        home.arrived.store(0, Ordering::Relaxed);
        core.publish();
        home.localities().tell_idle();
        if home.stopping.load(Ordering::Acquire) {
            if home.inbox.has_mail() {
                // The mail may have arrived before the locality was told to stop.
                continue;
            }
            if home.counts.is_idle() {
                return end(core);
            }
            // A fom that arrived after the shutdown's first sweep may wait here.
            if home.sweep() {
                continue;
            }
        }
        core.trim_when_wanted();
        let clock = &home.env().clock;
        let mut due_in = core
            .timers
            .next_at()
            .map(|at| Duration::from_nanos(at.saturating_sub(clock.nanos())));
        // Checked also for a clock that a test moves. A poke reports such a move, and a drain may have taken in the
        // last poke after the timers were fired.
        if due_in == Some(Duration::ZERO) {
            continue;
        }
        core.end_busy();
        due_in = due_in.filter(|_| clock.passes());
        if is_frozen && core.has_work() {
            due_in = Some(FROZEN);
        } else {
            // Last, because the caller may move the clock at once.
            core.tell_quiet();
        }
        if core.reactor.park(&home, due_in) {
            core.turns.since = 0;
            core.turns.at = 0;
        }
        core.begin_busy();
    }
}

pub(super) fn run_jobs(mut core: Box<Core>) -> Box<Core> {
    for _ in 0..JOBS {
        let Some(job) = core.next_job() else {
            break;
        };
        core.runs += 1;
        core.turns.since += 1;
        run_job(&mut core, job);
    }
    core
}

fn run_job(core: &mut Core, job: Job) {
    let home = core.home.clone();
    home.fenced("a job posted to", || holding(|| job(core)));
}

/// `OBSERVED`: whether runs are measured or recorded.
fn run_foms<const OBSERVED: bool>(mut core: Box<Core>) -> Box<Core> {
    let mut run = 0;
    let leased = OBSERVED && core.home.env().hooks.extras().are_leased();
    while run < BATCH && !core.queue.is_empty() {
        if leased && core.home.env().is_frozen() {
            break;
        }
        run += 1;
        if OBSERVED {
            core.measure_start();
        }
        let Some(fom) = core.queue.pop() else { break };
        if OBSERVED {
            core.measure_fom(fom.id());
            let end = core.record_run(&fom);
            if leased && core.home.env().is_frozen() {
                // A listener took its time. The next turn of the loop ends it.
                core.enqueue(fom);
            } else {
                core = run_fom(core, fom);
            }
            core.measure_end();
            core.record_run_end(end);
        } else {
            core = run_fom(core, fom);
        }
        if core.home.threads.is_awaited() {
            break;
        }
        if core.queue.is_empty() || run.is_multiple_of(LOOK_EVERY) {
            core.pause_when_asked();
            if core.home.inbox.has_mail() {
                core.drain();
            }
        }
        core.give();
    }
    core
}

// Inlined: a second caller, in `by_hand.rs`, must not make the run of a fom a call.
#[inline(always)]
pub(super) fn run_fom(mut core: Box<Core>, fom: Resident) -> Box<Core> {
    core.begin_run();
    let (mut core, fom, progress) = context::run(core, fom);
    core.after_run(fom, progress);
    core
}

/// Ends the locality: no fom lives here any more, and none can come.
pub(super) fn end(mut core: Box<Core>) {
    let home = core.home.clone();
    home.closed.store(true, Ordering::SeqCst);
    for parcel in home.inbox.drain() {
        home.fenced("what was posted to", || reject(parcel));
    }
    for job in core.messages.drain(..) {
        home.fenced("what was posted to", || drop(job));
    }
    while let Some(part) = core.parts.pop() {
        home.fenced("a part of", || drop(part));
    }
    // A caller may still keep a sleep. The sleep ends here, because no timer fires after this.
    while let Some(due) = core.timers.pop_due(u64::MAX) {
        core.fire_due(due, u64::MAX);
    }
    for data in core.data.drain(..) {
        home.fenced("the data of", || drop(data));
    }
    home.threads.dismiss();
    if !home.localities().balance.moves_foms() {
        home.release();
    }
    // Callers that wait for quiet, and tasks on the reactor, may panic when they learn of the end.
    home.fenced("the rest of", || drop(core));
    home.localities().one_ended();
}
