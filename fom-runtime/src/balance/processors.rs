//! When a locality may run on the processors of another one, too, and until when.
//!
//! A locality is *starved* when its handler has work and gets less than three quarters of a processor: because blocking
//! sections of its own compute beside it, because another locality has the same processors, or because of somebody else
//! on the machine. Then it borrows those of the nearest locality that has been idle for a while.
//!
//! *Why nothing goes to and fro.* A lender has been idle for [`IDLE`] before it lends, and lends to one at a time; it
//! has its processors back as soon as it has work, and then it has to be idle for as long again. The borrower keeps them
//! until then, or until it has been idle for [`IDLE`] itself.

use std::time::Duration;

use super::{Distance, Load};

/// How long a locality has to have been idle before its processors are lent, and one that borrowed some before it gives
/// them back. A loan is a system call for each thread and a cold cache for those that move, together some 10 us: no more
/// than one part in a hundred of this.
pub const IDLE: Duration = Duration::from_millis(1);

/// How often a locality looks at the share that it gets.
pub const LOOK: Duration = Duration::from_millis(1);

/// A handler that has less than this share of a processor is starved. One that competes with a single other thread gets
/// half; what the system itself takes now and then is far less than a quarter.
const STARVED: f64 = 0.75;

/// Localities that one may borrow from at a time.
const MOST: usize = 8;

/// Whether a locality with this load gets too little of its processors.
#[must_use]
pub fn is_starved(load: &Load) -> bool {
    load.idle.is_none() && load.share < STARVED
}

/// Whose processors a locality with this load borrows, of those that have lent theirs to nobody: the nearest that has been
/// idle for long enough.
#[must_use]
pub fn whom_to_borrow_from(
    load: &Load,
    others: impl IntoIterator<Item = (usize, Load, Distance)>,
) -> Option<usize> {
    if !is_starved(load) || load.borrowed >= MOST {
        return None;
    }
    others
        .into_iter()
        .filter(|(_, other, distance)| {
            // One that has borrowed itself is not idle for long.
            *distance != Distance::None
                && other.borrowed == 0
                && other.idle.is_some_and(|idle| idle >= IDLE)
        })
        .min_by_key(|(.., distance)| *distance)
        .map(|(locality, ..)| locality)
}

/// Whether a loan is over.
#[must_use]
pub fn gives_back(borrower: &Load, lender: &Load) -> bool {
    lender.idle.is_none() || borrower.idle.is_some_and(|idle| idle >= IDLE)
}
