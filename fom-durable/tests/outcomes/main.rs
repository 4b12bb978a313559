//! What is known of operations that have ended, and events that come from outside: outcomes are found, within their
//! limits, and durable sends are taken once.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod children;
mod dead_letters;
mod ended;
mod held_back;
mod lookup;
mod order;
mod send;
mod send_faults;
