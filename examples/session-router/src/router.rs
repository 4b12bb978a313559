//! The router: takes datagrams from the socket and brings each to the fom that it is for.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fom_runtime::journal::JournalError;
use fom_runtime::{BuildError, Builder, FomInfo, SetAside, TestClock, TransitionCause, prelude::*};
use rsipstack::sip::{Header, Method};

use crate::bindings::Bindings;
use crate::call::{Call, CallEvent, Timers};
use crate::cdr::Records;
use crate::counters::Counters;
use crate::locator::{Locator, MOST_USERS};
use crate::registrar::Registration;
use crate::report::PhaseTimes;
use crate::sources::{Limits, Source, Sources, Verdict};
use crate::wire::message::{Message, Request, address};
use crate::wire::parse::{Fault, call_id, parse};
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
    /// The most users with bindings that were registered.
    pub users: usize,
    /// What each source of packets may take of it.
    pub limits: Limits,
    /// How many bytes of what has come the kernel is asked to keep until it is received.
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
        let mut front = Front {
            net: net.clone(),
            runtime: runtime.clone(),
            stuck: stuck.clone(),
            sources: Sources::new(settings.limits),
            looked: 0,
            settings,
        };
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

    /// How many bytes of what has come the kernel keeps until it is received.
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

/// The calls whose last step could not be committed: they go on when the journal has room. Until then nothing is said of
/// them, least of all that there is no such call: whoever wants an answer sends again.
#[derive(Clone, Default)]
struct Stuck(Arc<Mutex<HashSet<String>>>);

impl Stuck {
    fn calls(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, call: &Call) {
        self.calls().insert(call.invite().call_id.clone());
    }

    fn remove(&self, call: &Call) {
        self.calls().remove(&call.invite().call_id);
    }

    fn has(&self, call_id: &str) -> bool {
        self.calls().contains(call_id)
    }
}

/// The thread in front: nothing waits here but for the socket.
struct Front {
    net: Net,
    runtime: Runtime,
    stuck: Stuck,
    sources: Sources,
    /// How many datagrams had come when the kernel's count was looked at.
    looked: u64,
    settings: Settings,
}

/// The kernel's count of what it dropped is looked at each time that so many datagrams have come.
const LOOK: u64 = 1024;

impl Front {
    fn run(&mut self, stop: &AtomicBool) {
        let mut buffer = vec![0; 65_536];
        while !stop.load(Ordering::Relaxed) {
            // An error is that nothing came for a moment, or that an earlier datagram found nobody.
            match self.net.receive(&mut buffer) {
                Ok((length, source)) => self.datagram(&buffer[..length], source),
                Err(_) => self.note_dropped(),
            }
        }
        self.note_dropped();
    }

    /// Looks at what the kernel dropped.
    fn note_dropped(&mut self) {
        let counters = self.net.counters();
        let lost = counters.lost.get();
        self.net.note_dropped();
        let received = counters.received.get();
        let lost = counters.lost.get().saturating_sub(lost);
        self.sources.dropped(received - self.looked, lost);
        self.looked = received;
    }

    fn datagram(&mut self, datagram: &[u8], from: SocketAddr) {
        self.net.counters().received.add();
        if self.net.counters().received.get() >= self.looked + LOOK {
            self.note_dropped();
        }
        // What its source may send is decided first: a flood must cost no more than this.
        let (source, verdict) = self.look(datagram, from);
        if verdict == Verdict::Drop {
            return self.net.counters().ignored.add();
        }
        // The parser is a stranger's as well. If it panics, that is one more packet that cannot be read.
        let read = catch_unwind(|| parse(datagram, from)).unwrap_or(Err(Fault::Drop("panicked")));
        if verdict == Verdict::Refuse {
            return match read {
                Ok(Message::Request(request)) if request.method() != Method::Ack => {
                    self.limited(&request);
                }
                _ => self.net.counters().ignored.add(),
            };
        }
        self.read(read, source);
    }

    /// What becomes of a datagram, and to which source it is charged. A packet of a call that the router knows is read as
    /// long as its source does not send too many of any kind. All others have the rate for new calls.
    fn look(&mut self, datagram: &[u8], from: SocketAddr) -> (Source, Verdict) {
        let now = self.runtime.now();
        let (source, within) =
            self.sources
                .packet(from.ip(), datagram.len(), self.net.call_places(), now);
        if !within {
            return (source, Verdict::Drop);
        }
        let call = call_id(datagram).and_then(|call_id| self.runtime.find::<Call>(call_id));
        match call {
            Some(_) => (source, Verdict::Read),
            None => (source, self.sources.begin(source, datagram.len(), now)),
        }
    }

    /// A datagram that is within the rates of `source`.
    fn read(&mut self, read: Result<Message, Fault>, source: Source) {
        let counters = self.net.counters();
        match read {
            Ok(Message::Request(request)) => self.request(request, source),
            Ok(Message::Response(response)) => {
                // Only what we asked for: our own Via on top, and a call that waits for it (RFC 6026, 7.3).
                let ours = response.sent_by == self.net.local().to_string();
                let call = if ours {
                    self.runtime.find::<Call>(&response.call_id)
                } else {
                    None
                };
                self.deliver(call, CallEvent::Response(response));
            }
            Err(Fault::Answer { to, bytes, .. }) => {
                counters.refused.add();
                self.net.send(&bytes, to);
            }
            Err(Fault::Drop(_)) => counters.dropped.add(),
        }
    }

