//! Generators: they keep a constant number of operations in flight, forever.

use std::{convert::Infallible, marker::PhantomData};

use fom_runtime::{Cx, Operation, Runtime, fom, submission::Placement};

use super::{Flight, LocalWindow, SharedWindow, submit_here};
use crate::Tally;

/// The work of each worker's generator, and where it reports its progress.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The number of workers, with a generator each.
    pub workers: usize,
    /// The number of phases of an operation.
    pub phases: u32,
    /// The most operations in flight in each worker.
    pub window: usize,
    /// The number of operations started at a time.
    pub batch: usize,
    /// The number of operations that each worker has finished.
    pub tallies: &'static [Tally],
}

impl Load {
    /// Makes a load that starts a quarter of the window at a time.
    pub fn new(workers: usize, phases: u32, window: usize) -> Self {
        Self {
            workers,
            phases,
            window,
            batch: (window / 4).max(1),
            tallies: Tally::of(workers),
        }
    }

    fn low(&self) -> usize {
        self.window - self.batch
    }

    /// Returns how many of the started operations have finished when no more than `low` are in flight. There are fewer
    /// than `low` only before the window is full.
    fn finished(&self, started: u64) -> u64 {
        started.saturating_sub(self.low() as u64)
    }
}

/// Spawns operations with tasks that stay on this thread.
pub async fn generate(load: Load, n: usize, window: &LocalWindow, mut spawn: impl FnMut(u64)) {
    let mut started = 0;
    loop {
        for _ in 0..load.batch {
            spawn(started);
            started += 1;
        }
        window.add(load.batch);
        window.at_most(load.low()).await;
        load.tallies[n].set(load.finished(started));
    }
}

/// The same for tasks that other threads may take.
pub async fn generate_shared(
    load: Load,
    n: usize,
    window: &SharedWindow,
    mut spawn: impl FnMut(u64),
) {
    let mut started = 0;
    loop {
        window.add(load.batch);
        for _ in 0..load.batch {
            spawn(started);
            started += 1;
        }
        window.at_most(load.low()).await;
        load.tallies[n].set(load.finished(started));
    }
}

/// An operation made from a number. It goes through `phases` phases, and tells [`Flight`] when it ends.
pub trait Small: Operation {
    /// Makes operation `x`.
    fn new(x: u64, phases: u32) -> Self;
}

struct Generator<O> {
    load: Load,
    small: PhantomData<O>,
}

#[fom(
    operation("Generator<O>"),
    generics("O: Small"),
    error(Infallible),
    transient
)]
enum Generating {
    #[phase(start, to(Never))]
    Generate,
    #[phase(end)]
    Never,
}

impl<O: Small> GeneratingTransitions for Generator<O> {
    async fn generate(&mut self, cx: &mut Cx<'_>) -> Result<(), Infallible> {
        let load = self.load;
        let mut started = 0;
        loop {
            for _ in 0..load.batch {
                submit_here(cx, O::new(started, load.phases));
                started += 1;
            }
            cx.local(|flight: &mut Flight| flight.add(load.batch));
            let flying = Flight::at_most(cx, load.low()).await;
            load.tallies[cx.locality()].set(started - flying as u64);
        }
    }
}

/// Starts a generator of foms in each locality. The runtime stays forever.
pub fn generate_foms<O: Small>(runtime: Runtime, load: Load) {
    for n in 0..load.workers {
        let generator = Generator {
            load,
            small: PhantomData::<O>,
        };
        let started = runtime
            .submit(generator)
            .place(Placement::Locality(n))
            .detach();
        started.expect("there is room");
    }
    std::mem::forget(runtime);
}
