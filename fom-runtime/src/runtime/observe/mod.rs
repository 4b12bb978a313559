//! Observation: the handles of listeners and interposers, and the listing of what is in flight.

mod counters;
mod deadlocks;
mod listening;
mod listing;
mod localities;
mod survey;
mod waits;

pub use counters::{Counters, EdgeCounter, Histogram, OperationCounters, PhaseCounters};
pub use deadlocks::{Deadlock, FomWait, waits_for};
pub use listening::{Interposed, Listening, NotOnTop};
pub use listing::{AdaptiveInfo, FomInfo, KeyInfo, Operations, TypeInfo, Visited};
pub use localities::{LocalityInfo, MeasuredLoad};

pub use survey::{Cursor, CursorError, Filter, Group, Oldest, Page, Sort, Survey};
pub use waits::{WaitInfo, WaitsFor};

pub(super) use counters::counters;
pub(super) use deadlocks::{deadlocks, waits_of_all};
pub(super) use listing::{fom_info, inspect};
pub(super) use localities::localities;
pub(super) use survey::survey;
