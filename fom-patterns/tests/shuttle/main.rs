//! The patterns on a whole runtime under shuttle; see the models of `fom-runtime`.
//!
//! ```sh
//! RUSTFLAGS="--cfg fom_shuttle" cargo test --release -p fom-patterns --test shuttle
//! ```
#![cfg(fom_shuttle)]

mod active;
mod admission;
#[path = "../../../fom-runtime/tests/shuttle/check.rs"]
mod check;
#[allow(dead_code, reason = "the models of `fom-runtime` use the rest")]
#[path = "../../../fom-runtime/tests/shuttle/kit.rs"]
mod kit;
mod locks;
mod service;

use std::{sync::Arc, time::Duration};

use fom_patterns::prelude::*;
use fom_runtime::{
    Builder, balance::Balance, config::Followers, time::TestClock, topology::Machine,
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
use kit::{Bench, MOST, NEVER};
