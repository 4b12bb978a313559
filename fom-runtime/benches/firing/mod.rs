//! Operations with a deadline that fires: half of them in each of two workers.

mod fom;
mod limit;
mod peers;

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{LEAD, SPREAD};

const WORKERS: usize = 2;
/// The number spawned before other tasks have their turn.
const BATCH: usize = 1024;
/// How often a generator spawns when the spawning is spread.
const TICK: Duration = Duration::from_millis(1);
const TICKS: usize = 1000;

/// When the operations are spawned. They fire over one second, two seconds later.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spawn {
    /// All at once; each has a time of its own, one after the other.
    AtOnce,
    /// As `AtOnce`, with the times in random order.
    Shuffled,
    /// Over one second; each has two seconds.
    Spread,
}

/// The deadlines, and the lateness of each.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    spawn: Spawn,
    begun: Instant,
    /// The lateness plus one in nanoseconds, by the number of the operation; zero until it has fired.
    late: &'static [AtomicU64],
}

impl Plan {
    pub(crate) fn new(operations: usize, spawn: Spawn) -> Self {
        Self {
            spawn,
            // The table of the lateness is made before the operations.
            late: Box::leak((0..operations).map(|_| AtomicU64::new(0)).collect()),
            begun: Instant::now(),
        }
    }

    fn operations(&self) -> usize {
        self.late.len()
    }

    /// Returns the time at which this operation fires, if all are spawned at once.
    fn deadline(&self, number: usize) -> Instant {
        let share = match self.spawn {
            Spawn::Shuffled => kit::mix(kit::mix(number as u64 + 1)) as f64 / u64::MAX as f64,
            Spawn::AtOnce | Spawn::Spread => number as f64 / self.operations() as f64,
        };
        self.begun + LEAD + SPREAD.mul_f64(share)
    }

    /// Returns the numbers that a worker spawns.
    fn numbers(&self, worker: usize) -> impl Iterator<Item = usize> + use<> {
        (worker..self.operations()).step_by(WORKERS)
    }

    /// Returns when a worker spawns which operations, if the spawning is spread.
    fn ticks(&self, worker: usize) -> impl Iterator<Item = (Instant, Vec<usize>)> + use<> {
        let (begun, operations) = (self.begun, self.operations());
        (0..TICKS).map(move |tick| {
            let of = |tick: usize| tick * operations / TICKS;
            let numbers = (of(tick)..of(tick + 1)).filter(|number| number % WORKERS == worker);
            (begun + TICK * tick as u32, numbers.collect())
        })
    }

    /// Notes that an operation has fired.
    fn fired(&self, number: usize, deadline: Instant) {
        let late = Instant::now()
            .saturating_duration_since(deadline)
            .as_nanos() as u64;
        // The stored value is one higher, so that an operation without lateness also counts as fired.
        self.late[number].store(late + 1, Ordering::Relaxed);
    }

    /// Waits until all have fired.
    pub(crate) fn wait(&self) {
        thread::sleep(LEAD + SPREAD);
        while self
            .late
            .iter()
            .any(|late| late.load(Ordering::Relaxed) == 0)
        {
            assert!(
                self.begun.elapsed() < Duration::from_secs(40),
                "some have not fired"
            );
            thread::sleep(Duration::from_millis(50));
        }
        // The work after the firing belongs to it.
        kit::settle();
    }

    /// Returns the lateness of all, sorted, in nanoseconds.
    pub(crate) fn lateness(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self
            .late
            .iter()
            .map(|late| late.load(Ordering::Relaxed) - 1)
            .collect();
        all.sort_unstable();
        all
    }
}

/// Starts a peer's workers; returns `false` for an unknown peer.
pub(crate) fn start(peer: &str, plan: Plan) -> bool {
    match peer {
        "fom" => fom::start(plan),
        "limit" => limit::start(plan),
        _ => return peers::start(peer, plan),
    }
    true
}
