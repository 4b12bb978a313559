//! Order per key: one fom of a key at a time, in the order of the submissions.

#[path = "../kit/mod.rs"]
mod kit;

mod history;
mod journal;
mod many;
mod queue;
mod serial;
mod turns;
