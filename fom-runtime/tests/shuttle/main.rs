//! The whole runtime under shuttle: threads, locks and atomics are its own, one thread runs at a time, and which one is
//! next is drawn at every step. Thousands of runs differ in their order alone.
//!
//! ```sh
//! RUSTFLAGS="--cfg fom_shuttle" cargo test --release -p fom-runtime --test shuttle
//! ```
//!
//! A wake that is lost, or a thread that does not end, is a deadlock, which shuttle reports with the order that led
//! there. There is no time: what waits with a limit waits for ever. Sockets and tokio's own timers are not modelled.
//!
//! What was broken on purpose to see that a model notices stands at the model as `seeded`.
#![cfg(fom_shuttle)]

mod active;
mod ending;
mod foms;
mod hand_over;
mod keys;
mod kit;
mod locks;
mod moving;
mod nothing_left;
mod waking;

use std::{sync::Arc, time::Duration};

use fom_runtime::{
    Builder, Followers, FomRef, FomState, Handle, RefusedReason, TestClock, balance::Balance,
    prelude::*, topology::Machine,
};
use shuttle::{
    Config, Runner,
    future::block_on,
    scheduler::{PctScheduler, RandomScheduler, Scheduler},
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use foms::{Parent, Task, Word, Work, task};
use kit::{Bench, Gate, MOST, NEVER, Watch, check, section, visit};
