//! Quarantine: operations that failed are kept, listed, tried again, bounded and discarded.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod bounds;
mod events;
mod failed;
mod faults;
mod kinds;
mod order;
mod path;
mod races;
mod retry;
mod taking;
