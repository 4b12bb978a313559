//! The watcher: what it warns about, whom it names, and what it leaves alone.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod cycles;
mod hung;
mod levels;
mod names;
mod quarantine;
mod queues;
mod running;
mod task;
