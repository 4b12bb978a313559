//! The arrivals: six loads for the same machine.

use super::{Nanos, dice::Dice, site::Fom};

const US: f64 = 1_000.0;

/// A submitted fom.
pub(crate) struct Arrival {
    pub(crate) at: Nanos,
    pub(crate) home: usize,
    service: Nanos,
    section: Nanos,
    pub(super) movable: bool,
    hot: bool,
}

impl Arrival {
    pub(super) fn fom(&self) -> Fom {
        Fom {
            arrived: self.at,
            service: self.service,
            section: self.section,
            movable: self.movable,
            hot: self.hot,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// One locality after the other, the default.
    Uniform,
    /// Random homes: the same mean for all, and queues that come and go.
    Random,
    /// Homes by Zipf's law: the first has twice as many as the second.
    Unbalanced,
    /// One key has 15 % of all foms, and they run one after the other at its home.
    HotKey,
    /// Bursts of 300 foms at one home, now and then.
    Bursty,
    /// Keys by Zipf's law, and foms that compute in blocking sections.
    Blocking,
}

impl Load {
    pub(crate) const ALL: [Self; 6] = [
        Self::Uniform,
        Self::Random,
        Self::Unbalanced,
        Self::HotKey,
        Self::Bursty,
        Self::Blocking,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Random => "random homes",
            Self::Unbalanced => "unbalanced",
            Self::HotKey => "hot key",
            Self::Bursty => "bursty",
            Self::Blocking => "blocking",
        }
    }

    /// Returns the arrivals in that time, in order.
    pub(crate) fn arrivals(self, sites: usize, time: Nanos, seed: u64) -> Vec<Arrival> {
        let mut dice = Dice::new(seed);
        let mut homes = Homes::new(sites, &mut dice);
        // Foms of 10 us on average; `of` is the share of all processors that they need together.
        let rate = |of: f64| of * sites as f64 / (10.0 * US);
        match self {
            Self::Uniform => stream(&mut dice, rate(0.7), time, |_| Made::at(homes.next())),
            Self::Random => stream(&mut dice, rate(0.7), time, |dice| {
                Made::at(dice.below(sites))
            }),
            Self::Unbalanced => stream(&mut dice, rate(0.5), time, |dice| {
                Made::at(homes.zipf(dice))
            }),
            Self::HotKey => {
                // The rate at which the key alone keeps its home busy for three quarters of the time.
                let rate = 0.75 / 0.15 / (10.0 * US);
                stream(&mut dice, rate, time, |dice| {
                    if dice.part() < 0.15 {
                        Made {
                            movable: false,
                            hot: true,
                            ..Made::at(sites / 3)
                        }
                    } else {
                        Made::at(homes.next())
                    }
                })
            }
            Self::Bursty => {
                let mut all = stream(&mut dice, rate(0.2), time, |_| Made::at(homes.next()));
                let mut at = 0.0;
                loop {
                    at += dice.gap(rate(0.3) / 300.0);
                    if at >= time as f64 {
                        break;
                    }
                    let made = Made::at(dice.below(sites));
                    all.extend((0..300).map(|_| made.arrival(at as Nanos, &mut dice)));
                }
                all.sort_by_key(|arrival| arrival.at);
                all
            }
            Self::Blocking => stream(&mut dice, rate(0.1), time, |dice| Made {
                service: 3.0 * US,
                section: 12.0 * US,
                movable: false,
                ..Made::at(homes.zipf(dice))
            }),
        }
    }
}

/// A fom before its times are drawn.
#[derive(Clone, Copy)]
struct Made {
    home: usize,
    service: f64,
    section: f64,
    movable: bool,
    hot: bool,
}

impl Made {
    fn at(home: usize) -> Self {
        Self {
            home,
            service: 10.0 * US,
            section: 0.0,
            movable: true,
            hot: false,
        }
    }

    /// Draws the times: between half and one and a half times the mean.
    fn arrival(self, at: Nanos, dice: &mut Dice) -> Arrival {
        let mut draw = |mean: f64| (mean * (0.5 + dice.part())) as Nanos;
        Arrival {
            at,
            home: self.home,
            service: draw(self.service),
            section: draw(self.section),
            movable: self.movable,
            hot: self.hot,
        }
    }
}

/// Draws random arrivals, `rate` in a nanosecond.
fn stream(
    dice: &mut Dice,
    rate: f64,
    time: Nanos,
    mut make: impl FnMut(&mut Dice) -> Made,
) -> Vec<Arrival> {
    let mut all = Vec::new();
    let mut at = dice.gap(rate);
    while at < time as f64 {
        let made = make(dice);
        all.push(made.arrival(at as Nanos, dice));
        at += dice.gap(rate);
    }
    all
}

/// The homes of arriving foms.
struct Homes {
    turn: usize,
    /// The localities in the order of their shares, and the sum of the shares up to each.
    order: Vec<usize>,
    sums: Vec<f64>,
}

impl Homes {
    fn new(sites: usize, dice: &mut Dice) -> Self {
        let mut order: Vec<_> = (0..sites).collect();
        for at in (1..sites).rev() {
            order.swap(at, dice.below(at + 1));
        }
        let all: f64 = (1..=sites).map(|rank| 1.0 / rank as f64).sum();
        let sums = (1..=sites).scan(0.0, |sum, rank| {
            *sum += 1.0 / rank as f64 / all;
            Some(*sum)
        });
        Self {
            turn: 0,
            sums: sums.collect(),
            order,
        }
    }

    /// Returns the localities in turn.
    fn next(&mut self) -> usize {
        self.turn += 1;
        self.turn % self.order.len()
    }

    fn zipf(&self, dice: &mut Dice) -> usize {
        let part = dice.part();
        let rank = self.sums.partition_point(|sum| *sum <= part);
        self.order[rank.min(self.order.len() - 1)]
    }
}
