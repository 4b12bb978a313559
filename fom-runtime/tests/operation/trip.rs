//! The machine that several tests use: every kind of phase, and every kind of edge.

use std::collections::VecDeque;

use fom_runtime::prelude::*;

use crate::kit::Log;

/// One operation with every kind of phase. `way` names the exits that it takes; another word is an error.
pub(crate) struct Trip {
    pub(crate) way: VecDeque<&'static str>,
    pub(crate) log: Log,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Oops(pub(crate) &'static str);

/// From home to there.
#[fom(operation(Trip), error(Oops), transient)]
pub(crate) enum Leg {
    #[phase(start, to(Walk, Ride, Lost), sync)]
    Home,
    #[phase(to(Walk, Ride, There))]
    Walk { steps: u32 },
    #[phase(to(Walk, There, Lost), blocking)]
    Ride { bus: u32 },
    #[phase(end)]
    There { by: &'static str },
    #[phase(end, failure)]
    Lost,
}

impl Trip {
    pub(crate) fn new(way: &[&'static str]) -> Self {
        Self {
            way: way.iter().copied().collect(),
            log: Log::default(),
        }
    }

    fn next(&mut self) -> &'static str {
        self.way.pop_front().unwrap_or("nowhere")
    }
}

impl LegTransitions for Trip {
    fn home(&mut self, _: &mut Cx<'_>) -> Result<LegAfterHome, Oops> {
        self.log.put("home");
        match self.next() {
            "Walk" => Ok(LegAfterHome::Walk { steps: 1 }),
            "Ride" => Ok(LegAfterHome::Ride { bus: 7 }),
            "Lost" => Ok(LegAfterHome::Lost),
            word => Err(Oops(word)),
        }
    }

    async fn walk(&mut self, _: &mut Cx<'_>, steps: &mut u32) -> Result<LegAfterWalk, Oops> {
        self.log.put(format_args!("walk {steps}"));
        match self.next() {
            "Walk" => Ok(LegAfterWalk::Walk { steps: *steps + 1 }),
            "Ride" => Ok(LegAfterWalk::Ride { bus: 9 }),
            "There" => Ok(LegAfterWalk::There { by: "foot" }),
            word => Err(Oops(word)),
        }
    }

    fn ride(&mut self, _: &mut BlockingCx<'_>, bus: &mut u32) -> Result<LegAfterRide, Oops> {
        self.log.put(format_args!("ride {bus}"));
        match self.next() {
            "Walk" => Ok(LegAfterRide::Walk { steps: 100 }),
            "There" => Ok(LegAfterRide::There { by: "bus" }),
            "Lost" => Ok(LegAfterRide::Lost),
            word => Err(Oops(word)),
        }
    }
}

/// Ways that together take every edge.
pub(crate) const WAYS: &[&[&str]] = &[
    &["Walk", "Walk", "Ride", "Walk", "There"],
    &["Ride", "There"],
    &["Ride", "Lost"],
    &["Lost"],
];
