//! When an idle locality gets foms, which locality gives them, and how many.
//!
//! *Which locality gives.* A locality that runs out of work makes that known and sleeps. A locality with a long enough
//! queue serves the nearest idle one, between two of its own runs ([`choose_receiver`]). No locality asks for foms, so
//! none is asked in vain. (In the simulation, an idle locality that first asks the longest queue changes the longest
//! waits by 3 %, one way or the other. A locality that was served serves the next.)
//!
//! *When it pays.* The giver pays a few cache lines per fom. The taker pays for being woken, and for fetching what the
//! fom needs. The gain is that half of the queue need not wait for the other half. [`pays`] requires a gain of at least
//! twice the cost.
//!
//! *Why nothing goes to and fro.* Only a locality with nothing to do gets foms, and never more than half: the giver
//! keeps as many. To get foms back, the giver must itself be idle while the taker has a long enough queue. It then gets
//! half of that half.

use std::time::Duration;

use super::{Distance, Load};

/// The time that a cache line takes between two processors that share their last-level cache. Measured: 15 ns on a
/// quiet machine, 75 ns on a busy one. Balancing happens on a busy one.
pub const LINE: Duration = Duration::from_nanos(75);

/// The time from a write of one thread until another thread, which slept on another processor, runs. Measured: 15 to 25
/// us.
pub const WAKE: Duration = Duration::from_micros(25);

/// Cache lines that a fom brings along: two that the giver writes and the taker reads, and two of its operation's data.
const LINES: u32 = 4;

/// The least ratio of gain to cost at which a move pays.
const MARGIN: u32 = 2;

/// Maximum number of foms in one move. The giver's own foms wait meanwhile.
const MOST: usize = 256;

/// Returns how many foms a locality with this load gives away at a time. That is half of its queue, so that both have
/// equally many afterwards, but no more than may be moved. Every other fom is taken, so neither half waits for the
/// other.
#[must_use]
pub fn share(load: &Load) -> usize {
    (load.ready / 2).min(load.movable).min(MOST)
}

/// Returns the cost of moving this many foms.
#[must_use]
pub fn cost(foms: usize, distance: Distance) -> Duration {
    let foms = u32::try_from(foms).unwrap_or(u32::MAX);
    WAKE.saturating_add((LINE * LINES * distance.factor()).saturating_mul(foms))
}

/// Returns whether a move from a locality with this load to an idle one at that distance pays.
#[must_use]
pub fn pays(load: &Load, distance: Distance) -> bool {
    let foms = share(load);
    let gained = load
        .service
        .saturating_mul(u32::try_from(foms).unwrap_or(u32::MAX));
    distance != Distance::None && gained >= cost(foms, distance) * MARGIN
}

/// Returns the idle locality that one with this load serves: the nearest, if that pays.
#[must_use]
pub fn choose_receiver(
    load: &Load,
    idle: impl IntoIterator<Item = (usize, Distance)>,
) -> Option<usize> {
    // A move that does not pay nearby does not pay far away.
    if !pays(load, Distance::Cache) {
        return None;
    }
    idle.into_iter()
        .filter(|(_, distance)| pays(load, *distance))
        .min_by_key(|(_, distance)| *distance)
        .map(|(locality, _)| locality)
}
