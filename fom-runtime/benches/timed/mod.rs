//! Operations of 64 bytes of state that wait for an event, with a deadline of an hour. Half of them are
//! spawned in each of two workers, by a generator; it wakes them, too.

mod fom;
mod limit;
mod peers;

use std::sync::atomic::{AtomicU64, Ordering};

/// What an operation keeps.
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

    /// All of it is used to the last.
    fn sum(&self) -> u64 {
        self.words.iter().fold(0, |sum, word| sum ^ kit::mix(*word))
    }
}

const WORKERS: usize = 2;
/// Spawned, or woken, before the others have their turn.
const BATCH: usize = 1024;

/// Those of one peer. A move has only begun when it returns: see `kit::settle`.
pub(crate) trait Timed {
    /// Spawns all; each waits.
    fn park(&mut self);
    /// Wakes all; each ends.
    fn wake(&mut self);
    /// How many have ended.
    fn ended(&self) -> u64;
}

/// Starts a peer's workers; `None` when it is not known.
pub(crate) fn start(peer: &str, operations: usize) -> Option<Box<dyn Timed>> {
    match peer {
        "fom" => Some(fom::start(operations)),
        "limit" => Some(limit::start(operations)),
        _ => peers::start(peer, operations),
    }
}

/// How many of each worker's have ended: for peers that do not count them.
#[repr(align(128))]
struct Ended(AtomicU64);

static ENDED: [Ended; WORKERS] = [const { Ended(AtomicU64::new(0)) }; WORKERS];

impl Ended {
    fn one(state: &State) {
        // Found by the state: a task that is larger by a pointer can be larger by a cache line.
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
