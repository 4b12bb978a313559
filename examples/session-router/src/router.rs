//! The settings, the start and the end of the router. `front` brings each datagram to its fom.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use fom_durable::{Quarantined, prelude::*};
use fom_net::{ServeError, UdpServer, serve_udp};
use fom_runtime::{
    Builder,
    error::{BuildError, DurabilityError},
    observe::{FomInfo, TransitionCause},
    time::TestClock,
};

use crate::bindings::Bindings;
use crate::call::{Call, Timers};
use crate::cdr::Records;
use crate::counters::Counters;
use crate::front::{Front, Stuck};
use crate::locator::{Locator, MOST_USERS};
use crate::report::PhaseTimes;
use crate::sources::Limits;
use crate::wire::udp::Net;

/// The settings of a router.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Endpoints that need not register: user and address.
    pub endpoints: Vec<(String, SocketAddr)>,
    /// True to ring all addresses of such a user at once, instead of in turn.
    pub fork: bool,
    /// The number of localities. `None` takes what the machine suggests.
    pub localities: Option<usize>,
    /// The timers.
    pub timers: Timers,
    /// The most calls at a time of all sources, with those that only absorb retransmissions.
    pub capacity: usize,
    /// The most users with registered bindings.
    pub users: usize,
    /// The limits of each source of packets.
    pub limits: Limits,
    /// The bytes of datagrams that the kernel should keep until the router receives them.
    pub buffer: usize,
    /// The file for call detail records.
    pub records: Option<PathBuf>,
    /// The shortest lifetime that a client may register for.
    pub shortest: Duration,
    /// The directory of the journal. Without one nothing survives.
    pub journal: Option<PathBuf>,
    /// The clock of the foms.
    pub clock: Option<TestClock>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 5060)),
            endpoints: Vec::new(),
            fork: false,
            localities: None,
            timers: Timers::default(),
            capacity: 131_072,
            users: MOST_USERS,
            limits: Limits::default(),
            buffer: 4 << 20,
            records: None,
            shortest: Duration::from_secs(60),
            journal: None,
            clock: None,
        }
    }
}

