//! Operations of 64 bytes of state that wait for an event, with a deadline of an hour. A generator in each of two
//! workers spawns half of them, and wakes them, too.

mod fom;
mod limit;
mod peers;

use std::sync::atomic::{AtomicU64, Ordering};

/// The state of an operation.
#[derive(Clone, Copy)]
pub(crate) struct State {
    words: [u64; 8],
}

impl State {
    fn new(n: usize) -> Self {
        Self {
            words: [n as u64; 8],
        }
    }

    /// Uses all of the state.
    fn sum(&self) -> u64 {
        self.words.iter().fold(0, |sum, word| sum ^ kit::mix(*word))
    }
}

const WORKERS: usize = 2;
/// The number spawned or woken before other tasks have their turn.
const BATCH: usize = 1024;

/// The operations of one peer. A move has only begun when it returns: see `kit::settle`.
pub(crate) trait Timed {
    /// Spawns all operations; each waits.
    fn park(&mut self);
    /// Wakes all operations; each ends.
    fn wake(&mut self);
    /// Returns how many have ended.
    fn ended(&self) -> u64;
}

/// Starts a peer's workers; returns `None` for an unknown peer.
pub(crate) fn start(peer: &str, operations: usize) -> Option<Box<dyn Timed>> {
    match peer {
        "fom" => Some(fom::start(operations)),
        "limit" => Some(limit::start(operations)),
        _ => peers::start(peer, operations),
    }
}

/// The number of ended operations of each worker, for peers that do not count them.
#[repr(align(128))]
struct Ended(AtomicU64);

static ENDED: [Ended; WORKERS] = [const { Ended(AtomicU64::new(0)) }; WORKERS];

impl Ended {
    fn one(state: &State) {
        // The state tells the worker: a task that is larger by a pointer can be larger by a cache line.
        let worker = &ENDED[state.words[0] as usize % WORKERS];
        std::hint::black_box(state.sum());
        worker.0.fetch_add(1, Ordering::Relaxed);
    }

    fn all() -> u64 {
        ENDED
            .iter()
            .map(|ended| ended.0.load(Ordering::Relaxed))
            .sum()
    }
}
