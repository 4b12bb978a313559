//! Recovery: what comes back after a crash or a restart, in which state, and with which keys.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod boundaries;
mod boundaries_events;
mod boundaries_socket;
mod boundaries_staying;
mod carried;
mod compensating;
mod division;
mod event_keys;
mod exhausted;
mod fuzz_corpus;
mod ids;
mod layers;
mod lost_entries;
mod once;
mod once_unread;
mod overdue;
mod parked;
mod passive;
mod power;
mod request_keys;
mod restart;
mod retries;
mod step_keys;
mod turning_back;
mod waiting;
