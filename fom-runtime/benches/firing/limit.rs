//! The least that any program could do: a slab with a free list, and a hashed wheel with one slot per millisecond, in
//! one thread.

use std::{
    hint::black_box,
    thread,
    time::{Duration, Instant},
};

use super::{Plan, Spawn};
use crate::LEAD;

const NONE: u32 = u32::MAX;
const SLOTS: usize = 4096;
const TICK: Duration = Duration::from_millis(1);

struct Entry {
    number: u32,
    next: u32,
    deadline: Instant,
}

struct Wheel {
    plan: Plan,
    slab: Vec<Entry>,
    free: u32,
    slots: Box<[u32]>,
}

pub(super) fn start(plan: Plan) {
    thread::spawn(move || {
        kit::pin(0);
        let mut wheel = Wheel {
            plan,
            slab: Vec::new(),
            free: NONE,
            slots: vec![NONE; SLOTS].into(),
        };
        wheel.run();
    });
}

impl Wheel {
    fn run(&mut self) {
        let mut spawning: Vec<_> = match self.plan.spawn {
            Spawn::AtOnce | Spawn::Shuffled => {
                for number in 0..self.plan.operations() {
                    self.spawn(number, self.plan.deadline(number));
                }
                Vec::new()
            }
            // The parts of both workers.
            Spawn::Spread => {
                let [one, other] = [0, 1].map(|worker| self.plan.ticks(worker));
                one.zip(other)
                    .map(|((at, one), (_, other))| (at, [one, other].concat()))
                    .collect()
            }
        };
        spawning.reverse();
        for tick in 0.. {
            let due = self.plan.begun + TICK * tick;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if spawning.last().is_some_and(|(at, _)| *at <= due)
                && let Some((_, numbers)) = spawning.pop()
            {
                for number in numbers {
                    self.spawn(number, Instant::now() + LEAD);
                }
            }
            // Fires only what is due by now, at most one tick late.
            let slot = &mut self.slots[tick as usize % SLOTS];
            let mut at = std::mem::replace(slot, NONE);
            while at != NONE {
                at = self.fire(at);
            }
        }
    }

    fn spawn(&mut self, number: usize, deadline: Instant) {
        let since = deadline.saturating_duration_since(self.plan.begun);
        // The first tick that is not before the deadline. No deadline is further off than one turn of the wheel.
        let slot = &mut self.slots[since.as_nanos().div_ceil(TICK.as_nanos()) as usize % SLOTS];
        let entry = Entry {
            number: number as u32,
            next: *slot,
            deadline,
        };
        match self.slab.get_mut(self.free as usize) {
            Some(free) => {
                *slot = std::mem::replace(&mut self.free, free.next);
                *free = entry;
            }
            None => {
                *slot = self.slab.len() as u32;
                self.slab.push(black_box(entry));
            }
        }
    }

    fn fire(&mut self, at: u32) -> u32 {
        let entry = &mut self.slab[at as usize];
        self.plan.fired(entry.number as usize, entry.deadline);
        let next = std::mem::replace(&mut entry.next, self.free);
        self.free = at;
        next
    }
}
