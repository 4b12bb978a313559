//! Streams of requests, in order for each key.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod bounds;
mod memory;
mod order;
mod rules;
mod shutdown;
mod turns;
