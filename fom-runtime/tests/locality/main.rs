//! Localities: their threads and processors, which foms have their homes there, and what happens while one blocks.

#[path = "../kit/mod.rs"]
mod kit;

mod balance;
mod blocking;
mod copying;
mod followers;
mod homes;
mod lending;
mod localities;
mod moving;
mod numa;
mod placement;
mod reactor;
mod short_sections;
mod synthetic;
mod topology;
mod wake_calls;
