//! Observation: the handles of listeners and interposers, and the listing of what is in flight.

mod deadlocks;
mod listening;
mod listing;

pub use deadlocks::{Deadlock, DeadlockWait, waits_for};
pub use listening::{Interposed, Listening, NotOnTop};
pub use listing::{AdaptiveInfo, FomInfo, KeyInfo, LocalityInfo, Operations, TypeInfo, Visited};

pub(super) use deadlocks::deadlocks;
pub(super) use listing::inspect;
