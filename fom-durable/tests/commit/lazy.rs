//! `durability = "lazy"`: a transition counts at once, and the possible loss is bounded. `"none"`: nothing is written.

use std::time::{Duration, Instant};

use fom_durable::prelude::*;
use fom_runtime::error::BoxError;
use serde::{Deserialize, Serialize};

use crate::kit::gate::Gated;

#[derive(Serialize, Deserialize)]
struct Count {
    to: u32,
}

#[fom(operation(Count), durability = "lazy")]
enum Counting {
    #[phase(sync, start, to(Counting, Counted))]
    Counting,
    #[phase(end)]
    Counted,
}

impl CountingTransitions for Count {
    fn counting(&mut self, _: &mut Cx<'_>) -> Result<CountingAfterCounting, BoxError> {
        self.to -= 1;
        Ok(match self.to {
            0 => CountingAfterCounting::Counted,
            _ => CountingAfterCounting::Counting,
        })
    }
}

/// Waits for each of its commits.
#[derive(Serialize, Deserialize)]
struct Sure;

#[fom(operation(Sure))]
enum Surely {
    #[phase(sync, start, to(Sure))]
    Begin,
    #[phase(end)]
    Sure,
}

impl SurelyTransitions for Sure {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Starts a fom that waits and a lazy one, so that both are handed over together.
struct Pair;

#[fom(operation(Pair), transient)]
enum Pairing {
    #[phase(sync, start, to(Paired))]
    Begin,
    #[phase(end)]
    Paired,
}

impl PairingTransitions for Pair {
    fn begin(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.submit(Sure).detach()?;
        cx.submit(Count { to: 1 }).detach()?;
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct Forgotten;

#[fom(operation(Forgotten), durability = "none")]
enum Forget {
    #[phase(sync, start, to(Never))]
    Wait,
    #[phase(end)]
    Never,
}

impl ForgetTransitions for Forgotten {
    fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn runtime(journal: &Gated) -> Runtime {
    let builder = Runtime::builder().localities(1).pin(false);
    builder.journal_with(journal.clone()).build().unwrap()
}

/// Foms go on while the disk does nothing, up to the stated bound: then they wait for the disk.
#[test]
fn a_lazy_fom_does_not_wait_until_the_bound_is_reached() {
    let journal = Gated::default();
    let runtime = runtime(&journal);
    runtime
        .submit(Count { to: 10 })
        .start()
        .unwrap()
        .wait()
        .unwrap();
    assert!(journal.journal.ids().is_empty(), "nothing is on the disk");
    // Foms go on until the oldest part has waited for the bound; then one must wait.
    let begun = Instant::now();
    let waits = loop {
        let handle = runtime.submit(Count { to: 1 }).start().unwrap();
        let fom = handle.fom().clone();
        futures::executor::block_on(async {
            // The fom has ended, or waits.
            while fom.state() != fom_runtime::machine::FomState::Finished {
                if listed_as_waiting(&runtime) {
                    break;
                }
                std::thread::yield_now();
            }
        });
        if fom.state() != fom_runtime::machine::FomState::Finished {
            break handle;
        }
        handle.wait().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20), "it never waits");
    };
    assert!(
        begun.elapsed() >= Duration::from_millis(45),
        "the bound is 50 ms"
    );
    journal.open(true);
    waits.wait().unwrap();
}

/// The bound also holds for parts handed over together with a part that a fom waits for, however long the disk takes.
#[test]
fn the_bound_holds_beside_parts_that_a_fom_waits_for() {
    let journal = Gated::default();
    let runtime = runtime(&journal);
    let begun = Instant::now();
    let lazy_waits = || {
        let foms = runtime.operations().foms;
        let mut lazy = foms.iter().filter(|fom| fom.operation == "Count");
        lazy.any(|fom| fom.waiting_for().as_deref() == Some("the journal"))
    };
    while !lazy_waits() {
        assert!(begun.elapsed() < Duration::from_secs(10), "it never waits");
        runtime.submit(Pair).start().unwrap().wait().unwrap();
    }
    journal.open(true);
    futures::executor::block_on(runtime.idle());
}

fn listed_as_waiting(runtime: &Runtime) -> bool {
    let foms = runtime.operations().foms;
    foms.iter()
        .any(|fom| fom.waiting_for().as_deref() == Some("the journal"))
}

/// A lazy part is written all the same, without anything after it.
#[test]
fn a_lazy_transition_is_on_disk_soon() {
    let journal = Gated::default();
    journal.open(true);
    let runtime = runtime(&journal);
    runtime
        .submit(Count { to: 3 })
        .start()
        .unwrap()
        .wait()
        .unwrap();
    let begun = Instant::now();
    while journal.journal.ids().len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it never came");
        std::thread::yield_now();
    }
}

/// With `"none"` nothing is written, and no commit is made.
#[test]
fn none_is_never_written() {
    let journal = Gated::default();
    let runtime = runtime(&journal);
    runtime.submit(Forgotten).start().unwrap().wait().unwrap();
    drop(runtime);
    assert!(journal.journal.ids().is_empty());
}
