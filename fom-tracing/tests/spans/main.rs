//! Spans: which are open around the code of a fom, and when they end.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod seen;
mod spans;
