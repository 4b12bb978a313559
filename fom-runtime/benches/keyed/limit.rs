//! The limit: a ring for each worker, with one writer and one reader. The writer publishes 32 requests at a time.

use std::{
    cell::UnsafeCell,
    mem::MaybeUninit,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use kit::{Spent, Tally, pin};

use crate::load::{Load, Request, WORKERS};

const SLOTS: usize = 8192;
const BATCH: usize = 32;

#[repr(align(128))]
struct End(AtomicUsize);

struct Ring {
    slots: Box<[UnsafeCell<MaybeUninit<Request>>]>,
    written: End,
    read: End,
}

// SAFETY: a slot is the writer's until `written` has gone past it, then the reader's until `read` has.
unsafe impl Sync for Ring {}

impl Ring {
    fn new() -> &'static Self {
        Box::leak(Box::new(Self {
            slots: (0..SLOTS)
                .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
                .collect(),
            written: End(AtomicUsize::new(0)),
            read: End(AtomicUsize::new(0)),
        }))
    }
}

struct Writer {
    ring: &'static Ring,
    at: usize,
    read: usize,
}

impl Writer {
    fn push(&mut self, request: Request) {
        while self.at - self.read == SLOTS {
            self.show();
            self.read = self.ring.read.0.load(Ordering::Acquire);
            if self.at - self.read == SLOTS {
                thread::yield_now();
            }
        }
        // SAFETY: the slot has been read by now, so it is the writer's.
        unsafe { (*self.ring.slots[self.at % SLOTS].get()).write(request) };
        self.at += 1;
        if self.at.is_multiple_of(BATCH) {
            self.show();
        }
    }

    fn show(&self) {
        self.ring.written.0.store(self.at, Ordering::Release);
    }
}

fn read(ring: &Ring, load: Load, done: &Tally) {
    let mut at = 0;
    loop {
        let written = ring.written.0.load(Ordering::Acquire);
        if written == at {
            done.set(at as u64);
            thread::yield_now();
            continue;
        }
        while at < written {
            // SAFETY: the slot is written, and not read yet.
            let request = unsafe { (*ring.slots[at % SLOTS].get()).assume_init() };
            at += 1;
            load.work(request);
            if at.is_multiple_of(BATCH) {
                ring.read.0.store(at, Ordering::Release);
            }
        }
        ring.read.0.store(at, Ordering::Release);
    }
}

pub(crate) fn serve(load: Load) -> Spent {
    let tallies = Tally::of(WORKERS);
    let mut writers: Vec<_> = tallies
        .iter()
        .enumerate()
        .map(|(n, done)| {
            let ring = Ring::new();
            thread::spawn(move || {
                pin(n);
                read(ring, load, done);
            });
            Writer {
                ring,
                at: 0,
                read: 0,
            }
        })
        .collect();
    load.measure(
        || {
            for request in load.requests {
                writers[crate::load::shard(request.key, WORKERS)].push(*request);
            }
            writers.iter().for_each(Writer::show);
        },
        || tallies.iter().map(Tally::get).sum(),
    )
}
