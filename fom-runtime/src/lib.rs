//! Runs operation state machines. An operation is an enum of *phases* and one function per phase. `#[fom]` makes a
//! machine of them with these properties:
//!
//! - It takes only declared transitions.
//! - It can be saved, listed, drawn and resumed at every phase boundary.
//! - It never owns a thread while it waits.
//! - It survives the process if there is a [journal](crate::DurableBuilderExt::journal).
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
//! assert!(matches!(ended.phase, Meet::Met));
//! # Ok(())
//! # }
//! ```
//!
//! | to | see |
//! | --- | --- |
//! | declare a machine | [`fom`] |
//! | make a runtime | [`Builder`], [`Followers`], [`Budget`] |
//! | submit an operation | [`Runtime::submit`], [`Submission`], [`Handle`] |
//! | run operations with the same key in order | [`Submission::key`], [`Submission::queue`], [`Runtime::suspend_key`] |
//! | wait, ask, take events, block in a phase | [`Cx`], [`Reply`], [`BlockingCx`] |
//! | start other foms and wait for their ends | [`Cx::team`], [`Team`] |
//! | find out why a fom failed | [`Failure`], [`Cause`] |
//! | find a fom, send it events, cancel it | [`Runtime::find`], [`FomRef`] |
//! | see what is going on | [`Runtime::operations`], [`Runtime::deadlocks`], [`Runtime::listen`] |
//! | survive a crash | [`Builder::journal`](crate::DurableBuilderExt::journal), [`Cx::step_key`], [`Cx::outbox`](crate::DurableCxExt::outbox), [`Submission::once`](crate::DurableSubmissionExt::once), [`Durability`] |
//! | list what could not come back | [`Runtime::set_aside`](crate::DurableExt::set_aside), [`Builder::check_journal`](crate::DurableBuilderExt::check_journal) |
//! | keep the journal elsewhere | [`journal::Journal`], [`Builder::journal_with`](crate::DurableBuilderExt::journal_with) |
//! | save and resume by hand | [`Persistent`], [`Snapshot`], [`Runtime::resume`] |
//! | work with localities and their data | [`Placement`], [`Cx::local`], [`Runtime::post`], [`Runtime::call`], [`Runtime::reduce`], [`Runtime::chore`] |
//! | hold a lock over phases | [`LongLock`], [`LockSet`], [`LongLocks`] |
//! | spread an unbalanced load | [`Builder::balance`], [`balance`] |
//! | test deadlines | [`TestClock`], [`Runtime::quiet`] |
//! | test that an operation survives a crash anywhere | [`testing::crash_at_each_boundary`] |
//! | test that a release strands no parked fom | [`testing::check_release`] |
//! | draw a machine | [`Operation::GRAPH`], [`Graph`] |
//! | make a package of patterns on top of foms | [`extension`] |

// The modules, from the lowest. Each imports only from itself and from modules above it in this list; the exceptions are
// in `tests/layout/fom-runtime.txt`, and `tests/layout.rs` fails on a new one.
//
// - `id`, `heap`, `key_encoding`, `step_key`, `error`, `clock`: small types without knowledge of foms
// - `graph`, `adaptive`, `topology`, `balance`: machines of phases, estimates, and the processors
// - `snapshot`, `operation`: the traits that `#[fom]` implements, and a fom in one phase as bytes
// - `fom`: one operation in flight, with the seam for durability
// - `locality`: the handler, its threads, its timers
// - `runtime`: the localities together, and the ways into them
// - `cx`, `layer`: what a phase function can do, and operations around others
// - `durable`, `lock`: the journal, long locks
// - `testing`, `prelude`

// Makes the paths in generated code right in this crate's own tests, too.
#[allow(unused_extern_crates, reason = "the macro names the crate")]
extern crate self as fom_runtime;

#[doc(hidden)]
pub mod __private;
mod adaptive;
pub mod balance;
mod clock;
mod cx;
mod durable;
mod error;
mod fom;
mod graph;
mod heap;
mod id;
mod key_encoding;
mod layer;
mod locality;
mod lock;
mod operation;
pub mod prelude;
mod runtime;
mod snapshot;
mod step_key;
#[cfg(not(fom_shuttle))]
pub mod testing;
pub mod topology;
pub use clock::{Clock, TestClock};
pub use cx::{BlockGuard, BlockingCx, Cx, Reply, Team};
pub use durable::{
    DiscardError, DurableBuilderExt, DurableCxExt, DurableExt, DurableSubmissionExt, JournalCheck,
    Outbox, Posting, RecoveryProgress, RetryError,
};
pub use error::{BoxError, NoEvent};
pub use fom::{BlockError, Cause, Failure, RefusedReason, SendError, TimedOut, Unanswered};
pub use fom::{Ended, Interpose, Priority, Transition, TransitionCause, TransitionOf};
#[doc(inline)]
pub use fom_journal as journal;
pub use fom_macros::fom;
pub use fom_protocol::FomState;
pub use graph::{Adaptive, Graph, Mode, PhaseInfo, Retry};
pub use id::{FomId, Key};
pub use layer::Layered;
pub use locality::{Followers, Sleep};
pub use lock::{
    Acquire, AcquireSet, LockError, LockGuard, LockMode, LockSet, LockSetGuard, LockStats,
    LockTableStats, Locker, LongLock, LongLocks,
};
pub use operation::{Codec, Durability, Operation, Persistent, Savable};
pub use runtime::extension;
pub use runtime::observe::{
    AdaptiveInfo, Deadlock, DeadlockWait, FomInfo, Interposed, KeyInfo, Listening, LocalityInfo,
    NotOnTop, Operations, TypeInfo, Visited,
};
pub use runtime::{
    Budget, Builder, CallError, Chore, ChoreError, EventSender, FomRef, Handle, Joined, Local,
    Placement, Reached, Runtime, Shutdown, ShutdownReport, Submission, SuspendedKey, Waiting,
    WhenRoom,
};
pub use runtime::{BuildError, Refused};
pub use snapshot::{RestoreError, SetAside, SnapshotError};
pub use snapshot::{Saved, SavedError, Snapshot};
pub use step_key::StepKey;
