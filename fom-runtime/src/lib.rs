//! Runs operation state machines.
pub use fom_macros::fom;
