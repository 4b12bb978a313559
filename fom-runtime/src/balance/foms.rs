//! When an idle locality is given foms, by whom, and how many.
//!
//! *Who gives.* A locality that has run out of work lets that be known, and sleeps. Whoever has a queue that is long enough
//! serves the nearest of those, between two runs of its own ([`whom_to_serve`]). Nobody asks, so nobody is asked in vain.
//! (That the idle one asks the one with the longest queue first makes no difference in the simulation: 3 % of the longest
//! waits, one way or the other. Whoever was served serves the next.)
//!
//! *When it pays.* For the giver it is a few cache lines for each fom, for the taker being woken and fetching what the
//! fom needs. What is gained is that half of the queue need not wait for the other half. [`pays`] wants the gain to be
//! twice the cost.
//!
//! *Why nothing goes to and fro.* Only who has nothing is given something, and it is never more than half: the giver is
//! left with as much. To have it back it would have to be idle itself while the taker has a queue that is long enough, and
//! then it gets half of the half.

use std::time::Duration;

use super::{Distance, Load};

/// One cache line on its way between two processors that share their last-level cache. Measured: 15 ns on a quiet
/// machine, 75 ns on a busy one, and it is a busy one that is to be balanced.
pub const LINE: Duration = Duration::from_nanos(75);

/// From a write of one thread until another one that slept on another processor runs. Measured: 15 to 25 us.
pub const WAKE: Duration = Duration::from_micros(25);

/// Cache lines that a fom brings along: two that the giver writes and the taker reads, two of its operation's data.
const LINES: u32 = 4;

/// How much more than it costs a move has to bring.
const MARGIN: u32 = 2;

/// Foms in one move, at most: the giver's own have to wait meanwhile.
const MOST: usize = 256;

/// How many foms a locality with this load gives away at a time: half of its queue, so that both have the same
/// afterwards, or as many as may be moved. Every other one is taken, so that neither half waits for the other.
#[must_use]
pub fn share(load: &Load) -> usize {
    (load.ready / 2).min(load.movable).min(MOST)
}

/// What moving so many foms costs.
#[must_use]
pub fn cost(foms: usize, distance: Distance) -> Duration {
    let foms = u32::try_from(foms).unwrap_or(u32::MAX);
    WAKE.saturating_add((LINE * LINES * distance.factor()).saturating_mul(foms))
}

/// Whether a locality with this load has something to give to an idle one at that distance.
#[must_use]
pub fn pays(load: &Load, distance: Distance) -> bool {
    let foms = share(load);
    let gained = load
        .service
        .saturating_mul(u32::try_from(foms).unwrap_or(u32::MAX));
    distance != Distance::None && gained >= cost(foms, distance) * MARGIN
}

/// Which of the idle localities one with this load serves: the nearest, if that pays.
#[must_use]
pub fn whom_to_serve(
    load: &Load,
    idle: impl IntoIterator<Item = (usize, Distance)>,
) -> Option<usize> {
    // What does not pay near by does not pay far away.
    if !pays(load, Distance::Cache) {
        return None;
    }
    idle.into_iter()
        .filter(|(_, distance)| pays(load, *distance))
        .min_by_key(|(_, distance)| *distance)
        .map(|(locality, _)| locality)
}
