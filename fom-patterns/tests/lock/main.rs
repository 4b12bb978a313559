//! Long locks: taken by hand or declared by phases, and kept over commits.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod cycles;
mod group;
mod journal;
mod late;
mod order;
mod phases;
mod retries;
mod taking;
mod wakes;
