//! Lanes: streams of requests, in order for each key.

#[path = "../kit/mod.rs"]
mod kit;

mod bounds;
mod memory;
mod order;
mod shutdown;
mod turns;
