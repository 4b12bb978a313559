//! The least that any program could do: a ring for each worker, and a thread for each blocking operation.

use std::{collections::VecDeque, hint::black_box, thread};

use kit::now;

use super::{FLOWS, WORKERS, block, ended, work};

struct Op {
    flow: usize,
    part: u32,
    x: u64,
    begun: u64,
}

pub(crate) fn start(blockers: usize) {
    for n in 0..WORKERS {
        thread::spawn(move || {
            let mut ring: VecDeque<_> = (n..FLOWS)
                .step_by(WORKERS)
                .map(|flow| {
                    let begun = now();
                    Box::new(Op {
                        flow,
                        part: 0,
                        x: 1,
                        begun,
                    })
                })
                .collect();
            while let Some(mut op) = ring.pop_front() {
                op.x = work(op.x);
                op.part += 1;
                while op.part == 4 {
                    ended(op.flow, op.begun);
                    op.begun = now();
                    op.x = work(op.x);
                    op.part = 1;
                }
                ring.push_back(black_box(op));
            }
        });
    }
    for _ in 0..blockers {
        thread::spawn(|| {
            loop {
                block();
            }
        });
    }
}
