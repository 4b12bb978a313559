//! Warnings about what goes wrong in a running program: foms that hang, runs that take too long, blocking that was not
//! announced, wake storms, starvation, queues that only grow, missed deadlines, wait cycles, operations in quarantine,
//! and a journal that falls behind. A warning names the operation type, the phase and the foms, what the foms have in common, and what to do.
//!
//! [`WatchExt::watch`] adds a watcher to a [`Builder`]. [`Warned::warnings`] lists what is wrong.
//!
//! ```
//! use std::time::Duration;
//! use fom_runtime::{prelude::*, time::TestClock};
//! use fom_watch::{Warned, Watch, WatchExt};
//!
//! struct Order;
//!
//! enum Word {
//!     Paid,
//! }
//!
//! #[fom(operation(Order), event(Word), transient)]
//! enum Ordering {
//!     /// Nothing hears that the customer has paid.
//!     #[phase(start, on(Paid), to(Done), hung = "5m")]
//!     Pay,
//!     #[phase(end)]
//!     Done,
//! }
//!
//! impl OrderingTransitions for Order {
//!     async fn pay(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
//!         let Word::Paid = cx.event().await;
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<(), BoxError> {
//! // A test moves the clock. Without this line, the watcher looks each second.
//! let clock = TestClock::new();
//! let runtime = Runtime::builder().clock(&clock).watch(Watch::default()).build()?;
//! let order = runtime.submit(Order).start()?;
//! fom_runtime::extension::block_on(runtime.quiet());
//! clock.advance(Duration::from_secs(301));
//!
//! let found = runtime.inspect().warnings();
//! println!("{found}");
//! assert_eq!(found.warnings[0].phase.as_deref(), Some("Pay"));
//! assert_eq!(found.warnings[0].ids, [order.id()]);
//! # order.send(Word::Paid)?;
//! # order.wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where a warning appears
//!
//! In the listing [`Warned::warnings`], in the closure of [`Watch::on_warning`], and as an
//! [incident](fom_runtime::observe::Operations::incidents). With the feature `tracing`, a warning that is told is also an event of the crate
//! `tracing`, with the target `fom_watch::event`.
//!
//! # What it costs
//!
//! A program that does not call `watch` pays nothing. With it, the runtime [counts](Builder::observe), which costs a
//! transition a few nanoseconds. The watcher has one thread, which belongs to no locality. So it also works while all
//! localities spin or sleep. It asks no locality, and stops no fom.

mod board;
mod checks;
#[cfg(feature = "tracing")]
mod event;
mod settings;
mod sight;
mod threads;
mod warning;
mod watcher;

use fom_runtime::{Builder, observe::Inspect};

pub use settings::Watch;
pub use warning::{Level, Warning, WarningKind, Warnings};

use watcher::Watcher;

/// Adds a watcher to a [`Builder`].
pub trait WatchExt {
    /// Watches the runtime. The runtime also [counts](Builder::observe). A second call replaces nothing: the first
    /// settings stay.
    fn watch(self, watch: Watch) -> Self;
}

impl WatchExt for Builder {
    fn watch(self, watch: Watch) -> Self {
        self.observe()
            .after_build(move |runtime| watcher::begin(runtime, watch))
    }
}

/// Lists the warnings of a runtime, in its view [`Inspect`].
pub trait Warned {
    /// Returns what is wrong now, and what was. If it is time for a look, this call looks first, so a listing is never
    /// older than [`Watch::every`]. It can block for some time, as [`Inspect::parts`] can.
    fn warnings(&self) -> Warnings;
}

impl Warned for Inspect<'_> {
    fn warnings(&self) -> Warnings {
        let runtime = self.runtime();
        let watcher = runtime.extension().attachment::<Watcher>();
        watcher.warnings(runtime)
    }
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
