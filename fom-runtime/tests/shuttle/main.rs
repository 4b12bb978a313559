//! The whole runtime under shuttle. Threads, locks and atomics are shuttle's, and one thread runs at a time. Shuttle
//! draws the next thread at every step. Thousands of runs differ only in their order.
//!
//! ```sh
//! RUSTFLAGS="--cfg fom_shuttle" cargo test --release -p fom-runtime --test shuttle
//! ```
//!
//! A lost wake, or a thread that does not end, is a deadlock. Shuttle reports a deadlock with the order that led there.
//! Time is not real: a wait of less than a minute may run out at any moment, a longer one never does. Sockets and
//! tokio's own timers are not modelled.
//!
//! Some faults were put in on purpose to test a model; the model names them as `seeded`.
#![cfg(fom_shuttle)]

mod check;
mod ending;
mod foms;
mod hand_over;
mod in_place;
mod keys;
mod kit;
mod moving;
mod nothing_left;
mod waking;

use std::{sync::Arc, time::Duration};

use fom_runtime::{
    Builder, FomRef, Handle, balance::Balance, config::Followers, error::RefusedReason,
    machine::FomState, prelude::*, time::TestClock, topology::Machine,
};
use shuttle::{
    future::block_on,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use check::check;
use foms::{Parent, Task, Word, Work, task};
use kit::{Bench, Gate, MOST, NEVER, Watch, section, visit};
