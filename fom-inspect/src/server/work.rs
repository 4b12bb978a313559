//! Work that may take long, or that calls code of the program. It runs on threads beside that of the server.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::timeout,
};

use crate::problem::Problem;

/// How long a walk over the foms may take, and how long an action.
const WALK: Duration = Duration::from_secs(10);
/// How long a client waits for its turn, and for code of the program.
const SECOND: Duration = Duration::from_secs(1);
/// The walks at a time.
const WALKS: usize = 4;

/// The places for work. Work that never ends keeps its place.
#[derive(Debug)]
pub(super) struct Work {
    walks: Arc<Semaphore>,
    actions: Arc<Semaphore>,
    program_actions: Arc<Semaphore>,
    warnings: Arc<Semaphore>,
    metrics: Arc<Semaphore>,
    downloads: Arc<Semaphore>,
    data: Arc<Semaphore>,
    discards: Arc<Semaphore>,
}

/// The threads that all work needs at most.
pub(crate) const THREADS: usize = WALKS + 7;

impl Work {
    pub(super) fn new() -> Self {
        Self {
            walks: Arc::new(Semaphore::new(WALKS)),
            actions: Arc::new(Semaphore::new(1)),
            program_actions: Arc::new(Semaphore::new(1)),
            warnings: Arc::new(Semaphore::new(1)),
            metrics: Arc::new(Semaphore::new(1)),
            downloads: Arc::new(Semaphore::new(1)),
            data: Arc::new(Semaphore::new(1)),
            discards: Arc::new(Semaphore::new(1)),
        }
    }

    /// Runs a walk over the foms.
    pub(super) async fn walk<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        run(&self.walks, WALK, work).await
    }

    /// Runs an action, one at a time.
    pub(super) async fn act<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        run(&self.actions, WALK, work).await
    }

    /// Runs an action that calls code of the program, one at a time. If that code never returns, other actions go on.
    pub(super) async fn act_with_program<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        run(&self.program_actions, SECOND, work).await
    }

    /// Runs a discard, one at a time. It waits for the journal, and holds up no other action. It runs to its end, also after
    /// its client and the inspector are gone.
    pub(super) async fn discard<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        run(&self.discards, WALK, work).await
    }

    /// Runs a listing of the program.
    pub(super) async fn warnings<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        run(&self.warnings, SECOND, work).await
    }

    /// Reads the data of a fom, one at a time.
    pub(super) async fn data<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        run(&self.data, WALK, work).await
    }

    /// Runs what writes the metrics of the program.
    pub(super) async fn metrics<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        run(&self.metrics, SECOND, work).await
    }

    /// Returns the place of a download. There is one, because a slow reader keeps it for long.
    pub(super) fn download(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let place = Arc::clone(&self.downloads).try_acquire_owned();
        place.map_err(|_| Problem::busy("another download is under way; try again later"))
    }
}

async fn run<T: Send + 'static>(
    places: &Arc<Semaphore>,
    limit: Duration,
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let busy = |limit: Duration| {
        let seconds = limit.as_secs();
        Problem::busy(format!(
            "the program does not answer within {seconds} s; try again later"
        ))
    };
    let place = timeout(SECOND, Arc::clone(places).acquire_owned()).await;
    let Ok(Ok(place)) = place else {
        return Err(busy(SECOND));
    };
    let work = spawn_blocking(move || {
        let done = work();
        drop(place);
        done
    });
    match timeout(limit, work).await {
        Ok(Ok(done)) => done,
        Ok(Err(_)) => Err(Problem::panicked()),
        Err(_) => Err(busy(limit)),
    }
}
