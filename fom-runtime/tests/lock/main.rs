//! Long locks: taken by hand or declared by phases, and kept over commits.

#[path = "../kit/mod.rs"]
mod kit;

mod circles;
mod journal;
mod late;
mod order;
mod phases;
mod taking;
mod wakes;
