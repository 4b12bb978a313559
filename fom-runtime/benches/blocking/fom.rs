//! Foms: operations of four sync phases, and a `blocking` phase.

use std::convert::Infallible;

use fom_runtime::{config::Budget, prelude::*};
use kit::{now, peers::submit_here};

use super::{FLOWS, WORKERS, block, ended, work};

/// One operation, or a flow of them.
struct Small {
    flow: usize,
    x: u64,
    begun: u64,
    /// Whether the flow continues in this fom.
    stays: bool,
}

#[fom(operation(Small), error(Infallible), transient)]
enum Smally {
    #[phase(start, sync, to(Second))]
    First,
    #[phase(sync, to(Third))]
    Second,
    #[phase(sync, to(Fourth))]
    Third,
    #[phase(sync, to(First, Done))]
    Fourth,
    #[phase(end)]
    Done,
}

impl Small {
    fn new(flow: usize, stays: bool) -> Self {
        let begun = now();
        Self {
            flow,
            x: 1,
            begun,
            stays,
        }
    }
}

impl SmallyTransitions for Small {
    fn first(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.x = work(self.x);
        Ok(())
    }

    fn second(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.x = work(self.x);
        Ok(())
    }

    fn third(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.x = work(self.x);
        Ok(())
    }

    fn fourth(&mut self, cx: &mut Cx<'_>) -> Result<SmallyAfterFourth, Infallible> {
        self.x = work(self.x);
        ended(self.flow, self.begun);
        if self.stays {
            self.begun = now();
            return Ok(SmallyAfterFourth::First);
        }
        submit_here(cx, Small::new(self.flow, false));
        Ok(SmallyAfterFourth::Done)
    }
}

/// Blocks forever, 5 ms at a time.
struct Blocker;

#[fom(operation(Blocker), transient)]
enum Blocking {
    #[phase(start, blocking, to(Block, Done))]
    Block,
    #[phase(end)]
    Done,
}

impl BlockingTransitions for Blocker {
    fn block(&mut self, cx: &mut BlockingCx<'_>) -> Result<BlockingAfterBlock, BoxError> {
        block();
        Ok(match cx.is_cancelled() {
            true => BlockingAfterBlock::Done,
            false => BlockingAfterBlock::Block,
        })
    }
}

pub(crate) fn start(peer: &str, blockers: usize) {
    let turns = peer == "fom:turns";
    let mut builder = Runtime::builder().localities(WORKERS);
    if turns {
        builder = builder.budget(Budget {
            phases: 1,
            ..Budget::default()
        });
    }
    let runtime = builder.build().expect("two localities");
    for n in 0..FLOWS {
        let flow = runtime
            .submit(Small::new(n, turns))
            .place(Placement::Locality(n % WORKERS));
        assert!(flow.start().is_ok());
    }
    for n in 0..blockers {
        let blocker = runtime
            .submit(Blocker)
            .place(Placement::Locality(n % WORKERS));
        assert!(blocker.start().is_ok());
    }
    std::mem::forget(runtime);
}
