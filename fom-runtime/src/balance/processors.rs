//! When a locality may also run on the processors of another one, and until when.
//!
//! A locality is *starved* if its handler has work but gets less than three quarters of a processor. Blocking sections
//! of its own may compute beside it, another locality may have the same processors, or another process may use the
//! machine. A starved locality borrows the processors of the nearest locality that has been idle for a while.
//!
//! *Why nothing goes to and fro.* A lender has been idle for [`IDLE`] before it lends, and it lends to one locality at
//! a time. It gets its processors back as soon as it has work, and must then be idle for as long again. The borrower
//! keeps them until then, or until it has itself been idle for [`IDLE`].

use std::time::Duration;

use super::{Distance, Load};

/// How long a locality must be idle before its processors are lent, or before it gives back borrowed processors. A loan
/// costs a system call per thread, and a cold cache for the threads that move. Together that is about 10 us, at most one
/// percent of this time.
pub const IDLE: Duration = Duration::from_millis(1);

/// How often a locality checks its share of a processor.
pub const LOOK: Duration = Duration::from_millis(1);

/// The share of a processor below which a handler is starved. A handler that competes with a single other thread gets
/// half. What the system itself takes now and then is far less than a quarter.
const STARVED: f64 = 0.75;

/// Maximum number of localities to borrow from at a time.
const MOST: usize = 8;

/// Returns whether a locality with this load gets too little of its processors.
#[must_use]
pub fn is_starved(load: &Load) -> bool {
    load.idle.is_none() && load.share < STARVED
}

/// Returns the locality from which one with this load borrows. Of those that have not lent their processors, it is the
/// nearest that has been idle for long enough.
#[must_use]
pub fn choose_lender(
    load: &Load,
    others: impl IntoIterator<Item = (usize, Load, Distance)>,
) -> Option<usize> {
    if !is_starved(load) || load.borrowed >= MOST {
        return None;
    }
    others
        .into_iter()
        .filter(|(_, other, distance)| {
            // A locality that has itself borrowed is not idle for long.
            *distance != Distance::None
                && other.borrowed == 0
                && other.idle.is_some_and(|idle| idle >= IDLE)
        })
        .min_by_key(|(.., distance)| *distance)
        .map(|(locality, ..)| locality)
}

/// Returns whether a loan is over.
#[must_use]
pub fn gives_back(borrower: &Load, lender: &Load) -> bool {
    lender.idle.is_none() || borrower.idle.is_some_and(|idle| idle >= IDLE)
}
