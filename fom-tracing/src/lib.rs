//! Spans of the crate `tracing` for foms.
//!
//! Each operation has a span `operation`, and each visit of a phase a span `phase` inside. The fom enters both at each run
//! and leaves them at each wait, on the thread that runs it.
//!
//! ```
//! use fom_runtime::prelude::*;
//! use fom_tracing::{Tracing, TracingExt};
//!
//! struct Order;
//!
//! #[fom(operation(Order), transient)]
//! enum Ordering {
//!     #[phase(start, to(Paid))]
//!     Charge,
//!     #[phase(end)]
//!     Paid,
//! }
//!
//! impl OrderingTransitions for Order {
//!     async fn charge(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
//!         // In the spans `operation{id=1 key=7 type=Order}` and `phase{phase=Charge attempt=0 locality=0}`.
//!         tracing::info!("it is paid");
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<(), BoxError> {
//! let runtime = Runtime::builder().tracing(Tracing::default()).build()?;
//! runtime.submit(Order).key(7).wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! | span | fields |
//! | --- | --- |
//! | `operation` | `id`, `key` and `type` of the fom; `submitter`, the id of the fom that submitted it; `outcome`, the end phase or the cause of the failure, such as `late` |
//! | `phase` | `phase`, its name; `attempt`, the number of failed attempts; `locality`, the locality that ran it first |
//! | `run`, with [`Tracing::runs`] | `number` of the run of the fom; `locality`, the locality that runs it |
//!
//! # Parents
//!
//! The span of an operation begins at its submission, and is a child of the span that the submitting thread is in. In a fom
//! this is the span of its phase, so a child operation is below its parent: through `cx.submit`, in a team, as a call of a
//! service, through an admission or an outbox. Outside a fom it is the span of the caller, such as that of a request. An
//! operation of a keyed stream has no parent.
//!
//! A span ends with its process. After a restart, an operation in a journal has a new span, with the same fields. Then
//! `submitter` says which fom is above it. [`Tracing::propagate`] keeps the context of a distributed trace over a restart.
//!
//! # What it costs
//!
//! A runtime without [`TracingExt::tracing`] pays nothing. With it, each operation and each visit of a phase makes a span, and
//! each run enters two. A subscriber that does not want the level `INFO` of the target `fom_tracing::trace` gets no spans.

#![forbid(unsafe_code)]

mod runs;
mod settings;
mod trace;

use fom_runtime::Builder;

pub use settings::Tracing;

/// Adds spans to a [`Builder`].
pub trait TracingExt {
    /// Gives each operation and each phase a span.
    fn tracing(self, tracing: Tracing) -> Self;
}

impl TracingExt for Builder {
    fn tracing(self, tracing: Tracing) -> Self {
        runs::add(self, tracing)
    }
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
