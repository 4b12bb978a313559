//! The lock-free parts of `fom-runtime`, and the switch between the real primitives and those of the model checkers.
//! Each part is alone in a file with the argument for its correctness.
//!
//! The package is internal: it promises no stable API. Use `fom-runtime`.
//!
//! The parts know nothing of foms or localities, and import only [`sync`]; [`FreeList`] also imports [`Link`]. Loom
//! checks each part (`tests/loom`), and shuttle checks whole runtimes (`tests/shuttle` of the other packages).
//!
//! | part | what it holds |
//! | --- | --- |
//! | [`StateCell`] | the state of a fom, and its wakes |
//! | [`OutcomeBits`] | which thread owns the outcome of a fom |
//! | [`Inbox`] | the items that other threads hand to a locality |
//! | [`HandoffSlot`] | the core of a locality while its handler blocks |
//! | [`reply()`] | the answer to one request |
//! | [`Watched`] | the blocking section that a thread watches |
//! | [`FreeList`] | the slots that other threads return to their pool |
//! | [`InFlight`] | how many foms a locality has |
//! | [`LazyBox`] | the state beside a fom that few foms have |
//! | [`TraceRing`] | the last entries of a locality's flight recorder |
//!
//! [`schedule`] is the seam for `fom-sim`, in which threads take turns.
//!
//! `fom-runtime`, `fom-durable` and `fom-patterns` also use [`caught`], [`panic_message`], [`nanos`] and [`shrink`].

mod blocks;
mod free_list;
mod handoff_slot;
mod in_flight;
mod inbox;
mod lazy_box;
mod outcome_bits;
mod panic;
mod reply;
#[cfg(not(any(fom_loom, fom_shuttle)))]
pub mod schedule;
pub mod shrink;
mod state;
pub mod sync;
mod time;
mod trace_ring;
mod watched;

pub use free_list::{FreeList, Returned};
pub use handoff_slot::HandoffSlot;
pub use in_flight::{InFlight, Waiters, all_idle, count};
pub use inbox::{Drain, Inbox, Link, Linked, Reader};
pub use lazy_box::LazyBox;
pub use outcome_bits::{Answered, Detached, OutcomeBits, Taken};
pub use panic::{caught, panic_message};
pub use reply::{Owner, ReplyReceiver, ReplySender, reply};
pub use state::{Cancelled, FomState, StateCell, Stopped};
pub use time::nanos;
pub use trace_ring::{ENTRY, TraceRing, Traced};
pub use watched::Watched;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
