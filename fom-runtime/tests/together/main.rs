//! Periodic work of localities.

#[path = "../kit/mod.rs"]
mod kit;

mod chores;
