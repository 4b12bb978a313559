//! Foms with a given amount of state and number of phases, some of which block.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use fom_runtime::{BlockingCx, Cx, fom};
use kit::{
    mix,
    peers::{Flight, Small, generate_foms},
};

use crate::{BLOCK, Shape};

/// The percentage of operations that block. One setting for the process.
static BLOCKING_PERCENT: AtomicU64 = AtomicU64::new(0);

struct Work<const WORDS: usize> {
    left: u32,
    blocks: bool,
    state: [u64; WORDS],
}

#[fom(
    operation("Work<WORDS>"),
    generics("const WORDS: usize"),
    error(Infallible),
    transient
)]
enum Working {
    #[phase(start, sync, to(Step, Block, Done))]
    Step,
    #[phase(blocking, to(Step))]
    Block,
    #[phase(end)]
    Done,
}

impl<const WORDS: usize> WorkingTransitions for Work<WORDS> {
    fn step(&mut self, cx: &mut Cx<'_>) -> Result<WorkingAfterStep, Infallible> {
        let word = &mut self.state[self.left as usize % WORDS];
        *word = mix(*word);
        self.left -= 1;
        if self.left == 0 {
            cx.local(|flight: &mut Flight| flight.done(self.state[0]));
            return Ok(WorkingAfterStep::Done);
        }
        if self.blocks {
            self.blocks = false;
            return Ok(WorkingAfterStep::Block);
        }
        Ok(WorkingAfterStep::Step)
    }

    fn block(&mut self, _: &mut BlockingCx<'_>) -> Result<(), Infallible> {
        thread::sleep(BLOCK);
        Ok(())
    }
}

impl<const WORDS: usize> Small for Work<WORDS> {
    fn new(x: u64, phases: u32) -> Self {
        Self {
            left: phases,
            blocks: x % 100 < BLOCKING_PERCENT.load(Ordering::Relaxed),
            state: [x; WORDS],
        }
    }
}

pub(crate) fn start(shape: Shape) {
    BLOCKING_PERCENT.store(shape.blocking_percent, Ordering::Relaxed);
    let runtime = kit::peers::fom(shape.load.workers)
        .build()
        .expect("a runtime");
    match shape.state_bytes {
        8 => generate_foms::<Work<1>>(runtime, shape.load),
        64 => generate_foms::<Work<8>>(runtime, shape.load),
        256 => generate_foms::<Work<32>>(runtime, shape.load),
        1024 => generate_foms::<Work<128>>(runtime, shape.load),
        4096 => generate_foms::<Work<512>>(runtime, shape.load),
        other => panic!("there is no fom with {other} bytes of state"),
    }
}
