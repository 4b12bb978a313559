//! The moves: the questions of the policies, and the cost of their answers here.

use fom_runtime::balance::{
    foms::{self, LINE, WAKE},
    processors,
};

use super::{Event, Nanos, Simulation, nanos};

/// The cost to ring for a sleeping thread: a write to its eventfd.
const RING: Nanos = 1_000;

/// The cost to let the threads of a locality run on one processor more or less.
const REBIND: Nanos = 10_000;

impl Simulation {
    /// Gives foms to an idle locality, if that pays.
    pub(super) fn give(&mut self, giver: usize) -> bool {
        let load = self.sites[giver].load(self.now);
        let idle = self.sites.iter().zip(&self.distances[giver]).enumerate();
        let idle = idle
            .filter(|(_, (site, _))| site.hungry)
            .map(|(index, (_, distance))| (index, *distance));
        let Some(to) = foms::choose_receiver(&load, idle) else {
            return false;
        };
        let line = nanos(LINE) * Nanos::from(self.distances[giver][to].factor());
        let mut foms = self.sites[giver].take_every_other(foms::share(&load));
        for fom in &mut foms {
            // The fom's data has to move with it.
            fom.service += 4 * line;
        }
        self.outcome.moved(foms.len());
        let busy = RING + 2 * line * foms.len() as Nanos;
        self.sites[to].hungry = false;
        self.sites[giver].begin_move(self.now, busy);
        self.events
            .at(self.now + busy + nanos(WAKE), Event::Deliver { to, foms });
        true
    }

    /// Lets a locality borrow a processor if it gets too little of its own.
    pub(super) fn look(&mut self) {
        for index in 0..self.sites.len() {
            self.sites[index].look(self.now);
        }
        for lender in 0..self.sites.len() {
            if let Some(borrower) = self.sites[lender].lent_to
                && processors::gives_back(
                    &self.sites[borrower].load(self.now),
                    &self.sites[lender].load(self.now),
                )
            {
                self.given_back(lender);
            }
        }
        for borrower in 0..self.sites.len() {
            let others = self.sites.iter().enumerate();
            let others = others
                .filter(|(_, site)| site.lent_to.is_none())
                .map(|(index, site)| {
                    let distance = self.distances[borrower][index];
                    (index, site.load(self.now), distance)
                });
            let lender = processors::choose_lender(&self.sites[borrower].load(self.now), others);
            if let Some(lender) = lender {
                self.outcome.lent();
                self.sites[lender].own = 0.0;
                self.sites[lender].lent_to = Some(borrower);
                let site = &mut self.sites[borrower];
                site.borrowed += 1.0;
                site.loans += 1;
                self.schedule(borrower);
            }
        }
    }

    /// Takes a lent processor back. Both localities run on it until the borrower's threads have left it.
    pub(super) fn take_back(&mut self, lender: usize) {
        let Some(borrower) = self.sites[lender].lent_to else {
            return;
        };
        self.sites[lender].own = 0.5;
        let site = &mut self.sites[borrower];
        site.advance(self.now);
        site.borrowed -= 0.5;
        self.schedule(borrower);
        self.events.at(self.now + REBIND, Event::Back { lender });
    }

    pub(super) fn given_back(&mut self, lender: usize) {
        let Some(borrower) = self.sites[lender].lent_to.take() else {
            return;
        };
        let now = self.now;
        let site = &mut self.sites[lender];
        site.advance(now);
        let lent = 1.0 - site.own;
        site.own = 1.0;
        self.schedule(lender);
        let site = &mut self.sites[borrower];
        site.advance(now);
        site.borrowed -= lent;
        site.loans -= 1;
        self.schedule(borrower);
    }
}
