//! A hand-written operation that uses items for generated code. The runtime calls its functions while it borrows
//! nothing of its own, so the functions may use the runtime.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicUsize, Ordering},
};

use fom_runtime::{
    __private::{At, Stepped, SyncOperation, Synchronous},
    Operation,
    machine::{Graph, NoEvent, PhaseInfo},
    prelude::*,
};

use crate::kit::task::{limit, quick};

thread_local! {
    /// The runtime of the functions below, on this thread.
    static RUNTIME: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

static SUBMITTED: AtomicUsize = AtomicUsize::new(0);
static RUN: AtomicUsize = AtomicUsize::new(0);

/// Submits two operations, one of them with the key of the operation that calls this.
fn meddle() {
    let Some(runtime) = RUNTIME.take() else {
        return;
    };
    let run = || {
        quick(|_| {
            RUN.fetch_add(1, Ordering::Relaxed);
        })
    };
    runtime.submit(run()).detach().unwrap();
    runtime.submit(run()).key("key").queue().detach().unwrap();
    assert!(runtime.find::<ByHand>("other key").is_none());
    SUBMITTED.fetch_add(2, Ordering::Relaxed);
    RUNTIME.set(Some(runtime));
}

struct ByHand;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Work,
    Done,
}

const PHASES: &[PhaseInfo] = &[
    PhaseInfo::synchronous("Work", "").start().to(&[1]),
    PhaseInfo::end("Done", ""),
];

impl Operation for ByHand {
    type Phase = Phase;
    type End = Phase;
    type Kind = Phase;
    type Error = BoxError;
    type Event = NoEvent;
    type Form = Synchronous;

    const GRAPH: &'static Graph = &Graph::new("Phase", "ByHand", "", PHASES);
    const START: Phase = Phase::Work;
    const INDEX: fn(Phase) -> usize = |phase| phase as usize;

    fn kind(phase: &Phase) -> Phase {
        meddle();
        *phase
    }

    fn kind_at(index: usize) -> Phase {
        meddle();
        [Phase::Work, Phase::Done][index]
    }

    fn end(phase: Phase) -> Option<Phase> {
        meddle();
        (phase == Phase::Done).then_some(phase)
    }

    fn index(phase: Phase) -> usize {
        meddle();
        phase as usize
    }
}

impl SyncOperation for ByHand {
    fn step(&mut self, _: At<'_, '_, Phase>) -> Stepped<Self> {
        Ok(Some(Phase::Done))
    }
}

/// Inside a fom the functions run on the thread of the locality, for a submission without a key and with one.
#[test]
fn functions_of_a_hand_written_operation_may_submit_others() {
    let _limit = limit();
    let runtime = Runtime::builder().localities(1).pin(false).build().unwrap();
    let submits = quick(|cx| {
        RUNTIME.set(Some(cx.runtime()));
        cx.submit(ByHand).detach().unwrap();
        cx.submit(ByHand).key("key").queue().detach().unwrap();
    });
    runtime.submit(submits).start().unwrap().wait().unwrap();
    // The thread of the locality still has the runtime: it goes on with every operation of this kind.
    let ended = runtime.submit(ByHand).start().unwrap().wait().unwrap();
    assert_eq!(ended.end, Phase::Done);
    let releases = quick(|_| RUNTIME.set(None));
    runtime.submit(releases).start().unwrap().wait().unwrap();
    futures::executor::block_on(runtime.idle());
    let submitted = SUBMITTED.load(Ordering::Relaxed);
    assert!(submitted > 0);
    assert_eq!(RUN.load(Ordering::Relaxed), submitted);
}
