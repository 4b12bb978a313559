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
//! # Crashes
//!
//! A [`Node`] is killed as by `kill -9`, and starts again. A [`Disk`] keeps what was synced. [`Node::call`] asks a node as over a
//! network. A [`Process`] is a node that runs a program of its own. [`Sim::during`] draws faults: see [`Chaos`].
//!
//! ```standalone_crate
//! use fom_durable::prelude::*;
//! use fom_sim as sim;
//! use serde::{Deserialize, Serialize};
//! use std::time::Duration;
//!
//! sim::interpose!();
//!
//! #[derive(Serialize, Deserialize)]
//! struct Order;
//!
//! #[fom(operation(Order))]
//! enum Selling {
//!     #[phase(start, to(Sent))]
//!     Pack,
//!     #[phase(end)]
//!     Sent,
//! }
//!
//! impl SellingTransitions for Order {
//!     async fn pack(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
//!         cx.sleep(Duration::from_secs(3600)).await;
//!         Ok(())
//!     }
//! }
//!
//! # fn main() {
//! sim::explore(0..100, |sim| {
//!     let disk = sim.disk();
//!     let shop = sim.node("shop", move || {
//!         Runtime::builder().localities(2).journal_with(disk.journal())
//!     });
//!     sim.during(|chaos| chaos.kill("shop", 2).lose());
//!     let client = shop.clone();
//!     sim.spawn(async move {
//!         // The shop was killed, or a message was lost: the client asks again.
//!         let ask = || client.call(async |runtime| runtime.submit(Order).once(7).await);
//!         while ask().await.is_err() {}
//!     });
//!     sim.settle(Duration::from_secs(86_400));
//!     assert_eq!(shop.runtime().in_flight(), 0);
//! });
//! # }
//! ```
//!
//! # A program as it is
//!
//! A runtime that the program builds by itself takes part, too, if a thread of the simulation builds it. It is no node: it
//! cannot be killed, and [`Sim::settle`] waits only for the tasks that use it.
//!
//! # Locks
//!
//! With the feature `locks`, a thread may also lose its turn where fom takes a lock. So the simulation finds races between two steps
//! of fom with only a lock between them: fom runs its own models in this way, beside shuttle (`tests/models`). A run has many
//! more choices then. Code that holds a lock of `std` while it calls fom may block its simulation for ever.
//!
//! # What it can promise
//!
//! The same binary with the same choices does the same in each process, as long as the number of localities is set, and the phases
//! use the API of fom, `tokio::sync`, [`draw`] and clocks. [`interpose`] makes the order of a `HashMap`, `Instant::now` and
//! `SystemTime::now` equal, too.
//!
//! # What it cannot see
//!
//! - *Data races inside a phase.* Between two switches a thread runs undisturbed.
//! - *Sockets, files of tokio, `spawn_blocking` and threads of your own.* With [`interpose`], the run fails and names the phase that
//!   uses them. Timers of tokio do not fire.
//! - *Journals in files.* A [`Disk`] behaves as the trait [`Journal`](fom_journal::Journal) says: it keeps some first groups of a
//!   commit that was under way. What a file system does to a file is for the tests of `fom-journal`.
//! - *The time of blocking sections.* A section takes no time unless it sleeps.

mod baton;
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

pub use chaos::Chaos;
pub use disk::Disk;
pub use explore::{Explored, explore, explore_all, explore_isolated};
pub use node::{Lost, Node, Process};
pub use sim::{Sim, draw, message, sleep};

/// What [`interpose`] uses.
#[doc(hidden)]
pub mod interposed {
    #[cfg(target_os = "linux")]
    pub use libc;

    pub use crate::interpose::{may, may_spawn, now, random, sleeps};
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
