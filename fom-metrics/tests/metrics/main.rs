//! The metrics of a runtime: their values, their names, and what is in no label.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod inventory;
mod program;
mod values;
