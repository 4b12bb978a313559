//! Runs operation state machines.
pub use fom_macros::fom;

mod graph;
pub mod topology;

pub use graph::{Graph, Mode, PhaseInfo, Retry};
