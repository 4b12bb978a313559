//! Commits and recovery on a whole runtime under shuttle; see the models of `fom-runtime`.
//!
//! ```sh
//! RUSTFLAGS="--cfg fom_shuttle" cargo test --release -p fom-durable --test shuttle
//! ```
#![cfg(fom_shuttle)]

#[path = "../../../fom-runtime/tests/shuttle/check.rs"]
mod check;
mod commits;
mod disk;
#[allow(dead_code, reason = "the models of `fom-runtime` use the rest")]
#[path = "../../../fom-runtime/tests/shuttle/foms.rs"]
mod foms;
#[allow(dead_code, reason = "the models of `fom-runtime` use the rest")]
#[path = "../../../fom-runtime/tests/shuttle/kit.rs"]
mod kit;
mod late;
mod once;
mod resting;

use std::{sync::Arc, time::Duration};

use fom_durable::prelude::*;
use fom_protocol::sync::sleep;
use fom_runtime::{
    Builder, FomId, FomRef, Handle, balance::Balance, config::Followers, error::RefusedReason,
    observe::TransitionCause, time::TestClock, topology::Machine,
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
use disk::{Disk, end_after_failed_commit};
use foms::Word;
use kit::{Bench, MOST, NEVER, section, visit};
