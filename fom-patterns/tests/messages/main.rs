//! Sets of messages to localities.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod sets;
