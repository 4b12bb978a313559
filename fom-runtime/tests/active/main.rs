//! Active objects: calls without a lock from anywhere.

#[path = "../kit/mod.rs"]
mod kit;

mod calls;
mod cancel;
mod ends;
mod history;
mod list;
mod pool;
mod shutdown;
mod waits;
