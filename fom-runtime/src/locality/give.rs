//! Moving foms: a locality that has many ready gives half of them to one that has nothing to do.
//!
//! Nothing is ever taken from outside. The giver's handler takes foms out of its own run queue, where they are nobody
//! else's, and hands them over by a job, as everything comes into a locality.
//!
//! # Why nothing is lost on the way
//!
//! - *A wake or a cancel.* A fom that is moved is Ready from the time when it was put into the giver's queue until the taker
//!   runs it, so a wake or a cancel finds it Ready, leaves its mark in the token and enqueues nothing. The next one to be
//!   enqueued is one that finds it Waiting: by then it has run in its new home, and the read-modify-write that finds it
//!   so has acquired where that is.
//! - *Its deadline.* Its timer is taken out of the giver's wheel, and put into the taker's before it is in the taker's queue.
//! - *The counts.* It is counted in with the taker before it is counted out with the giver, so no sum is ever zero while it
//!   is on its way; see [`Counts`](super::Counts).
//! - *A shutdown.* A locality ends when no fom is counted in it and the runtime is closed. The giver counts its foms in
//!   with the taker first, and then looks whether the runtime is closed. If so, it takes them back. So either the taker
//!   sees the count and stays, or the giver keeps its foms. A job with foms in it is never rejected. The memory of a
//!   fom is listed until every locality has ended, wherever the fom is.
//!
//! What asks for a fom at its home by a job looks, when the job runs, whether that is still its home
//! ([`at_home_of`](super::at_home_of)). On the thread that holds the core of its home it stays so: only that one moves it.

use std::time::Duration;

use crate::{
    balance::{Distance, Load, foms},
    fom::Resident,
    locality::Core,
};

/// Runs that the mean time of a run is taken of.
const RUNS: u64 = 64;
/// Where runs are shorter than this, in nanoseconds, it is not worth looking after each of them.
const SHORT: u64 = 1_000;
/// Runs until the next look then.
const STRIDE: u64 = 32;
/// Foms that are looked at for each one that is wanted: more than that are placed by hand, or have a key.
const LOOKED_AT: usize = 4;

/// What a core knows of its own load.
#[derive(Debug, Default)]
pub(super) struct Busy {
    /// Since when, and how many runs there had been.
    since: u64,
    runs: u64,
    /// How long a run takes, in nanoseconds.
    service: u64,
    /// After how many runs it looks again.
    look_at: u64,
}

impl Core {
    /// There is something to do again: the time without is in no mean.
    pub(super) fn begin_busy(&mut self) {
        if self.moves_processors {
            self.home.take_back();
        }
        if self.moves_foms {
            self.home.world().idle_set.take(self.home.index);
            self.busy.since = self.pace.look(&self.home.world().clock);
            self.busy.runs = self.runs;
        }
    }

    /// There is nothing to do: foms of others are welcome.
    pub(super) fn end_busy(&mut self) {
        if self.moves_processors {
            let now = self.pace.look(&self.home.world().clock);
            self.home.offer(now);
        }
        if self.moves_foms {
            self.home.world().idle_set.add(self.home.index);
        }
    }

    /// Gives foms away if somebody is idle and that pays. Between two runs.
    #[inline]
    pub(super) fn give(&mut self) {
        if self.moves_foms
            && self.runs >= self.busy.look_at
            && self.queue.len() > 1
            && !self.home.world().idle_set.is_empty()
        {
            self.look_round();
        }
    }

    #[cold]
    fn look_round(&mut self) {
        self.measure();
        let stride = if self.busy.service < SHORT { STRIDE } else { 1 };
        self.busy.look_at = self.runs + stride;
        let load = Load {
            ready: self.queue.len(),
            // Those that stay are found only when they are looked at.
            movable: self.queue.len(),
            service: Duration::from_nanos(self.busy.service),
            ..Load::default()
        };
        let world = self.home.world();
        if world.is_closed() {
            // The foms that are left end at their next wait.
            return;
        }
        let localities = &world.localities;
        let idle_set = &world.idle_set;
        let idle = idle_set.iter().map(|index| {
            let plan = &localities[index].plan;
            (index, Distance::between(&self.home.plan, plan))
        });
        let Some(to) = foms::whom_to_serve(&load, idle) else {
            return;
        };
        if !idle_set.take(to) {
            return;
        }
        let wanted = foms::share(&load);
        let moved = self.queue.take_every_other(wanted, LOOKED_AT * wanted);
        if moved.is_empty() {
            // Others may have something for it. Here there is nothing before those in the queue have run.
            idle_set.add(to);
            self.busy.look_at = self.runs + load.ready as u64;
        } else {
            if !self.commits.is_empty() {
                // What they do elsewhere comes into the journal after what they did here.
                self.hand_over(true);
            }
            self.send(to, moved);
        }
    }

    fn measure(&mut self) {
        let now = self.pace.now();
        let runs = self.runs - self.busy.runs;
        if let Some(service) = now.saturating_sub(self.busy.since).checked_div(runs) {
            self.busy.service = service;
        }
        if runs >= RUNS {
            self.busy.since = now;
            self.busy.runs = self.runs;
        }
    }

    fn send(&mut self, to: usize, foms: Vec<Resident>) {
        let here = self.home.clone();
        let there = &here.world().localities[to];
        let count = foms.len() as u64;
        if there.counts.sent(count, || here.world().is_closed()) {
            // The other locality may have ended.
            there.take_back_all(count);
            foms.into_iter().for_each(|fom| self.enqueue(fom));
            return;
        }
        let moved: Vec<_> = foms
            .into_iter()
            .map(|fom| {
                let due = fom
                    .timing()
                    .and_then(|timing| timing.take_out(&mut self.timers));
                fom.set_home(to);
                (fom, due)
            })
            .collect();
        here.counts.given_away(moved.len() as u64);
        self.gave = true;
        there.post_job(Box::new(move |core| {
            for (fom, due) in moved {
                if let (Some(timing), Some(at)) = (fom.timing(), due) {
                    timing.put_in(&mut core.timers, at);
                }
                core.enqueue(fom);
            }
        }));
    }
}
