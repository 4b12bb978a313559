//! Foms and localities that work together: leaders with helpers, periodic work, and sets of messages
//! to localities.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod chores;
mod closures;
mod kept_team;
mod limits;
mod sets;
mod teams;
