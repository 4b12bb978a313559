//! The inspector, as its clients use it: raw bytes over real sockets.

mod access;
mod actions;
mod data;
mod family;
mod fuzz_corpus;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../fom-runtime/tests/kit/held.rs"]
mod held;
mod hostile;
mod kit;
mod life;
mod metrics;
mod names;
mod program;
mod resources;
mod stream;
