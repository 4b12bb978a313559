//! The least that a program could do for the same result: one thread, a ring of state machines, no runtime.

use std::{
    collections::VecDeque,
    hint::black_box,
    sync::atomic::{AtomicPtr, Ordering},
};

use crate::machines::mix;

const WINDOW: usize = 512;

/// Other threads would put the operations to wake in here. It is read on every transition.
static INBOX: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

fn inbox_is_empty() -> bool {
    INBOX.load(Ordering::Relaxed).is_null()
}

#[derive(Clone, Copy)]
enum Phase {
    First,
    Second,
    Third,
    Fourth,
    Done,
}

struct Chain {
    word: u64,
    left: u64,
    phase: Phase,
}

impl Chain {
    fn step(&mut self) -> Phase {
        self.word = mix(self.word);
        self.left -= 1;
        self.phase = match self.phase {
            _ if self.left == 0 => Phase::Done,
            Phase::First => Phase::Second,
            Phase::Second => Phase::Third,
            Phase::Third => Phase::Fourth,
            Phase::Fourth => Phase::First,
            Phase::Done => Phase::Done,
        };
        self.phase
    }
}

/// Runs operations with one allocation each. An operation goes back to the tail of the ring after each phase.
pub(crate) fn chains(operations: u64, phases: u64) {
    let mut ring = VecDeque::with_capacity(WINDOW);
    let mut left = operations;
    while left > 0 {
        while left > 0 && ring.len() < WINDOW {
            left -= 1;
            ring.push_back(Box::new(Chain {
                word: 1,
                left: phases,
                phase: Phase::First,
            }));
        }
        while inbox_is_empty()
            && let Some(mut chain) = ring.pop_front()
        {
            match chain.step() {
                Phase::Done => drop(black_box(chain)),
                _ => ring.push_back(chain),
            }
        }
    }
}

/// An entry of the slab: its neighbours in a slot of the wheel, and one event.
struct Entry {
    next: u32,
    before: u32,
    slot: u32,
    event: Option<u64>,
    word: u64,
}

const NONE: u32 = u32::MAX;
const SLOTS: usize = 1024;

/// A slab, a ring of ready entries, and a hashed wheel of lists through the slab.
struct Home {
    slab: Vec<Entry>,
    ready: VecDeque<u32>,
    wheel: [u32; SLOTS],
}

impl Home {
    fn new() -> Self {
        Self {
            slab: Vec::new(),
            ready: VecDeque::with_capacity(WINDOW),
            wheel: [NONE; SLOTS],
        }
    }

    fn park(&mut self) -> u32 {
        self.slab.push(Entry {
            next: NONE,
            before: NONE,
            slot: NONE,
            event: None,
            word: 1,
        });
        self.slab.len() as u32 - 1
    }

    fn arm(&mut self, at: u32, tick: usize) {
        let slot = tick % SLOTS;
        let head = std::mem::replace(&mut self.wheel[slot], at);
        if let Some(head) = self.slab.get_mut(head as usize) {
            head.before = at;
        }
        let entry = &mut self.slab[at as usize];
        entry.next = head;
        entry.slot = slot as u32;
    }

    fn disarm(&mut self, at: u32) {
        let entry = &self.slab[at as usize];
        let (next, before, slot) = (entry.next, entry.before, entry.slot);
        if slot == NONE {
            return;
        }
        match self.slab.get_mut(before as usize) {
            Some(entry) => entry.next = next,
            None => self.wheel[slot as usize] = next,
        }
        if let Some(entry) = self.slab.get_mut(next as usize) {
            entry.before = before;
        }
    }

    fn send(&mut self, to: u32, event: u64) {
        self.slab[to as usize].event = Some(event);
        self.ready.push_back(to);
    }

    /// Returns the next ready entry, with its event.
    fn next(&mut self) -> Option<(u32, u64)> {
        let at = self.ready.pop_front().filter(|_| inbox_is_empty())?;
        let entry = &mut self.slab[at as usize];
        let event = entry.event.take()?;
        entry.word = mix(entry.word ^ event);
        Some((at, event))
    }
}

/// Two operations that send each other an event.
pub(crate) fn hits(times: u64) {
    let mut home = Home::new();
    let (one, other) = (home.park(), home.park());
    let mut left = times;
    home.send(one, 1);
    while let Some((at, event)) = home.next() {
        left -= 1;
        if left == 0 {
            break;
        }
        home.send(one + other - at, event + 1);
    }
    black_box(home.slab);
}

/// Parks operations, with a deadline or without, and then wakes and ends them if `go`.
pub(crate) fn parked(operations: u64, timed: bool, go: bool) {
    let mut home = Home::new();
    for tick in 0..operations as usize {
        let at = home.park();
        if timed {
            home.arm(at, tick);
        }
    }
    if go {
        for at in 0..operations as u32 {
            home.send(at, 1);
            if home.ready.len() == WINDOW || u64::from(at) + 1 == operations {
                while let Some((at, _)) = home.next() {
                    home.disarm(at);
                }
            }
        }
    }
    black_box(home.slab);
}

/// 512 operations that ask, and one that answers all that have asked.
pub(crate) fn calls(times: u64) {
    let mut home = Home::new();
    let mut asked = Vec::with_capacity(WINDOW);
    asked.extend((0..WINDOW).map(|_| home.park()));
    let mut answered = 0;
    while answered < times {
        for at in asked.drain(..) {
            answered += 1;
            home.send(at, answered);
        }
        while let Some((at, _)) = home.next() {
            asked.push(at);
        }
    }
    black_box(home.slab);
}
