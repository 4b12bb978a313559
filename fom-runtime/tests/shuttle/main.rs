//! The whole runtime under shuttle: threads, locks and atomics are its own, one thread runs at a time, and which one is
//! next is drawn at every step. Thousands of runs differ in their order alone.
//!
//! ```sh
//! RUSTFLAGS="--cfg fom_shuttle" cargo test --release -p fom-runtime --test shuttle
//! ```
//!
//! A wake that is lost, or a thread that does not end, is a deadlock, which shuttle reports with the order that led
//! there. Time passes as it likes: a wait of less than a minute may run out at
//! any moment, a longer one never does. Sockets and tokio's own timers are not modelled.
//!
//! What was broken on purpose to see that a model notices stands at the model as `seeded`.
#![cfg(fom_shuttle)]

mod active;
mod admission;
mod commits;
mod disk;
mod ending;
mod foms;
mod hand_over;
mod keys;
mod kit;
mod late;
mod locks;
mod moving;
mod nothing_left;
mod once;
mod resting;
mod services;
mod waking;

use std::{sync::Arc, time::Duration};

use fom_runtime::{
    Builder, Followers, FomId, FomRef, FomState, Handle, RefusedReason, TestClock, TransitionCause,
    balance::Balance, prelude::*, topology::Machine,
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

use disk::Disk;
use foms::{Parent, Task, Word, Work, task};
use kit::{Bench, Gate, MOST, NEVER, Watch, check, section, visit};
