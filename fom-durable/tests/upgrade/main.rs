//! A new release on the journal of an earlier one: what goes on, and what is set aside.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod aside;
mod parked;
mod release_check;
mod rollback;
mod set_aside;
mod set_aside_check;
mod set_aside_versions;
