//! Foms and localities that work together: leaders with helpers, periodic work, and sets of messages
//! to localities.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod carried;
mod chores;
mod closures;
mod kept_team;
mod limits;
mod parts;
mod sets;
mod teams;
