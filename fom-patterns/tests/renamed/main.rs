//! Machines and operations with other names in the next release.
//!
//! These tests are a program of their own. A runtime with a journal is refused here until it is told which type has
//! each old name.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod names;
mod orders;
mod parcels;
mod quarantined;
