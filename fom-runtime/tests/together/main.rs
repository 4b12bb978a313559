//! Foms that work together: leaders with helpers, periodic work, and messages to localities.

#[path = "../kit/mod.rs"]
mod kit;

mod chores;
mod posts;
mod teams;
