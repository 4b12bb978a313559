//! The router: takes datagrams from the socket and brings each to the fom that it is for.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fom_runtime::{BuildError, FomInfo, TestClock, prelude::*};
use rsipstack::sip::{Header, Method};

use crate::call::{Call, CallEvent, Timers};
use crate::cdr::Records;
use crate::counters::Counters;
use crate::locator::Locator;
use crate::registrar::Registration;
use crate::report::PhaseTimes;
use crate::wire::message::{Message, Request, address};
use crate::wire::parse::{Fault, parse};
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
    /// The most calls at a time, those included that only absorb retransmissions.
    pub capacity: usize,
    /// The file for call detail records.
    pub records: Option<PathBuf>,
    /// The shortest time that a client may register for.
    pub shortest: Duration,
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
            capacity: 65_536,
            records: None,
            shortest: Duration::from_secs(60),
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
    /// The runtime.
    #[error("cannot start the runtime")]
    Runtime(#[source] BuildError),
}

/// A running router.
#[derive(Debug)]
pub struct Router {
    net: Net,
    runtime: Runtime,
    locator: Locator,
    times: PhaseTimes,
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
        let net = Net::bind(settings.listen)
            .map_err(|error| StartError::Listen(settings.listen, error))?;
        let records = Records::open(settings.records.as_deref()).map_err(StartError::Records)?;
        let locator =
            Locator::start(&settings.endpoints, settings.fork).map_err(StartError::Thread)?;
        let mut builder = Runtime::builder()
            .resource(locator.clone())
            .resource(records)
            .capacity(settings.capacity)
            .mailbox(64);
        if let Some(localities) = settings.localities {
            builder = builder.localities(localities);
        }
        if let Some(clock) = &settings.clock {
            builder = builder.clock(clock.clone());
        }
        let runtime = builder.build().map_err(StartError::Runtime)?;
        let times = PhaseTimes::watch(&runtime);
        // A call that fails (a panic in a phase, say) still owes the caller an answer.
        runtime
            .listen_to::<Call>(|transition| {
                if transition.to().is_none() {
                    transition.operation().failed();
                }
            })
            .forever();
        let stop = Arc::new(AtomicBool::new(false));
        let front = Front {
            net: net.clone(),
            runtime: runtime.clone(),
            settings,
        };
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
            stop,
            receiver: Mutex::new(Some(receiver)),
        })
    }

    /// Where it listens.
    pub fn local(&self) -> SocketAddr {
        self.net.local()
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

    /// Ends: no new calls are taken, those that talk have until `limit` to end. Returns those that had not.
    pub async fn drain(&self, limit: Duration) -> Vec<FomInfo> {
        self.net.drain();
        let report = self.runtime.shutdown(Shutdown::Drain, limit).await;
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

impl Drop for Router {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.locator.stop();
    }
}

/// The thread in front: nothing waits here but for the socket.
struct Front {
    net: Net,
    runtime: Runtime,
    settings: Settings,
}

impl Front {
    fn run(&self, stop: &AtomicBool) {
        let mut buffer = vec![0; 65_536];
        while !stop.load(Ordering::Relaxed) {
            // An error is that nothing came for a moment, or that an earlier datagram found nobody.
            if let Ok((length, source)) = self.net.receive(&mut buffer) {
                self.datagram(&buffer[..length], source);
            }
        }
    }

    fn datagram(&self, datagram: &[u8], source: SocketAddr) {
        let counters = self.net.counters();
        counters.received.add();
        // The parser is a stranger's as well. If it panics, that is one more packet that cannot be read.
        let read = catch_unwind(|| parse(datagram, source)).unwrap_or(Err(Fault::Drop("panicked")));
        match read {
            Ok(Message::Request(request)) => self.request(request),
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

    fn request(&self, request: Box<Request>) {
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
                None => self.answer(&request, 481, ""),
            },
            Method::Register => self.register(request),
            _ => match self.runtime.find::<Call>(&request.call_id) {
                Some(call) => self.deliver(Some(call), CallEvent::Request(request)),
                None => self.without_call(request),
            },
        }
    }

    /// A request that belongs to no call that we know.
    fn without_call(&self, request: Box<Request>) {
        if request.to_tag.is_some() {
            return self.answer(&request, 481, "");
        }
        let for_us =
            request.user().is_none() && address(&request.sip.uri) == Some(self.net.local());
        match request.method() {
            Method::Options if for_us => self.answer(&request, 200, ALLOW),
            _ if request.max_forwards == 0 => self.answer(&request, 483, ""),
            Method::Invite => self.invite(request),
            _ => self.answer(&request, 405, ALLOW),
        }
    }

    /// A new call.
    fn invite(&self, invite: Box<Request>) {
        // 16.3 step 5: we know no extensions.
        if let Some(wanted) = proxy_require(&invite) {
            return self.answer(&invite, 420, &format!("Unsupported: {wanted}\r\n"));
        }
        let call_id = invite.call_id.clone();
        let call = Call::new(self.net.clone(), self.settings.timers, invite);
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

    fn register(&self, request: Box<Request>) {
        let registration = Registration::new(self.net.clone(), request, self.settings.shortest);
        if let Err(refused) = self.runtime.submit(registration).start() {
            self.overloaded(refused.into_operation().request());
        }
    }

    /// We have no room, and say so while that still costs nothing: nothing is kept of the request.
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
