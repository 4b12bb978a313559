//! Commits and recovery on a whole runtime under shuttle; see the models of `fom-runtime`.
//!
//! ```sh
//! RUSTFLAGS="--cfg fom_shuttle" cargo test --release -p fom-durable --test shuttle
//! ```
#![cfg(fom_shuttle)]

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
use fom_runtime::{
    Builder, FomId, FomRef, Handle, balance::Balance, config::Followers, error::RefusedReason,
    observe::TransitionCause, time::TestClock, topology::Machine,
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
use foms::Word;
use kit::{Bench, MOST, NEVER, check, section, visit};

/// Ends the only fom of a model after a commit that failed. Any other failure fails the model.
fn end_after_failed_commit<O: Operation>(
    bench: &Bench,
    disk: &Disk,
    id: FomId,
    key: &str,
    failure: &Failure<O>,
) where
    Failure<O>: std::fmt::Debug,
{
    assert!(matches!(failure.cause, Cause::Journal(_)), "{failure:?}");
    if disk.mark_of(id).is_none() {
        return;
    }
    // The fom comes back and waits. Or it had ended, and its end is committed by now.
    disk.wait_for_back_or_gone(1);
    if let Some(fom) = bench.runtime.find::<O>(key) {
        assert_eq!(fom.id(), id);
        fom.cancel();
    }
}
