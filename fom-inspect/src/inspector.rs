//! The inspector, as programs use it.

use std::{
    fmt, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use fom_runtime::{Operation, Persistent, Runtime};
use serde::de::DeserializeOwned;
use tokio::{
    sync::oneshot,
    task::spawn,
    time::{MissedTickBehavior, interval},
};

use crate::{
    address::{Address, Bound},
    error::StartError,
    samples::STEP,
    server::{Access, Handler, Listening, THREADS, serve},
    source::{MetricsSource, Source, WarningSource},
    state::State,
    token::Token,
    types::Types,
};

/// The settings of an inspector of a runtime. [`start`](Self::start) starts it.
///
/// ```
/// use fom_inspect::Inspector;
/// use fom_runtime::prelude::*;
///
/// # fn main() -> Result<(), BoxError> {
/// let runtime = Runtime::new()?;
/// let inspector = Inspector::new(&runtime).bind("127.0.0.1:0").start()?;
/// println!("look at {}", inspector.url());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "an inspector does nothing before it is started"]
pub struct Inspector {
    runtime: Runtime,
    address: Address,
    names: Vec<String>,
    read: Option<Token>,
    act: Option<Token>,
    types: Types,
    warnings: WarningSource,
    data: Option<PathBuf>,
    metrics: MetricsSource,
}

impl Inspector {
    /// Returns the settings of an inspector of this runtime. The inspector does not keep the runtime alive.
    pub fn new(runtime: &Runtime) -> Self {
        Self {
            runtime: runtime.detached(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)).into(),
            names: Vec::new(),
            read: None,
            act: None,
            types: Types::default(),
            warnings: WarningSource::default(),
            data: None,
            metrics: MetricsSource::default(),
        }
    }

    /// Sets where the inspector listens: a loopback address, or the path of a Unix socket, which gets the mode 0600. Any other
    /// address needs a [token](Self::token). Default: a free port of 127.0.0.1.
    ///
    /// ```no_run
    /// # use fom_inspect::Inspector;
    /// # use fom_runtime::{Runtime, prelude::*};
    /// # fn main() -> Result<(), BoxError> {
    /// # let runtime = Runtime::new()?;
    /// let inspector = Inspector::new(&runtime).bind("/run/orders/inspect.sock").start()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn bind(mut self, address: impl Into<Address>) -> Self {
        self.address = address.into();
        self
    }

    /// Allows clients to call the program by this name, in the header `Host`. Allowed without this are the address that the
    /// inspector is bound to, and `localhost`. A proxy in front of the inspector needs it.
    pub fn allow_host(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Requires this token for reading, too. It has at least 16 characters. Clients send it as
    /// `Authorization: Bearer TOKEN`.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.read = Some(Token::new(token.into()));
        self
    }

    /// Allows actions, such as a cancel, to clients with this token. It has at least 16 characters. Each action is an
    /// [incident](fom_runtime::observe::Inspect::incidents) with its reason.
    ///
    /// ```
    /// # use fom_inspect::Inspector;
    /// # use fom_runtime::{Runtime, prelude::*};
    /// # fn main() -> Result<(), BoxError> {
    /// # let runtime = Runtime::new()?;
    /// # let token = "correct horse battery staple";
    /// let inspector = Inspector::new(&runtime).actions(token).start()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn actions(mut self, token: impl Into<String>) -> Self {
        self.act = Some(Token::new(token.into()));
        self
    }

    /// Shows the data of foms to clients with a token. From now on, reading needs the token, too. `journal` is the directory
    /// of the program's journal. The data is that of the last commit: a fom that is not in the journal has none. In place of a
    /// field that the machine declares as [`secret`](fom_runtime::fom#secretfield-) there is `(secret)`.
    ///
    /// Each request reads the whole journal, one request at a time. The feature `durable` of this package is needed.
    ///
    /// ```
    /// # use fom_inspect::Inspector;
    /// # use fom_runtime::{Runtime, prelude::*};
    /// # fn main() -> Result<(), BoxError> {
    /// # let runtime = Runtime::new()?;
    /// # let token = "correct horse battery staple";
    /// let inspector = Inspector::new(&runtime).token(token).data("orders-journal").start()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn data(mut self, journal: impl Into<PathBuf>) -> Self {
        self.data = Some(journal.into());
        self
    }

    /// Names an operation type. Clients can suspend and resume its keys.
    pub fn operation<O: Operation>(mut self) -> Self {
        self.types.operation::<O>();
        self
    }

    /// Names an operation type that can be saved. Clients can suspend and resume its keys, and submit its failures again.
    pub fn persistent<O: Persistent>(mut self) -> Self {
        self.types.persistent::<O>();
        self
    }

    /// Names an operation type with events that can be read. Clients can suspend and resume its keys, and send it events as
    /// JSON.
    ///
    /// ```
    /// # use fom_inspect::Inspector;
    /// use fom_runtime::prelude::*;
    ///
    /// struct Call;
    ///
    /// #[derive(serde::Deserialize)]
    /// enum News {
    ///     Answer,
    /// }
    ///
    /// #[fom(operation(Call), event(News), transient)]
    /// enum Route {
    ///     #[phase(start, sync, to(Over), on(Answer))]
    ///     Ring,
    ///     #[phase(end)]
    ///     Over,
    /// }
    /// # impl RouteTransitions for Call {
    /// #     fn ring(&mut self, _: &mut Cx<'_, News>, _: News) -> Result<RouteAfterRing, BoxError> {
    /// #         Ok(RouteAfterRing::Over)
    /// #     }
    /// # }
    /// # fn main() -> Result<(), BoxError> {
    /// # let runtime = Runtime::new()?;
    /// # let token = "correct horse battery staple";
    /// let inspector = Inspector::new(&runtime).actions(token).event::<Call>();
    /// # Ok(())
    /// # }
    /// ```
    pub fn event<O>(mut self) -> Self
    where
        O: Operation,
        O::Event: DeserializeOwned,
    {
        self.types.event::<O>();
        self
    }

    /// Shows the warnings of this source, such as those of the package `fom-watch`: a list, or a value with such a list as its
    /// field `warnings`. Each warning has at least a `level`, a `text` and an `age` in seconds.
    /// With `fom-watch`, the source is `let of = runtime.detached(); move || of.inspect().warnings()`.
    ///
    /// ```
    /// # use fom_inspect::Inspector;
    /// # use fom_runtime::{Runtime, prelude::*};
    /// #[derive(serde::Serialize)]
    /// struct Warning {
    ///     level: &'static str,
    ///     text: String,
    ///     age: f64,
    /// }
    ///
    /// # fn disk_is_full() -> Vec<Warning> { Vec::new() }
    /// # fn main() -> Result<(), BoxError> {
    /// # let runtime = Runtime::new()?;
    /// let inspector = Inspector::new(&runtime).warnings(disk_is_full).start()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn warnings(mut self, source: impl Source) -> Self {
        self.warnings = WarningSource(Some(Arc::new(source)));
        self
    }

    /// Serves metrics at `/metrics`, for Prometheus. The source returns them as text, in the format 0.0.4 of Prometheus. With
    /// `fom-metrics`, the source is `let of = runtime.detached(); move || fom_metrics::text(&of)`.
    ///
    /// A scraper needs the [token](Self::token) for reading, if there is one. The inspector calls the source on a thread of its
    /// own, once at a time, and waits one second for it.
    ///
    /// ```
    /// # use fom_inspect::Inspector;
    /// # use fom_runtime::{Runtime, prelude::*};
    /// # fn main() -> Result<(), BoxError> {
    /// # let runtime = Runtime::new()?;
    /// let inspector = Inspector::new(&runtime).metrics(|| Ok("up 1\n".into())).start()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn metrics(
        mut self,
        source: impl Fn() -> Result<String, fmt::Error> + Send + Sync + 'static,
    ) -> Self {
        self.metrics = MetricsSource(Some(Arc::new(source)));
        self
    }

    /// Starts the inspector on a thread of its own. It runs in no locality and waits for none. From now on the runtime
    /// [counts](Runtime::observe). When this returns, the inspector listens. A runtime can have several inspectors.
    ///
    /// # Errors
    ///
    /// Fails with [`StartError`], and then nothing listens:
    ///
    /// - [`WeakToken`](StartError::WeakToken): a token has fewer than 16 bytes.
    /// - [`Bind`](StartError::Bind), [`PathInUse`](StartError::PathInUse): the address cannot be bound to.
    /// - [`NeedsToken`](StartError::NeedsToken): other machines reach the address, and there is no token.
    /// - [`DataNeedsToken`](StartError::DataNeedsToken): the inspector shows data, and there is no token.
    /// - [`Thread`](StartError::Thread): the system has no thread for it.
    pub fn start(self) -> Result<InspectorHandle, StartError> {
        for token in self.read.iter().chain(&self.act) {
            token.check()?;
        }
        let listening = Listening::bind(&self.address)?;
        let bound = listening.bound.clone();
        let access = self.access(&bound)?;
        let acts = self.act.is_some();
        let state = Arc::new(State::new(
            &self.runtime,
            self.types,
            self.warnings,
            acts,
            self.data,
        ));
        let handler = Arc::new(Handler::new(Arc::clone(&state), access, self.metrics));
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        let run = move || run(listening, state, handler, stopped, &tell);
        let thread = thread::Builder::new().name("fom-inspect".into());
        let thread = thread.spawn(run).map_err(StartError::Thread)?;
        let begun = told
            .recv()
            .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        begun.map_err(StartError::Thread)?;
        Ok(InspectorHandle {
            bound,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    fn access(&self, bound: &Bound) -> Result<Access, StartError> {
        let address = match bound {
            Bound::Tcp(address) => Some(*address),
            Bound::Unix(_) => None,
        };
        let mut read = self.read.clone();
        if self.data.is_some() {
            read = read.or_else(|| self.act.clone());
            if read.is_none() {
                return Err(StartError::DataNeedsToken);
            }
        }
        if let Some(address) = address
            && !address.ip().is_loopback()
        {
            read = read.or_else(|| self.act.clone());
            if read.is_none() {
                return Err(StartError::NeedsToken(address));
            }
        }
        Ok(Access {
            bound: address,
            names: self.names.clone(),
            read,
            act: self.act.clone(),
        })
    }
}

/// Serves until the handle is gone. The async runtime is made and dropped here, because the caller may be in another one.
fn run(
    listening: Listening,
    state: Arc<State>,
    handler: Arc<Handler>,
    stopped: oneshot::Receiver<()>,
    tell: &mpsc::Sender<io::Result<()>>,
) {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS)
        .thread_name("fom-inspect")
        .build();
    // The caller waits for what is told.
    let tokio = match tokio {
        Ok(tokio) => tokio,
        Err(error) => return drop(tell.send(Err(error))),
    };
    let listener = {
        let _in_runtime = tokio.enter();
        listening.listen()
    };
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => return drop(tell.send(Err(error))),
    };
    let _ = tell.send(Ok(()));
    tokio.block_on(async move {
        spawn(serve(listener, Arc::clone(&handler)));
        spawn(sample(state));
        spawn(watch(handler));
        // An error means that the handle is gone.
        let _ = stopped.await;
    });
    // Work that never ends is left behind.
    tokio.shutdown_timeout(Duration::ZERO);
}

