//! The life of a fom: events, wakes, deadlines, retries and ends, as one runtime without a journal runs it.

#[path = "../kit/mod.rs"]
mod kit;

mod adaptive;
mod allocation;
mod asked_times;
mod cancelling;
mod causes;
mod compensating;
mod constants;
mod deadlines;
mod endings;
mod entries;
mod events;
mod failing;
mod gates;
mod grouping;
mod in_place;
mod panics;
mod reached;
mod replies;
mod requests;
mod retries;
mod sizes;
mod states;
mod stepping;
mod taking;
mod turning_back;
mod waking;
