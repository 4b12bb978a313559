//! Runs programs of [`fom_runtime`] under one seed.
//!
//! A test runs a program of operations in a simulation: localities, timers, events and blocking sections. Real threads take
//! turns, and a seed draws which of them runs next: before each run of a fom, at each transition, and wherever a thread would
//! block. Time is virtual, so a deadline of 30 days costs nothing. A failure is made plainer, told as a timeline, and repeated
//! by its seed. FoundationDB and TigerBeetle test themselves in this way.
//!
//! ```should_panic,standalone_crate
//! use std::sync::{Arc, atomic::{AtomicI32, Ordering}};
//! use fom_runtime::prelude::*;
//! use fom_sim as sim;
//!
//! sim::interpose!();
//!
//! /// Takes the last item, if there is one.
//! struct Buy(Arc<AtomicI32>);
//!
//! #[fom(operation(Buy), transient)]
//! enum Buying {
//!     #[phase(start, sync, to(Take, SoldOut))]
//!     Check,
//!     #[phase(sync, to(Sold))]
//!     Take,
//!     #[phase(end)]
//!     Sold,
//!     #[phase(end)]
//!     SoldOut,
//! }
//!
//! impl BuyingTransitions for Buy {
//!     fn check(&mut self, _: &mut Cx<'_>) -> Result<BuyingAfterCheck, BoxError> {
//!         Ok(match self.0.load(Ordering::Relaxed) {
//!             1.. => BuyingAfterCheck::Take,
//!             _ => BuyingAfterCheck::SoldOut,
//!         })
//!     }
//!
//!     // Another buyer may have taken it between the two phases.
//!     fn take(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
//!         self.0.fetch_sub(1, Ordering::Relaxed);
//!         Ok(())
//!     }
//! }
//!
//! # fn main() {
//! sim::explore(0..1000, |sim| {
//!     let items = Arc::new(AtomicI32::new(1));
//!     let shop = sim.node("shop", || Runtime::builder().localities(2)).runtime();
//!     let left = Arc::clone(&items);
//!     sim.always(move || assert!(left.load(Ordering::Relaxed) >= 0, "sold twice"));
//!     for _ in 0..3 {
//!         shop.submit(Buy(Arc::clone(&items))).detach().expect("the shop is open");
//!     }
//!     sim.settle(std::time::Duration::from_secs(60));
//! });
//! # }
//! ```
//!
//! # What it can promise
//!
//! The same binary with the same choices does the same in each process, as long as the number of localities is set, and the phases
//! use the API of fom, `tokio::sync`, [`Sim::draw`] and the time of the runtime's clock. [`interpose`] makes the order of a
//! `HashMap` equal, too.
//!
//! # What it cannot see
//!
//! - *Data races inside a phase.* Between two switches a thread runs undisturbed.
//! - *Real sockets, files of tokio, `spawn_blocking`, tokio's timers and threads of your own.* They run outside of the
//!   simulation, and its runs then differ or stop.
//! - *Crashes, journals in files and networks.* A journal in memory takes part. For crashes, `fom_durable::testing` has tests.

mod baton;
mod call;
mod chaos;
mod choices;
mod disk;
mod explore;
mod interpose;
mod node;
mod report;
mod run;
mod sim;
mod timeline;
mod world;

pub use call::Lost;
pub use chaos::Chaos;
pub use disk::Disk;
pub use explore::{Explored, explore, explore_all};
pub use node::Node;
pub use sim::{Sim, draw, sleep};

/// What [`interpose`] uses.
#[doc(hidden)]
pub mod __interpose {
    #[cfg(target_os = "linux")]
    pub use libc;

    pub use crate::interpose::{may, may_spawn, now};
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
