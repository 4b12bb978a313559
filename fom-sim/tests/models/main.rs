//! The models that shuttle explores, in the simulation. A thread may lose its turn at each lock, wherever it waits, and where a
//! model says so, but not at each atomic. `moving` is not among them: without a switch at an atomic, the other locality is idle before
//! the first fom has run, and no fom moves.
//!
//! ```sh
//! cargo test --release -p fom-sim --features locks --test models
//! ```

#[path = "../../../fom-patterns/tests/shuttle/active.rs"]
mod active;
#[path = "../../../fom-patterns/tests/shuttle/admission.rs"]
mod admission;
mod check;
#[path = "../../../fom-durable/tests/shuttle/commits.rs"]
mod commits;
#[path = "../../../fom-durable/tests/shuttle/disk.rs"]
mod disk;
#[path = "../../../fom-runtime/tests/shuttle/ending.rs"]
mod ending;
#[path = "../../../fom-runtime/tests/shuttle/foms.rs"]
mod foms;
#[path = "../../../fom-runtime/tests/shuttle/hand_over.rs"]
mod hand_over;
#[path = "../../../fom-runtime/tests/shuttle/in_place.rs"]
mod in_place;
#[path = "../../../fom-runtime/tests/shuttle/keys.rs"]
mod keys;
#[path = "../../../fom-runtime/tests/shuttle/kit.rs"]
mod kit;
#[path = "../../../fom-durable/tests/shuttle/late.rs"]
mod late;
#[path = "../../../fom-patterns/tests/shuttle/locks.rs"]
mod locks;
#[path = "../../../fom-runtime/tests/shuttle/nothing_left.rs"]
mod nothing_left;
#[path = "../../../fom-durable/tests/shuttle/once.rs"]
mod once;
#[path = "../../../fom-durable/tests/shuttle/resting.rs"]
mod resting;
#[path = "../../../fom-patterns/tests/shuttle/service.rs"]
mod service;
mod shuttle;
#[path = "../../../fom-runtime/tests/shuttle/waking.rs"]
mod waking;

use std::{sync::Arc, time::Duration};

use fom_durable::prelude::*;
use fom_patterns::prelude::*;
use fom_protocol::sync::sleep;
use fom_runtime::{
    Builder, FomId, FomRef, Handle, balance::Balance, config::Followers, error::RefusedReason,
    machine::FomState, observe::TransitionCause, time::TestClock, topology::Machine,
};

use check::check;
use disk::{Disk, end_after_failed_commit};
use foms::{Parent, Task, Word, Work, task};
use kit::{Bench, Gate, MOST, NEVER, Watch, section, visit};
use shuttle::{
    future::block_on,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

fom_sim::interpose!();
