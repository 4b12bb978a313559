//! The run of a fom: from phase to phase, until it waits, ends, or has used up its budget.
//!
//! The locality runs a fom through the functions in [`Vtable`](crate::fom::Vtable), and makes a fom through
//! [`Build`](crate::operation::Build). So this folder is above all of them, and no folder below imports it.
//!
//! - `launch.rs` makes a [`Fom`](fom::Fom), with a body of one of two kinds: `step_sync.rs` or `step_async.rs`.
//! - `next.rs` decides what comes next. `run_loop.rs` carries the decisions out; `interrupt.rs` and `resume.rs` are parts
//!   of it.
//! - `transition.rs` is the step from one phase to the next. `gate.rs`, `commit.rs` and `failure.rs` are parts of it.
//! - `serve.rs` is a shorter way for foms that end in their first run. `in_place.rs` makes that run on the stack of the
//!   submitter.

mod body;
mod commit;
mod failure;
mod fom;
mod gate;
mod in_place;
mod interrupt;
mod launch;
mod next;
mod resume;
mod run_loop;
mod serve;
mod step_async;
mod step_sync;
mod times;
mod transition;
