//! Operations: what a machine promises, and what a release reads of the snapshots of others.

#[path = "../kit/mod.rs"]
mod kit;

mod by_hand;
mod evolution;
mod golden;
mod hostile;
mod interposers;
mod layers;
mod layers_versions;
mod machine;
mod most_phases;
mod random_machines;
mod record;
mod request;
mod resuming;
mod retyped;
mod shop;
mod snapshot;
mod transitions;
mod trip;
mod versions;
