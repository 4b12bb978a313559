//! Foms that work together: leaders with helpers, and periodic work.

#[path = "../kit/mod.rs"]
mod kit;

mod chores;
mod teams;
