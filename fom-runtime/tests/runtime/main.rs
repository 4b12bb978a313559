//! The runtime as a whole: what it lets in, what it shows, its memory, and its end.

#[path = "../kit/mod.rs"]
mod kit;

mod admission;
mod carried;
mod counters;
mod extension;
mod failures;
mod listing;
mod memory;
mod outside;
mod parts;
mod recorder;
mod serialized;
mod shutdown;
mod survey;
mod watching;
