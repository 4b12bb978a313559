//! Clusters of several nodes in a simulation: kills, pauses, lost messages and late requests to the engine.

mod clean;
mod errands;
mod faults;
mod kit;
mod letters;
mod scenarios;

fom_sim::interpose!();
