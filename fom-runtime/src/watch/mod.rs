//! Observation: listeners that hear of every transition, interposers, and the listing of what is in flight.

mod deadlocks;
mod hooks;
mod inspect;
mod transition;

pub use deadlocks::{Deadlock, DeadlockWait};
pub use hooks::{Interpose, Interposed, Listening, NotOnTop};
pub use inspect::{AdaptiveInfo, FomInfo, KeyInfo, LocalityInfo, Operations, TypeInfo, Visited};
pub use transition::{Transition, TransitionCause, TransitionOf};

pub(crate) use deadlocks::deadlocks;
pub(crate) use hooks::Hooks;
pub(crate) use inspect::inspect;
