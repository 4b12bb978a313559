//! Runs operations that go through *phases*. An operation is a struct. Its phases are an enum, with one function for
//! each phase that is not an end. `#[fom]` makes a checked state machine of them. An operation in flight is a *fom*.
//!
//! - A fom makes only declared transitions.
//! - It can be listed, saved and resumed between any two phases.
//! - It holds no thread while it waits.
//! - It survives the process if there is a journal: with the package `fom-durable`.
//! - It lives in one *locality*, a part of the runtime where one thread runs at a time. By default there is one for
//!   each processor core.
//!
//! Start with [`fom`], [`Runtime`] and [`Cx`]. `use fom_runtime::prelude::*` imports what a program needs.
//!
//! ```
//! use fom_runtime::prelude::*;
//!
//! /// What the operation keeps from phase to phase.
//! struct Greeting {
//!     name: String,
//! }
//!
//! #[fom(operation(Greeting), transient)]
//! enum Meet {
//!     #[phase(start, to(Greet, Ignored))]
//!     Look,
//!     #[phase(to(Met), within = "2s")]
//!     Greet { words: String },
//!     #[phase(end)]
//!     Met,
//!     #[phase(end, failure)]
//!     Ignored,
//! }
//!
//! impl MeetTransitions for Greeting {
//!     async fn look(&mut self, _: &mut Cx<'_>) -> Result<MeetAfterLook, BoxError> {
//!         Ok(match self.name.as_str() {
//!             "" => MeetAfterLook::Ignored,
//!             name => MeetAfterLook::Greet { words: format!("hello, {name}") },
//!         })
//!     }
//!
//!     async fn greet(&mut self, _: &mut Cx<'_>, words: &mut String) -> Result<(), BoxError> {
//!         println!("{words}");
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<(), BoxError> {
//! let runtime = Runtime::new()?;
//! let ended = runtime.submit(Greeting { name: "Ada".into() }).start()?.wait()?;
//! assert!(matches!(ended.end, MeetEnd::Met));
//! # Ok(())
//! # }
//! ```
//!
//! | to | see |
//! | --- | --- |
//! | declare a machine | [`fom`] |
//! | make a runtime | [`Builder`], [`Followers`](config::Followers), [`Budget`](config::Budget) |
//! | submit an operation | [`Runtime::submit`], [`Submission`], [`Handle`] |
//! | give each fom a value, which the operations that it starts inherit | [`Builder::carry`], [`Submission::carrying`], [`Cx::carried`] |
//! | run operations with the same key (a name) in order | [`Submission::key`], [`Submission::queue`], [`Runtime::suspend_key`] |
//! | wait, ask, take events, block in a phase | [`Cx`], [`Reply`](context::Reply), [`BlockingCx`] |
//! | count foms by phase and wait, measure the times in phases | [`Inspect::survey`](observe::Inspect::survey), [`Inspect::counters`](observe::Inspect::counters) |
//! | find out why a fom failed | [`Failure`], [`Cause`] |
//! | find a fom, send it events, cancel it | [`Runtime::find`], [`FomRef`] |
//! | see what is going on | [`Runtime::operations`], [`Runtime::inspect`], [`Runtime::listen`], [`Runtime::listen_to_failures`] |
//! | survive a crash, and test that | the package `fom-durable` |
//! | give each effect an idempotency key, so that a service acts once | [`Cx::step_key`], [`StepKey`](context::StepKey) |
//! | save and resume by hand | [`Persistent`], [`Snapshot`](snapshot::Snapshot), [`Runtime::resume`] |
//! | work with localities and their data | [`Placement`](submission::Placement), [`Cx::local`], [`Runtime::post`], [`Runtime::call`], [`Runtime::reduce`] |
//! | put phases before and after those of other operations | [`Layered`](machine::Layered) |
//! | let a phase wait for a condition of your own | [`extension::Gate`] |
//! | end a runtime | [`Runtime::shutdown`], [`Shutdown`](config::Shutdown) |
//! | spread an unbalanced load | [`Builder::balance`], [`balance`] |
//! | test one phase function after the other, without threads | [`testing::Stepper`] |
//! | test deadlines | [`TestClock`](time::TestClock), [`Runtime::quiet`] |
//! | draw a machine | [`Operation::GRAPH`], [`Graph`](machine::Graph) |
//! | make a package of patterns on top of foms | [`extension`] |
//! | wait for many foms, work periodically in each locality, hold locks, call services, push streams of requests | the package `fom-patterns` |

// The modules, from the lowest. Each imports only from itself and from modules above it in this list. `tests/layout.rs`
// checks this.
//
// - `id`, `heap`, `key_encoding`, `step_key`, `defaults`, `exclusive`, `instant`, `clock`, `serial`, `attempt`, `incident`, `savable`: small types without knowledge of foms
// - `graph`, `adaptive`, `topology`, `balance`: machines of phases, estimates, and the processors
// - `gate`: conditions before a phase
// - `snapshot`: a fom in one phase as bytes
// - `fom`: one fom without the type of its operation, with the seam for durability
// - `operation`: the traits that `#[fom]` implements
// - `typed`: a fom of a known operation type, and its outcome
// - `locality`: the handler, its threads, its timers
// - `runtime`: the localities together, and the ways into them
// - `cx`, `layer`: what a phase function can do, and operations around others
// - `run`: what runs a fom from phase to phase
// - `testing`: an operation that a test steps by hand
// - `prelude`, `__private` for generated code, `__durability` for `fom-durable`

// Makes the paths in generated code right in this crate's own tests, too.
#[allow(unused_extern_crates, reason = "the macro names the crate")]
extern crate self as fom_runtime;

#[doc(hidden)]
pub mod __durability;
#[doc(hidden)]
pub mod __private;
mod adaptive;
mod attempt;
pub mod balance;
mod clock;
mod cx;
mod defaults;
mod exclusive;
mod fom;
mod gate;
mod graph;
mod heap;
mod id;
mod incident;
mod instant;
mod key_encoding;
mod layer;
mod locality;
mod operation;
pub mod prelude;
mod run;
mod runtime;
mod savable;
mod serial;
pub mod snapshot;
mod step_key;
#[cfg(not(fom_shuttle))]
pub mod testing;
pub mod topology;
mod typed;
pub use cx::{BlockingCx, Cx};
pub use fom::Cause;
pub use fom_macros::fom;
pub use id::{FomId, Key};
pub use operation::{Operation, Persistent};
pub use runtime::{Builder, FomRef, Handle, Refused, Runtime, Submission, extension};
pub use typed::Failure;

/// The settings of a runtime, and of its end.
pub mod config {
    pub use crate::{
        locality::Followers,
        runtime::{Budget, Shutdown, ShutdownReport},
    };
}

/// The types that a phase function gets from its [`Cx`].
pub mod context {
    pub use crate::{
        cx::{BlockGuard, Reply},
        runtime::Local,
        step_key::StepKey,
    };
}

/// The errors of the calls of a runtime and of its foms.
pub mod error {
    pub use crate::{
        defaults::BoxError,
        exclusive::Exclusive,
        fom::{BlockError, DurabilityError, RefusedReason, SendError, TimedOut, Unanswered},
        runtime::{BuildError, CallError},
    };
}

/// The parts of a declared machine.
pub mod machine {
    pub use crate::{
        defaults::NoEvent,
        graph::{Adaptive, Deadline, Graph, Hung, Mode, PhaseInfo, Retry},
        layer::Layered,
        operation::{Codec, Durability, PhaseFuture},
        runtime::all,
        savable::Savable,
    };
    pub use fom_protocol::FomState;
}

/// Listings of the foms in flight, and listeners to their transitions.
pub mod observe {
    pub use crate::{
        attempt::Attempt,
        fom::{FailedAttempt, FailedFom, FlightEntry, FlightEvent, Transition, TransitionCause},
        incident::{Incident, IncidentCounter, IncidentKind},
        runtime::observe::{
            AdaptiveInfo, Counters, Cursor, CursorError, Deadlock, EdgeCounter, Filter,
            FlightRecording, FomHome, FomInfo, FomPast, FomTimes, FomWait, Group, Histogram,
            Inspect, Interposed, KeyInfo, Listening, Listing, LocalityInfo, MatchingFom,
            MeasuredLoad, NotOnTop, Oldest, OperationCounters, Operations, Page, PartInfo,
            PartValue, Parts, PhaseCounters, Sort, Survey, TypeInfo, Visited, WaitInfo, WaitsFor,
        },
        typed::{Interpose, TransitionOf},
    };
}

/// The choices of a submission, and the answers to it.
pub mod submission {
    pub use crate::{
        fom::Priority,
        runtime::{EventSender, Joined, Now, Placement, Reached, SuspendedKey, Waiting, WhenRoom},
        typed::Ended,
    };
}

/// The clock of a runtime, and sleeps on it.
pub mod time {
    pub use crate::{
        clock::{Clock, TestClock},
        instant::Instant,
        locality::Sleep,
    };
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
