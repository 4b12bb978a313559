//! Moving foms: a locality with many ready foms gives half of them to a locality that has nothing to do.
//!
//! Nothing is ever taken from outside. The giver's handler takes foms out of its own run queue, where no other thread
//! touches them. It hands them over by a job, as everything comes into a locality.
//!
//! # Why nothing is lost on the way
//!
//! - *A wake or a cancel.* A fom that is moved stays Ready from its place in the giver's queue until the taker runs it.
//!   A wake or a cancel that finds it Ready leaves its mark in the token and enqueues nothing. Only a wake that finds
//!   the fom Waiting enqueues it. By then the fom has run in its new home. The read-modify-write that finds it Waiting
//!   has acquired where that home is.
//! - *Its deadline.* The giver takes the fom's timer out of its wheel. The taker puts it into its own wheel before it
//!   queues the fom.
//! - *The counts.* The fom is counted in with the taker before it is counted out with the giver. So no sum is zero
//!   while the fom is on its way; see [`InFlight`](fom_protocol::InFlight).
//! - *A shutdown.* A locality ends when no fom is counted in it and the runtime is closed. The giver first counts its
//!   foms in with the taker, and then checks whether the runtime is closed. If so, it takes the counts back. So either
//!   the taker sees the count and stays, or the giver keeps its foms. A job with foms in it is never rejected. The
//!   memory of a fom is listed until every locality has ended, wherever the fom is.
//!
//! A job that looks for a fom at its home checks, when it runs, whether the fom still has that home
//! ([`at_home_of`](super::at_home_of)). On the thread that holds the core of the home the answer stays true: only that
//! thread moves the fom.

use std::time::Duration;

use crate::{
    balance::{Distance, Load, foms},
    fom::Resident,
    locality::{Core, Home, load::Measure},
};

/// Number of runs over which the mean time of a run is taken.
const RUNS: u64 = 64;
/// Mean time of a run, in nanoseconds, below which a check after each run does not pay.
const SHORT: u64 = 1_000;
/// Number of runs until the next check in that case.
const STRIDE: u64 = 32;
/// Foms looked at for each fom that is wanted. If more do not move, most foms are placed explicitly or have a key.
const LOOKED_AT: usize = 4;

/// What a core knows of its own load.
#[derive(Debug, Default)]
pub(super) struct Busy {
    /// Whether foms are moved to idle localities.
    moves: bool,
    /// Whether runs are recorded, or told to listeners. Listeners to runs are there before the first core.
    pub(super) notes_runs: bool,
    /// Whether any fom was moved away.
    pub(super) gave: bool,
    /// Start of the measured time, and the number of runs up to then.
    since: u64,
    runs: u64,
    /// Mean time of a run, in nanoseconds.
    service: u64,
    /// Number of runs at which the core looks round again.
    look_at: u64,
    /// What is measured while the runtime counts.
    pub(super) measured: Measure,
}

impl Busy {
    pub(super) fn new(home: &Home) -> Self {
        Self {
            moves: home.localities().balance.moves_foms(),
            notes_runs: home.env().hooks.extras().are_noted(),
            ..Self::default()
        }
    }
}

impl Core {
    /// Notes that there is work again. Time without work enters no mean.
    pub(super) fn begin_busy(&mut self) {
        // Steps may be rare. Without this look, the time could be that of a step before the sleep.
        self.look();
        if self.share.moves {
            self.home.take_back();
        }
        if self.busy.moves {
            self.home.localities().idle_set.take(self.home.index);
            self.busy.since = self.now();
            self.busy.runs = self.runs;
        }
        self.measure_from_now();
    }

    /// Notes that there is no work: foms of other localities are welcome.
    pub(super) fn end_busy(&mut self) {
        self.measure_busy();
        if self.share.moves {
            let now = self.look();
            self.home.offer(now);
        }
        if self.busy.moves {
            self.home.localities().idle_set.add(self.home.index);
        }
    }

    /// Gives foms away if a locality is idle and the move pays. Called between two runs.
    #[inline]
    pub(super) fn give(&mut self) {
        if self.busy.moves
            && self.runs >= self.busy.look_at
            && self.queue.len() > 1
            && !self.home.localities().idle_set.is_empty()
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
            // Foms that may not move are found only when they are looked at.
            movable: self.queue.len(),
            service: Duration::from_nanos(self.busy.service),
            ..Load::default()
        };
        let localities = self.home.localities();
        if localities.env.is_closed() {
            // The remaining foms end at their next wait.
            return;
        }
        let idle_set = &localities.idle_set;
        let idle = idle_set.iter().map(|index| {
            let plan = &localities[index].plan;
            (index, Distance::between(&self.home.plan, plan))
        });
        let Some(to) = foms::choose_receiver(&load, idle) else {
            return;
        };
        if !idle_set.take(to) {
            return;
        }
        let wanted = foms::share(&load);
        let moved = self.hand.queue.take_every_other(wanted, LOOKED_AT * wanted);
        if moved.is_empty() {
            // Other localities may have foms for it. Here, none is found before those in the queue have run.
            idle_set.add(to);
            self.busy.look_at = self.runs + load.ready as u64;
        } else {
            // What these foms do elsewhere comes into the journal after what they did here.
            self.pause_before_others();
            self.send(to, moved);
        }
    }

    fn measure(&mut self) {
        let now = self.run_budget.now();
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
        let there = &here.localities()[to];
        let count = foms.len() as u64;
        if there.counts.sent(count, || here.env().is_closed()) {
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
        self.busy.gave = true;
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
