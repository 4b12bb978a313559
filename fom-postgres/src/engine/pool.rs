//! The connections of an engine, and the thread that serves them. The thread of a caller may be inside an async runtime, where
//! it must not wait for a connection.

use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{OnceCell, Semaphore, oneshot},
    time::timeout,
};
use tokio_postgres::Statement;

use crate::{connection::Connection, engine::statements, error::PostgresError, settings::Servers};

/// How long a call takes at most.
const LIMIT: Duration = Duration::from_secs(8);
/// The connections beside the one for heartbeats.
const CONNECTIONS: usize = 4;

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Heartbeats have a connection of their own: nothing delays them.
    Beats = 0,
    /// Everything else.
    Work = 1,
}

/// A connection, with the statement of a commit.
pub(super) struct Link {
    pub(super) to: Connection,
    commit: OnceCell<Statement>,
}

impl Link {
    /// Returns the statement of a commit. The server knows it once there are tables.
    pub(super) async fn commit(&self) -> Result<&Statement, PostgresError> {
        let (text, types) = (statements::COMMIT, statements::COMMIT_TYPES);
        let prepare = || self.to.statement(text, types);
        self.commit.get_or_try_init(prepare).await
    }
}

/// The connections.
pub(super) struct Pool {
    servers: Servers,
    /// The connections that no call uses, for each lane.
    idle: [Mutex<Vec<Arc<Link>>>; 2],
    /// How many calls of each lane use a connection at once.
    at_once: [Semaphore; 2],
}

impl Pool {
    /// Returns a connection that works.
    async fn take(&self, lane: Lane) -> Result<Arc<Link>, PostgresError> {
        loop {
            let idle = lock(&self.idle[lane as usize]).pop();
            match idle {
                Some(link) if link.to.is_closed() => {}
                Some(link) => return Ok(link),
                None => break,
            }
        }
        Ok(Arc::new(Link {
            to: self.servers.connect().await?,
            commit: OnceCell::new(),
        }))
    }

    async fn run<T, F>(
        &self,
        lane: Lane,
        asks: impl FnOnce(Arc<Link>) -> F,
    ) -> Result<T, PostgresError>
    where
        F: Future<Output = Result<T, PostgresError>>,
    {
        let turn = self.at_once[lane as usize].acquire().await;
        let _turn = turn.map_err(|_| PostgresError::Closed)?;
        let link = self.take(lane).await?;
        let answer = asks(Arc::clone(&link)).await?;
        lock(&self.idle[lane as usize]).push(link);
        Ok(answer)
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A panic leaves the list of connections as it should be.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread of the connections. It ends with this value.
pub(super) struct Caller {
    pool: Arc<Pool>,
    thread: Handle,
    _ends: oneshot::Sender<()>,
}

impl Caller {
    /// Starts the thread.
    pub(super) fn start(servers: Servers) -> Result<Self, PostgresError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| PostgresError::Thread(Arc::new(error)))?;
        let thread = runtime.handle().clone();
        let (ends, ended) = oneshot::channel::<()>();
        thread::Builder::new()
            .name("fom-postgres".to_owned())
            .spawn(move || {
                // The sender sends nothing.
                let _ = runtime.block_on(ended);
            })
            .map_err(|error| PostgresError::Thread(Arc::new(error)))?;
        Ok(Self {
            pool: Arc::new(Pool {
                servers,
                idle: Default::default(),
                at_once: [Semaphore::new(1), Semaphore::new(CONNECTIONS)],
            }),
            thread,
            _ends: ends,
        })
    }

    /// Asks the server on a connection of the lane, and waits for the answer. After an error, the connection is closed.
    pub(super) fn ask<T, F>(
        &self,
        lane: Lane,
        asks: impl FnOnce(Arc<Link>) -> F + Send + 'static,
    ) -> Result<T, PostgresError>
    where
        F: Future<Output = Result<T, PostgresError>> + Send + 'static,
        T: Send + 'static,
    {
        let (answer, answered) = mpsc::sync_channel(1);
        let pool = Arc::clone(&self.pool);
        self.thread.spawn(async move {
            let done = timeout(LIMIT, pool.run(lane, asks)).await;
            let seconds = LIMIT.as_secs();
            // The caller waits.
            let _ = answer.send(done.unwrap_or(Err(PostgresError::Silent { seconds })));
        });
        answered.recv().unwrap_or(Err(PostgresError::Closed))
    }
}
