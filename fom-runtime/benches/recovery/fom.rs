//! Foms that wait for an event, as they were when their process was killed.

use std::{
    convert::Infallible,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use fom_durable::{DurableBuilderExt as _, DurableExt as _};
use fom_runtime::{Cx, Runtime, fom};
use kit::settle;
use serde::{Deserialize, Serialize};

use crate::stored::State;

#[derive(Serialize, Deserialize)]
struct Op {
    state: State,
}

#[expect(dead_code, reason = "no event wakes them")]
enum Go {
    Go,
}

#[fom(operation(Op), event(Go), error(Infallible))]
enum Waiting {
    #[phase(start, sync, to(Wait))]
    Begin,
    #[phase(sync, on(Go), to(Done))]
    Wait,
    #[phase(end)]
    Done,
}

static BEGUN: AtomicU64 = AtomicU64::new(0);

impl WaitingTransitions for Op {
    fn begin(&mut self, _: &mut Cx<'_, Go>) -> Result<(), Infallible> {
        self.state.0[0] = 1;
        BEGUN.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn wait(&mut self, _: &mut Cx<'_, Go>, Go::Go: Go) -> Result<WaitingAfterWait, Infallible> {
        Ok(WaitingAfterWait::Done)
    }
}

/// Makes a runtime on this journal, with the foms in it.
fn runtime(folder: &Path) -> Runtime {
    let builder = Runtime::builder().journal(folder);
    let runtime = builder.build().expect("a runtime");
    let aside = runtime.quarantine().list();
    assert!(aside.is_empty(), "{:?}", aside[0]);
    runtime
}

/// Starts the foms, and returns when all wait.
pub(crate) fn load(folder: &Path, all: u64) {
    let runtime = runtime(folder);
    for n in 0..all {
        let state = State::new(n);
        runtime
            .submit(Op { state })
            .detach()
            .expect("there is room");
    }
    while BEGUN.load(Ordering::Relaxed) < all {
        thread::sleep(Duration::from_millis(1));
    }
    settle();
    std::mem::forget(runtime);
}

/// Restores the foms. Returns how many there are, and the runtime that keeps them.
pub(crate) fn recover(folder: &Path) -> (u64, Runtime) {
    let runtime = runtime(folder);
    (runtime.in_flight() as u64, runtime)
}
