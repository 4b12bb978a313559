//! wip
pub mod counters;
pub mod wire;
