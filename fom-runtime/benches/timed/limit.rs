//! The least that any program could do: a slab, and a hashed wheel of lists through it, in one thread.

use std::hint::black_box;

use super::{State, Timed};

const NONE: u32 = u32::MAX;
const SLOTS: usize = 4096;

/// 80 bytes: the state, its neighbours in a slot of the wheel, the tick of its deadline.
struct Entry {
    state: State,
    next: u32,
    before: u32,
    tick: u64,
}

struct Limit {
    operations: usize,
    slab: Vec<Entry>,
    wheel: Box<[u32]>,
    ended: u64,
}

pub(super) fn start(operations: usize) -> Box<dyn Timed> {
    kit::pin(0);
    Box::new(Limit {
        operations,
        slab: Vec::with_capacity(operations),
        wheel: vec![NONE; SLOTS].into(),
        ended: 0,
    })
}

impl Limit {
    fn arm(&mut self, at: u32, tick: u64) {
        let slot = &mut self.wheel[tick as usize % SLOTS];
        let head = std::mem::replace(slot, at);
        let entry = &mut self.slab[at as usize];
        (entry.next, entry.before, entry.tick) = (head, NONE, tick);
        if let Some(head) = self.slab.get_mut(head as usize) {
            head.before = at;
        }
    }

    fn disarm(&mut self, at: u32) {
        let Entry {
            next, before, tick, ..
        } = self.slab[at as usize];
        if let Some(next) = self.slab.get_mut(next as usize) {
            next.before = before;
        }
        match self.slab.get_mut(before as usize) {
            Some(before) => before.next = next,
            None => self.wheel[tick as usize % SLOTS] = next,
        }
    }
}

impl Timed for Limit {
    fn park(&mut self) {
        for n in 0..self.operations {
            let entry = Entry {
                state: State::new(n),
                next: NONE,
                before: NONE,
                tick: 0,
            };
            self.slab.push(black_box(entry));
            // An hour, plus the progress of the clock meanwhile.
            self.arm(n as u32, 3_600_000 + n as u64 / 4096);
        }
    }

    fn wake(&mut self) {
        for n in 0..self.operations {
            self.disarm(n as u32);
            black_box(self.slab[n].state.sum());
            self.ended += 1;
        }
    }

    fn ended(&self) -> u64 {
        self.ended
    }
}
