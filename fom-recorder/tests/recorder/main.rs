//! The flight recorder as a trace, and in files.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod files;
mod trace;
