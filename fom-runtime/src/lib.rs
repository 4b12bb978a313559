//! Runs operation state machines.
pub use fom_macros::fom;

mod graph;

pub use graph::{Graph, Mode, PhaseInfo, Retry};