/// The reason why a router could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The socket.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The file for call detail records.
    #[error("cannot write call detail records")]
    Records(#[source] io::Error),
    /// An address of an endpoint.
    #[error("cannot use the address of an endpoint")]
    Endpoint(#[source] io::Error),
    /// A thread of the twin.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// The foms that serve the socket.
    #[error("cannot serve the socket")]
    Front(#[source] ServeError),
    /// The journal.
    #[error("cannot go on with what is in the journal")]
    Journal(#[source] DurabilityError),
    /// The runtime.
    #[error("cannot start the runtime")]
    Runtime(#[source] BuildError),
}

impl From<BuildError> for StartError {
    fn from(error: BuildError) -> StartError {
        match error {
            BuildError::Journal(error) => StartError::Journal(error),
            error => StartError::Runtime(error),
        }
    }
}

/// What the journal brought back at the start of the router.
#[derive(Debug, Clone, Default)]
pub struct CameBack {
    /// Calls, by the phase in which they continue.
    pub calls: BTreeMap<&'static str, usize>,
    /// Users with bindings.
    pub users: usize,
    /// Operations that cannot continue, and why. They stay in the journal.
    pub quarantined: Vec<Quarantined>,
}

impl fmt::Display for CameBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calls", self.calls.values().sum::<usize>())?;
        for (at, (phase, calls)) in self.calls.iter().enumerate() {
            write!(f, "{}{calls} in {phase}", if at == 0 { " (" } else { ", " })?;
        }
        let close = if self.calls.is_empty() { "" } else { ")" };
        write!(
            f,
            "{close}, {} users with bindings; {} quarantined",
            self.users,
            self.quarantined.len()
        )
    }
}

/// A running router.
#[derive(Debug)]
pub struct Router {
    net: Net,
    runtime: Runtime,
    locator: Locator,
    times: PhaseTimes,
    came_back: CameBack,
    /// `None` once the router has stopped to receive.
    server: Mutex<Option<UdpServer>>,
}

impl Router {
    /// Starts a router.
    ///
    /// # Errors
    ///
    /// Fails with [`StartError`].
    pub fn start(settings: Settings) -> Result<Router, StartError> {
        Router::start_with(settings, |builder| builder)
    }

    /// Like [`start`](Router::start). `change` has the last word on the builder of the runtime: for another journal, or
    /// to follow the recovery.
    ///
    /// # Errors
    ///
    /// Fails with [`StartError`].
    pub fn start_with(
        settings: Settings,
        change: impl FnOnce(Builder) -> Builder,
    ) -> Result<Router, StartError> {
        let net =
            Net::bind(&settings).map_err(|error| StartError::Listen(settings.listen, error))?;
        let records = Records::open(settings.records.as_deref()).map_err(StartError::Records)?;
        let locator =
            Locator::start(&settings.endpoints, settings.fork).map_err(StartError::Endpoint)?;
        let mut builder = Runtime::builder()
            .resource(locator.clone())
            .resource(records)
            .resource(net.clone())
            .resource(settings.timers)
            // More for the foms that serve the socket.
            .capacity(
                settings
                    .capacity
                    .saturating_add(settings.users)
                    .saturating_add(2),
            )
            .mailbox(64)
            .observe();
        if let Some(localities) = settings.localities {
            builder = builder.localities(localities);
        }
        if let Some(clock) = &settings.clock {
            builder = builder.clock(clock.clone());
        }
        if let Some(directory) = &settings.journal {
            builder = builder.journal(directory);
        }
        let runtime = change(builder).build()?;
        let came_back = CameBack::of(&runtime);
        let times = PhaseTimes::of(&runtime, net.clone());
        // A call that fails still owes the caller an answer. If the journal could not keep the call, there was no room.
        // Any other failure (a panic in a phase, say) is a fault of the router.
        let kept = runtime.inspect().journal_stats().is_some();
        let stuck = Stuck::default();
        let (of, in_front) = (runtime.detached(), stuck.clone());
        runtime
            .listen_to::<Call>(move |transition| match transition.cause() {
                // The first step: the call never was. A call with a later step is committed, and continues when there
                // is room.
                TransitionCause::Failed("journal") if transition.from() == Some("Locate") => {
                    transition.operation().failed(503, "Retry-After: 5\r\n");
                }
                // A call that only could not end does not come back.
                TransitionCause::Failed("journal") => match transition.from() {
                    Some("Completed" | "Cancelled" | "Rejected") => {}
                    _ => stuck.add(transition.operation()),
                },
                TransitionCause::Resumed => stuck.remove(transition.operation()),
                // The call continues when the router starts again.
                TransitionCause::Failed("shutdown" | "moved") if kept => {}
                TransitionCause::Failed(_) => transition.operation().failed(500, ""),
                _ => {}
            })
            .forever();
        let socket = net
            .reader()
            .map_err(|error| StartError::Listen(net.local(), error))?;
        let server = serve_udp(&runtime, vec![socket], |sender| {
            net.send_through(sender);
            Front::new(net.clone(), of.clone(), in_front.clone(), settings.clone())
        })
        .map_err(StartError::Front)?;
        Ok(Router {
            net,
            runtime,
            locator,
            times,
            came_back,
            server: Mutex::new(Some(server)),
        })
    }

    /// Returns the address that the router listens on.
    pub fn local(&self) -> SocketAddr {
        self.net.local()
    }

    /// Returns how many bytes of datagrams the kernel keeps until the router receives them.
    pub fn buffer(&self) -> usize {
        self.net.buffer()
    }

    /// Returns the router's counters.
    pub fn counters(&self) -> &Counters {
        self.net.note_sent();
        self.net.counters()
    }

    /// Returns the runtime of the router's foms.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Returns the locator.
    pub fn locator(&self) -> &Locator {
        &self.locator
    }

    /// Returns the time that calls have spent in each phase.
    pub fn times(&self) -> &PhaseTimes {
        &self.times
    }

    /// Returns what the journal brought back at the start.
    pub fn came_back(&self) -> &CameBack {
        &self.came_back
    }

    /// Ends the router: it takes no new calls, and talking calls have until `limit` to end. Returns those that did not
    /// end.
    pub async fn drain(&self, limit: Duration) -> Vec<FomInfo> {
        self.net.drain();
        // The router does not wait for users with bindings.
        let _ = tokio::time::timeout(limit, self.net.call_places().none()).await;
        let server = self.server.lock().map_or(None, |mut server| server.take());
        if let Some(server) = server {
            server.stop().await;
        }
        let mut report = self.runtime.shutdown(Shutdown::Drain, Duration::ZERO).await;
        report
            .remained
            .retain(|fom| fom.operation == Call::GRAPH.operation());
        self.locator.stop();
        report.remained
    }
}

impl CameBack {
    /// Counts before the first packet from outside.
    fn of(runtime: &Runtime) -> CameBack {
        let mut back = CameBack {
            quarantined: runtime.quarantine().list(),
            ..CameBack::default()
        };
        for fom in runtime.operations().foms {
            if fom.operation == Call::GRAPH.operation() {
                *back.calls.entry(fom.phase).or_default() += 1;
            } else if fom.operation == Bindings::GRAPH.operation() {
                back.users += 1;
            }
        }
        back
    }
}
