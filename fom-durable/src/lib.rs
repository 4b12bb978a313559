//! Makes the foms of [`fom_runtime`] survive the process. A [journal] keeps each fom. The runtime *commits* each
//! transition: it writes the transition to the journal, on disk, before any caller hears of it. After a crash or a
//! restart, each fom goes on in the phase that it last committed.
//!
//! A program that declares foms needs the package `fom-runtime`, too. The module [`journal`] has the stores for a
//! journal, and [`testing`] has tests of crashes and releases.
//!
//! `use fom_durable::prelude::*` instead of `fom_runtime::prelude::*` imports the same names, and six extension
//! traits:
//!
//! | trait | for |
//! | --- | --- |
//! | [`DurableBuilderExt`] | [`Builder`](fom_runtime::Builder): the journal and its settings, a check of a journal before a release |
//! | [`DurableExt`] | [`Runtime`](fom_runtime::Runtime): how operations ended, events from outside, and the foms that could not come back |
//! | [`DurableInspectExt`] | [`Inspect`](fom_runtime::observe::Inspect): the size of the journal |
//! | [`DurableSubmissionExt`] | [`Submission`](fom_runtime::Submission): an operation that runs once for each id |
//! | [`DurableFomExt`] | [`FomRef`](fom_runtime::FomRef): a wait until an operation is on disk |
//! | [`DurableCxExt`] | [`Cx`](fom_runtime::Cx): the outbox. It sends the messages of a phase exactly when the transition is committed |
//!
//! ```
//! use fom_durable::prelude::*;
//!
//! # let directory = std::env::temp_dir().join(format!("fom-durable-{}", std::process::id()));
//! let runtime = Runtime::builder().journal(&directory).build()?;
//! # drop(runtime);
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok::<(), BoxError>(())
//! ```
//!
//! Tools read a journal without the program that wrote it, with [`reading`]. [`Division`] divides a journal among several.
//!
//! The promise is *transitions exactly once, effects at least once*. The functions of [`testing`] check the promise for an
//! operation: they crash after each commit. The part "Surviving" of the book has the details.

// The modules, from the lowest. Each imports only from itself and from modules above it in this list.
//
// - `entry`: the numbers of entries
// - `durable`: the component that commits and recovers. Its files know each other; its `mod.rs` lists them
// - `testing`: trials of operations and of releases, with the public API and some functions of the seam
// - `prelude`
//
// The store is the package `fom-journal`, which knows nothing of foms. The runtime knows nothing of this package: it
// calls the traits of `fom-runtime/src/fom/durability.rs`. The package uses the runtime through its public API and
// through `fom_runtime::__durability`, and no other hidden item.

mod durable;
mod entry;
pub mod prelude;
#[cfg(not(fom_shuttle))]
pub mod testing;

pub use durable::reading;
pub use durable::{
    Address, DeadLetters, Destination, DiscardError, Division, DurableBuilderExt, DurableCxExt,
    DurableExt, DurableFomExt, DurableInspectExt, DurableSubmissionExt, End, JournalCheck, Lookup,
    NotCommitted, NotExecuted, NotSent, NotSentReason, Outbox, OutcomeInfo, Outcomes, Posting,
    Quarantine, RecoveryProgress, Retried, RetryError, SavedEnd, SavedNames, SavedType, Sent,
};
#[doc(no_inline)]
pub use fom_journal as journal;
#[doc(no_inline)]
pub use fom_runtime::snapshot::{KeptFailure, QuarantineKind, Quarantined};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
