//! The lock-free pieces, each alone in a file and checked by loom (`tests/loom.rs`).
//!
//! They know nothing of foms or localities: an [`Inbox`] holds whatever has a [`Link`], a [`Token`] counts wakes, a
//! [`Slot`] holds one box.

#![allow(
    unreachable_pub,
    reason = "public under `fom_loom`, for the models in tests/loom.rs"
)]

mod inbox;
mod marks;
mod returns;
mod slot;
mod token;

pub use inbox::{Inbox, Link, Linked, Reader};
pub use marks::{Answered, Detached, Marks, Taken};
pub use returns::{Returned, Returns};
pub use slot::Slot;
pub use token::{Cancelled, FomState, Stopped, Token};
