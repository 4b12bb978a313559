//! Services by name: their calls, their life, and their owners.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod calls;
mod cycles;
mod ends;
mod history;
mod life;
mod owner;
