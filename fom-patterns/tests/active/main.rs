//! Active objects: calls without a lock from anywhere.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod calls;
mod cancel;
mod ends;
mod history;
mod list;
mod pool;
mod remote;
mod shutdown;
mod waits;
