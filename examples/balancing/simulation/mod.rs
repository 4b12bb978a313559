//! A simulated machine: its localities, the arrivals at them, and the moves that the library's policies decide.
//!
//! A discrete-event simulation on one time line of nanoseconds. It knows run queues, handlers, blocking sections that
//! compute, and the cost of moves. The threads that are bound to a processor share it evenly. The simulation asks
//! `fom_runtime::balance` the same questions as a runtime. The same seed gives the same run.

mod dice;
mod events;
pub(crate) mod loads;
mod moves;
mod outcome;
mod site;

use std::time::Duration;

use fom_runtime::{
    balance::{Balance, Distance, foms::WAKE, processors::LOOK},
    topology::{Machine, PlanOptions, plan},
};

use events::{Event, Events};
use loads::Arrival;
pub(crate) use outcome::{Outcome, percentile};
use site::{Next, Site};

/// A time or a duration, in nanoseconds.
pub(crate) type Nanos = u64;

fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}

pub(crate) struct Simulation {
    balance: Balance,
    now: Nanos,
    sites: Vec<Site>,
    distances: Vec<Vec<Distance>>,
    events: Events,
    outcome: Outcome,
    /// The foms that have not ended.
    left: usize,
}

impl Simulation {
    pub(crate) fn new(machine: &Machine, balance: Balance) -> Self {
        let plans = plan(machine, &PlanOptions::default());
        let distances = plans
            .iter()
            .map(|one| {
                let to = |other| Distance::between(one, other);
                plans.iter().map(to).collect()
            })
            .collect();
        Self {
            balance,
            now: 0,
            sites: plans.iter().map(|_| Site::default()).collect(),
            distances,
            events: Events::default(),
            outcome: Outcome::default(),
            left: 0,
        }
    }

    /// Runs until all arrivals have ended. Foms that end by `until` count for the throughput.
    pub(crate) fn run(mut self, arrivals: &[Arrival], until: Nanos) -> Outcome {
        self.left = arrivals.len();
        if self.balance.moves_processors() {
            self.events.at(nanos(LOOK), Event::Look);
        }
        let mut arrivals = arrivals.iter().peekable();
        while self.left > 0 {
            let arrival =
                arrivals.next_if(|arrival| self.events.next_at().is_none_or(|at| arrival.at <= at));
            if let Some(arrival) = arrival {
                self.now = arrival.at;
                self.arrive(arrival);
            } else if let Some((at, event)) = self.events.pop() {
                self.now = at;
                self.happen(event, until);
            }
        }
        self.outcome.finish(until)
    }

    fn arrive(&mut self, arrival: &Arrival) {
        let site = &mut self.sites[arrival.home];
        site.queue.push_back(arrival.fom());
        site.movable += usize::from(arrival.movable);
        self.outcome.queue(site.queue.len());
        self.rouse(arrival.home);
    }

    /// Wakes the handler if it sleeps.
    fn rouse(&mut self, index: usize) {
        let site = &mut self.sites[index];
        if site.idle_since.take().is_some() {
            site.advance(self.now);
            site.hungry = false;
            self.events
                .at(self.now + nanos(WAKE), Event::Awake { site: index });
            self.take_back(index);
        }
    }

    fn happen(&mut self, event: Event, until: Nanos) {
        match event {
            Event::Awake { site } => {
                self.sites[site].advance(self.now);
                self.go_on(site);
            }
            Event::Finish { site, version } if version == self.sites[site].version => {
                self.finish(site, until);
            }
            Event::Finish { .. } => {}
            Event::Deliver { to, foms } => {
                let site = &mut self.sites[to];
                site.movable += foms.len();
                site.queue.extend(foms);
                self.outcome.queue(site.queue.len());
                // The time of the move includes the time to wake the handler.
                if site.idle_since.take().is_some() {
                    site.advance(self.now);
                    self.take_back(to);
                    self.go_on(to);
                }
            }
            Event::Back { lender } => self.given_back(lender),
            Event::Look => {
                self.look();
                self.events.at(self.now + nanos(LOOK), Event::Look);
            }
        }
    }

    /// Handles the end of work at a site: a run of a fom, a blocking section, or a move.
    fn finish(&mut self, index: usize, until: Nanos) {
        let now = self.now;
        let site = &mut self.sites[index];
        site.advance(now);
        let (ended, next) = site.take_finished(now);
        self.left -= ended;
        self.outcome.ended(ended, now <= until);
        if next {
            self.go_on(index);
        } else {
            self.schedule(index);
        }
    }

    /// Finds the next work for the free handler.
    fn go_on(&mut self, index: usize) {
        if self.balance.moves_foms() && self.give(index) {
            return self.schedule(index);
        }
        match self.sites[index].begin_next(self.now) {
            Next::Runs { waited, hot } => self.outcome.waited(waited, hot),
            Next::Idle => {
                let site = &mut self.sites[index];
                site.idle_since = Some(self.now);
                site.hungry = true;
            }
        }
        self.schedule(index);
    }

    /// Schedules the next end of work at this site, with its present processors.
    fn schedule(&mut self, index: usize) {
        let site = &mut self.sites[index];
        site.version += 1;
        if let Some(left) = site.next_finish() {
            let version = site.version;
            self.events.at(
                self.now + left,
                Event::Finish {
                    site: index,
                    version,
                },
            );
        }
    }
}
