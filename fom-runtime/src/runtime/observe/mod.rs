//! Observation: the handles of listeners and interposers, the listing of what is in flight, and the view of a runtime.

mod counters;
mod deadlocks;
mod inspect;
mod list;
mod listening;
mod listing;
mod localities;
mod parts;
mod recording;
mod survey;
mod waits;

pub use counters::{Counters, EdgeCounter, Histogram, OperationCounters, PhaseCounters};
pub use deadlocks::{Deadlock, FomWait, waits_for};
pub use inspect::Inspect;
pub use list::Listing;
pub use listening::{Interposed, Listening, NotOnTop};
pub use listing::{
    AdaptiveInfo, FomHome, FomInfo, FomPast, FomTimes, KeyInfo, Operations, TypeInfo, Visited,
};
pub use localities::{LocalityInfo, MeasuredLoad};
pub use parts::{PartInfo, PartValue, Parts};
pub use recording::FlightRecording;

pub use survey::{Cursor, CursorError, Filter, Group, MatchingFom, Oldest, Page, Sort, Survey};
pub use waits::{WaitInfo, WaitsFor};

pub(super) use listing::{fom_info, operations};

use counters::counters;
use deadlocks::{deadlocks, waits_of_all};
use localities::localities;
use survey::{matching, survey};
