//! Foms and localities that work together: leaders with helpers, and sets of messages to localities.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod sets;
mod teams;
