//! The least that any program could do: a ring of pointers for each thread, and a match.

use std::{
    collections::VecDeque,
    hint::black_box,
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
    thread,
};

use kit::{mix, peers::Load, pin};

use crate::words::{Words, touch, words};

struct Op<S> {
    phase: u32,
    left: u32,
    x: u64,
    state: S,
}

#[derive(Clone, Copy)]
pub(crate) enum Memory {
    /// One allocation each.
    Malloc,
    /// A free list.
    Slab,
}

pub(crate) fn start(load: Load, memory: Memory, straight: bool) {
    for n in 0..load.workers {
        thread::spawn(move || {
            pin(n);
            match (memory, straight) {
                (Memory::Malloc, false) => work::<(), false, false>(load, n),
                (Memory::Malloc, true) => work::<(), false, true>(load, n),
                (Memory::Slab, false) => work::<(), true, false>(load, n),
                (Memory::Slab, true) => work::<(), true, true>(load, n),
            }
        });
    }
}

/// The same with operations that have 4 KiB of state.
pub(crate) fn start_large(load: Load, memory: Memory) {
    for n in 0..load.workers {
        thread::spawn(move || {
            pin(n);
            match memory {
                Memory::Malloc => work::<Words, false, false>(load, n),
                Memory::Slab => work::<Words, true, false>(load, n),
            }
        });
    }
}

/// The state of an operation.
trait State {
    /// Makes the state of operation `x`.
    fn new(x: u64) -> Self;

    /// Changes what `phase` needs of it. Returns what goes on.
    fn step(&mut self, phase: u32, x: u64) -> u64;
}

impl State for () {
    #[inline]
    fn new(_: u64) -> Self {}

    #[inline]
    fn step(&mut self, _: u32, x: u64) -> u64 {
        x
    }
}

impl State for Words {
    #[inline]
    fn new(x: u64) -> Self {
        words(x)
    }

    #[inline]
    fn step(&mut self, phase: u32, x: u64) -> u64 {
        touch(self, u64::from(phase), x)
    }
}

/// Makes a step. Returns whether the operation has ended.
#[inline]
fn step<S: State>(op: &mut Op<S>) -> bool {
    op.x = match op.phase {
        0 => mix(op.x),
        1 => mix(op.x ^ 1),
        2 => mix(op.x ^ 2),
        _ => mix(op.x ^ 3),
    };
    op.x = op.state.step(op.phase, op.x);
    op.phase = (op.phase + 1) & 3;
    op.left -= 1;
    op.left == 0
}

fn work<S: State, const SLAB: bool, const STRAIGHT: bool>(load: Load, n: usize) -> ! {
    // The operations from other threads. A runtime must look at them on every transition.
    let inbox = black_box(Box::leak(Box::new(
        AtomicPtr::<Op<S>>::new(ptr::null_mut()),
    )));
    let mut ready: VecDeque<Box<Op<S>>> = VecDeque::with_capacity(load.window);
    let mut free: Vec<Box<Op<S>>> = Vec::with_capacity(load.window);
    let (mut started, mut finished, mut sum) = (0_u64, 0_u64, 0_u64);
    loop {
        while ready.len() <= load.window - load.batch {
            for _ in 0..load.batch {
                let new = Op {
                    phase: 0,
                    left: load.phases,
                    x: started,
                    state: S::new(started),
                };
                started += 1;
                ready.push_back(match free.pop() {
                    Some(mut op) if SLAB => {
                        *op = new;
                        op
                    }
                    _ => Box::new(new),
                });
            }
        }
        load.tallies[n].set(finished);
        black_box(sum);
        for _ in 0..load.window {
            if !inbox.load(Ordering::Acquire).is_null() {
                unreachable!("no event is sent");
            }
            let Some(mut op) = ready.pop_front() else {
                break;
            };
            let mut done = step(&mut op);
            while STRAIGHT && !done {
                done = step(&mut op);
            }
            if !done {
                ready.push_back(op);
                continue;
            }
            sum ^= op.x;
            finished += 1;
            if SLAB {
                free.push(op);
            }
        }
    }
}