/// Takes a sample of the counters every two seconds.
async fn sample(state: Arc<State>) {
    let mut ticks = interval(STEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        state.sample();
    }
}

/// Lists the warnings every two seconds, while there are clients.
async fn watch(handler: Arc<Handler>) {
    let mut ticks = interval(STEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        handler.watch().await;
    }
}

/// A running inspector. It stops when this is dropped; [`forever`](Self::forever) leaves it running. It also answers after the
/// runtime is closed, and does not keep the runtime alive.
///
/// A drop waits for the thread of the inspector. It closes the port and all connections, removes the file of a Unix socket, and
/// resumes the keys that clients suspended. It does not wait for work that is under way: a walk, an action, a discard, or a
/// source of the program. Such work goes on in its thread. While it does, the keys stay suspended.
#[must_use = "the inspector stops when this is dropped"]
pub struct InspectorHandle {
    bound: Bound,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for InspectorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InspectorHandle")
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

impl InspectorHandle {
    /// Returns the address that the inspector listens at, with its real port. `None` for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.bound {
            Bound::Tcp(address) => Some(*address),
            Bound::Unix(_) => None,
        }
    }

    /// Returns the path of the Unix socket, if the inspector listens at one.
    pub fn path(&self) -> Option<&Path> {
        match &self.bound {
            Bound::Tcp(_) => None,
            Bound::Unix(path) => Some(path),
        }
    }

    /// Returns where a browser or another client finds the inspector: `http://127.0.0.1:7070/` or `unix:PATH`. It has no
    /// token.
    pub fn url(&self) -> String {
        match &self.bound {
            Bound::Tcp(address) => format!("http://{address}/"),
            Bound::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// Leaves the inspector running until the process ends.
    pub fn forever(mut self) {
        if let Some(stop) = self.stop.take() {
            std::mem::forget(stop);
        }
        self.thread = None;
    }
}

impl Drop for InspectorHandle {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread does not panic.
            let _ = thread.join();
        }
    }
}
