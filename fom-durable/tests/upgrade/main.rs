//! A new release on the journal of an earlier one: what goes on, and what is quarantined.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod jobs;
mod parked;
mod paths;
mod quarantined;
mod quarantined_check;
mod quarantined_versions;
mod release_check;
mod rollback;
mod unknown;
