//! The lock-free pieces, each alone in a file and checked by loom (`tests/loom`).
//!
//! They know nothing of foms or localities. An [`Inbox`] holds any type with a [`Link`], a [`Token`] counts wakes,
//! and a [`Slot`] holds one box.

#![allow(
    unreachable_pub,
    reason = "public under `fom_loom`, for the models in tests/loom"
)]

mod counts;
mod inbox;
mod marks;
mod returns;
mod slot;
mod token;
mod watched;

pub use counts::{Counts, Waiters, all_idle, count};
pub use inbox::{Inbox, Link, Linked, Reader};
pub use marks::{Detached, Marks, Taken};
pub use returns::{Returned, Returns};
pub use slot::Slot;
pub use token::{Cancelled, FomState, Stopped, Token};
pub use watched::Watched;
