//! The server: a runtime with the data in its localities, and a fom that accepts clients.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fom_patterns::admission::BuildAdmissionError;
use fom_patterns::chore::{Chore, ChoreError};
use fom_patterns::lock::LongLocks;
use fom_patterns::prelude::*;
use fom_runtime::{
    config::ShutdownReport,
    error::BuildError,
    time::{Clock, TestClock},
};
use tokio::net::TcpListener;

use crate::accept::Accept;
use crate::client::{Clients, Memory};
use crate::common::Common;
use crate::live::Live;
use crate::places::Places;
use crate::rate::RateLimit;
use crate::save::{Log, Save, Store, StoreError, Writer};
use crate::shard::{Shard, Wall};
use crate::wire::Limits;

/// The time between two sweeps for expired keys.
const SWEEP: Duration = Duration::from_millis(100);
/// The most keys that one sweep removes.
const SWEPT_AT_ONCE: usize = 1000;

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The number of localities. `None` takes what the machine suggests.
    pub localities: Option<usize>,
    /// The directory of the data. `None` keeps the data in memory only.
    pub directory: Option<PathBuf>,
    /// When a change is on disk.
    pub save: Save,
    /// The most clients at a time.
    pub clients: usize,
    /// Bytes that a client may leave unread before the server sends it away.
    pub unread: usize,
    /// Bytes of all clients together, without the data: requests that are not whole or under way, and unread replies.
    /// Above that, the server evicts the largest client. At least 1 MiB.
    pub clients_memory: usize,
    /// The longest time that a client may be silent.
    pub idle: Option<Duration>,
    /// The limits of a request.
    pub limits: Limits,
    /// A clock for tests.
    pub clock: Option<TestClock>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 6379)),
            localities: None,
            directory: None,
            save: Save::default(),
            clients: 10_000,
            unread: 32 << 20,
            clients_memory: 256 << 20,
            idle: None,
            limits: Limits::default(),
            clock: None,
        }
    }
}

/// The reason why a server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The server cannot listen on the address.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The server cannot read the saved data.
    #[error("what was saved in {0} cannot be read: {1}")]
    Load(PathBuf, #[source] StoreError),
    /// The runtime could not be built.
    #[error("the runtime cannot be made: {0}")]
    Runtime(#[from] BuildError),
    /// The sweeping chore could not be started.
    #[error("the runtime does not work: {0}")]
    Chore(#[from] ChoreError),
    /// The admission could not be built.
    #[error("the admission cannot be made: {0}")]
    Admission(#[source] BuildAdmissionError),
    /// The runtime takes no foms.
    #[error("the runtime takes no foms")]
    Refused,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    common: Arc<Common>,
    local: SocketAddr,
    loaded: usize,
    writer: Mutex<Option<Handle<Writer>>>,
    accept: FomRef<Accept>,
    _sweep: Chore,
}

impl Server {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// Fails with [`StartError`].
    pub async fn start(settings: Settings) -> Result<Server, StartError> {
        let cannot = |error| StartError::Listen(settings.listen, error);
        let listener = std::net::TcpListener::bind(settings.listen).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let local = listener.local_addr().map_err(cannot)?;

        let clock: Clock = settings
            .clock
            .as_ref()
            .map_or_else(Clock::system, Clock::from);
        let wall = Wall::new(clock.clone());
        let mut builder = Runtime::builder().clock(clock).pin(false);
        if let Some(localities) = settings.localities {
            builder = builder.localities(localities);
        }
        let log = settings
            .directory
            .is_some()
            .then(|| Arc::new(Log::new(settings.save)));
        let empty = (wall.clone(), log.clone());
        let runtime = builder
            .resource(LongLocks::new("key"))
            .locality_data(move |_| Ok::<_, BoxError>(Shard::new(empty.0.clone(), empty.1.clone())))
            .build()?;

        let places = Arc::new(Places::new(runtime.localities()));
        let (mut loaded, mut writer) = (0, None);
        if let (Some(directory), Some(log)) = (&settings.directory, &log) {
            let cannot = |error| StartError::Load(directory.clone(), error);
            let store = Store::open(directory).map_err(cannot)?;
            let entries = store.load(wall.now()).map_err(cannot)?;
            loaded = entries.len();
            let mut parts: Vec<_> = (0..runtime.localities()).map(|_| Vec::new()).collect();
            for (key, entry) in entries {
                parts[places.home(&key)].push((key, entry));
            }
            for (index, part) in parts.into_iter().enumerate() {
                let restored = runtime.call(index, |local| local.data::<Shard>().restore(part));
                restored.await.map_err(|_| StartError::Refused)?;
            }
            let fom = Writer {
                log: Arc::clone(log),
                store,
                failures: 0,
            };
            writer = Some(
                runtime
                    .submit(fom)
                    .start()
                    .map_err(|_| StartError::Refused)?,
            );
        }

        let live = Live::new(&settings);
        let common = Arc::new(Common {
            memory: Memory::new(Arc::clone(live.memory())),
            live,
            rate: RateLimit::new(&runtime).map_err(StartError::Admission)?,
            settings,
            places,
            log,
            clients: Clients::default(),
            wall,
            stopping: AtomicBool::new(false),
        });
        let sweep = runtime
            .chore("remove what has expired", SWEEP, |_| {
                Ok::<_, BoxError>(|local: &mut fom_runtime::context::Local<'_>| {
                    local.data::<Shard>().sweep(SWEPT_AT_ONCE);
                })
            })
            .await?;
        let listening = Arc::clone(&common);
        // In a locality, so that its reactor serves the listener.
        let listener = runtime
            .call(0, move |_| TcpListener::from_std(listener))
            .await
            .map_err(|_| StartError::Refused)?
            .map_err(|error| StartError::Listen(local, error))?;
        let accept = Accept::new(listener, listening);
        let accept = runtime
            .submit(accept)
            .place(Placement::Locality(0))
            .start()
            .map_err(|_| StartError::Refused)?;
        let accept = accept.fom().clone();
        Ok(Server {
            runtime,
            common,
            local,
            loaded,
            writer: Mutex::new(writer),
            accept,
            _sweep: sweep,
        })
    }

    /// Returns the address that the server listens on.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns how many keys came back from disk.
    pub fn loaded(&self) -> usize {
        self.loaded
    }

    /// Returns the server's runtime.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Ends the server: it takes no more commands, answers those that it took, and writes all changes.
    pub async fn stop(&self, within: Duration) -> ShutdownReport {
        self.common.stopping.store(true, Ordering::Release);
        self.accept.cancel();
        self.common.clients.wake();
        let by = tokio::time::Instant::now() + within;
        // A client that connects at this moment sees that the server ends before it reads anything.
        while self.common.clients.counts().0 > 0 && tokio::time::Instant::now() < by {
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.common.clients.wake();
        }
        let writer = match self.writer.lock() {
            Ok(mut writer) => writer.take(),
            Err(_) => None,
        };
        if let (Some(writer), Some(log)) = (writer, &self.common.log) {
            log.close();
            // The writer reports by itself what it could not write.
            let _ = tokio::time::timeout_at(by, writer).await;
        }
        self.runtime.shutdown(Shutdown::Drain, within).await
    }
}