    fn request(&mut self, request: Box<Request>, source: Source) {
        // A port of zero cannot be answered to.
        if request.reply_to.port() == 0 {
            return self.net.counters().dropped.add();
        }
        match request.method() {
            Method::Ack => {
                let call = self.runtime.find::<Call>(&request.call_id);
                self.deliver(call, CallEvent::Ack(request));
            }
            Method::Cancel => match self.runtime.find::<Call>(&request.call_id) {
                Some(call) => self.deliver(Some(call), CallEvent::Cancel(request)),
                None if self.stuck.has(&request.call_id) => {}
                None => self.answer(&request, 481, ""),
            },
            Method::Register => self.register(request, source),
            method => match self.runtime.find::<Call>(&request.call_id) {
                // An INVITE outside of a dialog may begin the call anew, so it needs a token, too.
                Some(_)
                    if method == Method::Invite
                        && request.to_tag.is_none()
                        && self.sources.begin(source, 0, self.runtime.now()) != Verdict::Read =>
                {
                    self.net.counters().ignored.add();
                }
                Some(call) => self.deliver(Some(call), CallEvent::Request(request)),
                None => self.without_call(request, source),
            },
        }
    }

    /// A request that belongs to no call that we know.
    fn without_call(&self, request: Box<Request>, source: Source) {
        if self.stuck.has(&request.call_id) {
            return self.net.counters().stray.add();
        }
        if request.to_tag.is_some() {
            return self.answer(&request, 481, "");
        }
        let for_us =
            request.user().is_none() && address(&request.sip.uri) == Some(self.net.local());
        match request.method() {
            Method::Options if for_us => self.answer(&request, 200, ALLOW),
            _ if request.max_forwards == 0 => self.answer(&request, 483, ""),
            Method::Invite => self.invite(request, source),
            _ => self.answer(&request, 405, ALLOW),
        }
    }

    /// A new call.
    fn invite(&self, invite: Box<Request>, source: Source) {
        // 16.3 step 5: we know no extensions.
        if let Some(wanted) = proxy_require(&invite) {
            return self.answer(&invite, 420, &format!("Unsupported: {wanted}\r\n"));
        }
        if *self.net.draining().borrow() {
            return self.overloaded(&invite);
        }
        let Some(place) = self.net.call_places().take(source) else {
            return self.overloaded(&invite);
        };
        let call_id = invite.call_id.clone();
        let call = Call::new(self.net.clone(), place, self.settings.timers, invite);
        match self.runtime.submit(call).key(call_id.as_str()).start() {
            Ok(_) => self.net.counters().calls.add(),
            Err(refused) => {
                let holder = refused.live().cloned();
                let call = refused.into_operation();
                match holder {
                    // The INVITE was here already: its call takes this one.
                    Some(holder) => self.deliver(
                        Some(holder),
                        CallEvent::Request(Box::new(call.invite().clone())),
                    ),
                    None => self.overloaded(call.invite()),
                }
            }
        }
    }

    fn register(&self, request: Box<Request>, source: Source) {
        let shortest = self.settings.shortest;
        let registration = Registration::new(self.net.clone(), source, request, shortest);
        if let Err(refused) = self.runtime.submit(registration).start() {
            self.overloaded(refused.into_operation().request());
        }
    }

    /// Its source sent more than its rate, and is told so.
    fn limited(&self, request: &Request) {
        self.net.counters().limited.add();
        self.answer(request, 503, "Retry-After: 5\r\n");
    }

    /// There is no room, or none for this source. The answer costs little: nothing is kept of the request.
    fn overloaded(&self, request: &Request) {
        self.net.counters().overloaded.add();
        self.answer(request, 503, "Retry-After: 5\r\n");
    }

    fn deliver(&self, call: Option<FomRef<Call>>, event: CallEvent) {
        let delivered = call.is_some_and(|call| call.send(event).is_ok());
        if !delivered {
            self.net.counters().stray.add(); // whoever wants an answer sends again
        }
    }

    fn answer(&self, request: &Request, status: u16, more: &str) {
        answer(&self.net, request, status, more);
    }
}

/// Answers without keeping anything (RFC 3261, 8.2.7): the same request once more gets the same tag.
pub(crate) fn answer(net: &Net, request: &Request, status: u16, more: &str) {
    let mut hasher = DefaultHasher::new();
    (&request.key.branch, &request.key.sent_by, &request.call_id).hash(&mut hasher);
    let tag = format!("s{:016x}", hasher.finish());
    net.send(&request.answer(status, &tag, more), request.reply_to);
}

/// What we take.
pub(crate) const ALLOW: &str = "Allow: INVITE, ACK, CANCEL, BYE, OPTIONS, REGISTER\r\n";

pub(crate) fn proxy_require(request: &Request) -> Option<String> {
    request.sip.headers.iter().find_map(|header| match header {
        Header::ProxyRequire(wanted) => Some(wanted.value().to_owned()),
        _ => None,
    })
}
