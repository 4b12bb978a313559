//! The settings, the start and the end of the router. `front` brings each datagram to its fom.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fom_runtime::journal::JournalError;
use fom_runtime::{BuildError, Builder, FomInfo, SetAside, TestClock, TransitionCause, prelude::*};

use crate::bindings::Bindings;
use crate::call::{Call, Timers};
use crate::cdr::Records;
use crate::counters::Counters;
use crate::front::{Front, Stuck};
use crate::locator::{Locator, MOST_USERS};
use crate::report::PhaseTimes;
use crate::sources::Limits;
use crate::wire::udp::Net;

/// Everything that can be set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Endpoints that need not register: user and address.
    pub endpoints: Vec<(String, SocketAddr)>,
    /// Ring all addresses of such a user at once, instead of taking them in turn.
    pub fork: bool,
    /// How many localities; None is what the machine suggests.
    pub localities: Option<usize>,
    /// The timers.
    pub timers: Timers,
    /// The most calls at a time of all sources, those included that only absorb retransmissions.
    pub capacity: usize,
    /// The most users with registered bindings.
    pub users: usize,
    /// What each source of packets may take.
    pub limits: Limits,
    /// How many bytes of datagrams the kernel should keep until the router receives them.
    pub buffer: usize,
    /// The file for call detail records.
    pub records: Option<PathBuf>,
    /// The shortest time that a client may register for.
    pub shortest: Duration,
    /// The directory of the journal; without one nothing survives.
    pub journal: Option<PathBuf>,
    /// The clock that the foms go by.
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

/// Why a router could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The socket.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The file for call detail records.
    #[error("cannot write call detail records")]
    Records(#[source] io::Error),
    /// A thread.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// The journal.
    #[error("cannot go on with what is in the journal")]
    Journal(#[source] JournalError),
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

/// What came back out of the journal when the router was started.
#[derive(Debug, Clone, Default)]
pub struct CameBack {
    /// Calls, by the phase that they go on in.
    pub calls: BTreeMap<&'static str, usize>,
    /// Users with bindings.
    pub users: usize,
    /// What cannot go on, and why. It stays in the journal.
    pub set_aside: Vec<SetAside>,
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
            "{close}, {} users with bindings; {} set aside",
            self.users,
            self.set_aside.len()
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
    stop: Arc<AtomicBool>,
    receiver: Mutex<Option<JoinHandle<()>>>,
}

impl Router {
    /// Starts a router.
    ///
    /// # Errors
    ///
    /// What it needs is not there.
    pub fn start(settings: Settings) -> Result<Router, StartError> {
        Router::start_with(settings, |builder| builder)
    }

    /// As [`start`](Router::start); `change` has the last word on how the runtime is built: with another journal, or to
    /// hear how far its recovery is.
    ///
    /// # Errors
    ///
    /// What it needs is not there.
    pub fn start_with(
        settings: Settings,
        change: impl FnOnce(Builder) -> Builder,
    ) -> Result<Router, StartError> {
        let net =
            Net::bind(&settings).map_err(|error| StartError::Listen(settings.listen, error))?;
        let records = Records::open(settings.records.as_deref()).map_err(StartError::Records)?;
        let locator =
            Locator::start(&settings.endpoints, settings.fork).map_err(StartError::Thread)?;
        let mut builder = Runtime::builder()
            .resource(locator.clone())
            .resource(records)
            .resource(net.clone())
            .resource(settings.timers)
            .capacity(settings.capacity.saturating_add(settings.users))
            .mailbox(64);
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
        let times = PhaseTimes::watch(&runtime, net.clone());
        // A call that fails still owes the caller an answer: if it could not be kept there was no room for it, and
        // anything else (a panic in a phase, say) is our fault.
        let kept = runtime.journal_stats().is_some();
        let stuck = Stuck::default();
        let mut front = Front::new(net.clone(), runtime.clone(), stuck.clone(), settings);
        runtime
            .listen_to::<Call>(move |transition| match transition.cause() {
                // Its first step: it never was. A later one is committed, and goes on, when there is room.
                TransitionCause::Failed("journal") if transition.from() == Some("Locate") => {
                    transition.operation().failed(503, "Retry-After: 5\r\n");
                }
                // One that only could not end does not come back.
                TransitionCause::Failed("journal") => match transition.from() {
                    Some("Completed" | "Cancelled" | "Rejected") => {}
                    _ => stuck.add(transition.operation()),
                },
                TransitionCause::Resumed => stuck.remove(transition.operation()),
                // It goes on when the router is started again.
                TransitionCause::Failed("shutdown") if kept => {}
                TransitionCause::Failed(_) => transition.operation().failed(500, ""),
                _ => {}
            })
            .forever();
        let stop = Arc::new(AtomicBool::new(false));
        let receiver = thread::Builder::new()
            .name("receiver".to_owned())
            .spawn({
                let stop = Arc::clone(&stop);
                move || front.run(&stop)
            })
            .map_err(StartError::Thread)?;
        Ok(Router {
            net,
            runtime,
            locator,
            times,
            came_back,
            stop,
            receiver: Mutex::new(Some(receiver)),
        })
    }

    /// Where it listens.
    pub fn local(&self) -> SocketAddr {
        self.net.local()
    }

    /// How many bytes of datagrams the kernel keeps until the router receives them.
    pub fn buffer(&self) -> usize {
        self.net.buffer()
    }

    /// What it has counted.
    pub fn counters(&self) -> &Counters {
        self.net.counters()
    }

    /// The runtime that its foms run in.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The locator.
    pub fn locator(&self) -> &Locator {
        &self.locator
    }

    /// The time that calls have spent in each phase.
    pub fn times(&self) -> &PhaseTimes {
        &self.times
    }

    /// What came back out of the journal when it was started.
    pub fn came_back(&self) -> &CameBack {
        &self.came_back
    }

    /// Ends: no new calls are taken, those that talk have until `limit` to end. Returns those that had not.
    pub async fn drain(&self, limit: Duration) -> Vec<FomInfo> {
        self.net.drain();
        // Users with bindings are no reason to wait.
        let _ = tokio::time::timeout(limit, self.net.call_places().none()).await;
        let mut report = self.runtime.shutdown(Shutdown::Drain, Duration::ZERO).await;
        report
            .remained
            .retain(|fom| fom.operation == Call::GRAPH.operation());
        self.stop.store(true, Ordering::Relaxed);
        let receiver = self
            .receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(receiver) = receiver {
            let _ = receiver.join(); // it looks up ten times a second
        }
        self.locator.stop();
        report.remained
    }
}

impl CameBack {
    /// Counted when nobody from outside has been heard yet.
    fn of(runtime: &Runtime) -> CameBack {
        let mut back = CameBack {
            set_aside: runtime.set_aside(),
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

impl Drop for Router {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
