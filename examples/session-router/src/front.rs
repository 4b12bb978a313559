//! The front: takes the datagrams of the socket, decides what their sources may have, and brings each to its fom.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fom_net::{Datagrams, UdpCx};
use fom_runtime::{prelude::*, submission::Placement};
use rsipstack::sip::{Header, Method};

use crate::call::since_start;
use crate::call::{Call, CallEvent};
use crate::registrar::Registration;
use crate::router::Settings;
use crate::sources::{Source, Sources, Verdict};
use crate::wire::message::{Message, Request, address};
use crate::wire::parse::{Fault, call_id, parse};
use crate::wire::udp::Net;

/// The calls with a last step that the journal could not commit. They continue when the journal has room. Until then
/// the router gives no answer about them, least of all that there is no such call. A sender that wants an answer sends
/// again.
#[derive(Clone, Default)]
pub(crate) struct Stuck(Arc<Mutex<HashSet<String>>>);

impl Stuck {
    fn calls(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, call: &Call) {
        self.calls().insert(call.invite().call_id.clone());
    }

    pub(crate) fn remove(&self, call: &Call) {
        self.calls().remove(&call.invite().call_id);
    }

    fn has(&self, call_id: &str) -> bool {
        self.calls().contains(call_id)
    }
}

/// What stands in front of the calls, in the locality whose reactor watches the socket. Calls begin in this locality, which
/// needs no other thread then.
pub(crate) struct Front {
    net: Net,
    runtime: Runtime,
    stuck: Stuck,
    sources: Sources,
    /// The number of datagrams at the last look at the kernel's count.
    looked: u64,
    settings: Settings,
    /// The number of looks for which calls begin in all localities.
    spreads: u32,
}

/// What a packet has cost before it is parsed.
#[derive(Clone, Copy)]
struct Charge {
    source: Source,
    /// It has taken a token for a packet that belongs to no known call.
    begins: bool,
}

/// The front looks at the kernel's count of drops after each so many datagrams, and after this time.
const LOOK: u64 = 1024;
const LOOK_AFTER: Duration = Duration::from_millis(100);
/// After the kernel dropped datagrams, calls begin in all localities for so many looks.
const SPREADS: u32 = 10;

impl Datagrams for Front {
    const TICK: Option<Duration> = Some(LOOK_AFTER);

    fn datagram(&mut self, _: &mut UdpCx<'_>, datagram: &[u8], from: SocketAddr) {
        self.net.counters().received.add();
        if self.net.counters().received.get() >= self.looked + LOOK {
            self.note_dropped();
        }
        // The rates of the source come first: a flood must cost no more than this check.
        let (charge, verdict) = self.look(datagram, from);
        if verdict == Verdict::Drop {
            return self.net.counters().ignored.add();
        }
        // The parser is a dependency. If it panics, the packet counts as one that it cannot read.
        let read = catch_unwind(|| parse(datagram, from)).unwrap_or(Err(Fault::Drop("panicked")));
        if verdict == Verdict::Refuse {
            return match read {
                Ok(Message::Request(request)) if request.method() != Method::Ack => {
                    self.limited(&request);
                }
                _ => self.net.counters().ignored.add(),
            };
        }
        self.read(read, charge);
    }

    fn tick(&mut self, _: &mut UdpCx<'_>) {
        self.note_dropped();
    }
}

impl Front {
    pub(crate) fn new(net: Net, runtime: Runtime, stuck: Stuck, settings: Settings) -> Front {
        Front {
            net,
            runtime,
            stuck,
            sources: Sources::new(settings.limits),
            looked: 0,
            settings,
            spreads: 0,
        }
    }

    /// Returns where a call begins: here, as long as this locality keeps up with the socket, so that the kernel drops
    /// nothing. Then in each locality in turn.
    fn place(&self) -> Placement {
        match self.spreads > 0 {
            true => Placement::RoundRobin,
            false => Placement::Here,
        }
    }

    /// Looks at what the kernel dropped.
    fn note_dropped(&mut self) {
        let counters = self.net.counters();
        let lost = counters.lost.get();
        self.net.note_dropped();
        let received = counters.received.get();
        let lost = counters.lost.get().saturating_sub(lost);
        self.sources.dropped(received - self.looked, lost);
        self.spreads = match lost {
            0 => self.spreads.saturating_sub(1),
            _ => SPREADS,
        };
        self.looked = received;
    }

    /// Returns what becomes of a datagram, and what it has cost. A packet of a known call is read as long as its source
    /// does not send too many packets of any kind. All other packets have the rate for new calls.
    fn look(&mut self, datagram: &[u8], from: SocketAddr) -> (Charge, Verdict) {
        let now = since_start(self.runtime.now());
        let (source, within) =
            self.sources
                .packet(from.ip(), datagram.len(), self.net.call_places(), now);
        let charge = |begins| Charge { source, begins };
        if !within {
            return (charge(false), Verdict::Drop);
        }
        let call = call_id(datagram).and_then(|call_id| self.runtime.find::<Call>(call_id));
        match call {
            Some(_) => (charge(false), Verdict::Read),
            None => (
                charge(true),
                self.sources.begin(source, datagram.len(), now),
            ),
        }
    }

    /// Handles a datagram within the rates of its source.
    fn read(&mut self, read: Result<Message, Fault>, charge: Charge) {
        let counters = self.net.counters();
        match read {
            Ok(Message::Request(request)) => self.request(request, charge),
            Ok(Message::Response(response)) => {
                // Only an answer to a request of the router passes: its Via on top, and a call that waits for it (RFC
                // 6026, 7.3).
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

    fn request(&mut self, request: Box<Request>, charge: Charge) {
        // No answer reaches a port of zero.
        if request.reply_to.port() == 0 {
            return self.net.counters().dropped.add();
        }
        let source = charge.source;
        let call = self.runtime.find::<Call>(&request.call_id);
        // A REGISTER, or an INVITE outside of a dialog, may begin something under the Call-ID of a call as well. The
        // parser joins a folded Call-ID, so the call may also be another one than the look has found.
        let begins = match request.method() {
            Method::Register => true,
            Method::Invite if request.to_tag.is_none() => true,
            _ => call.is_none(),
        };
        if begins
            && !charge.begins
            && self
                .sources
                .begin(source, 0, since_start(self.runtime.now()))
                != Verdict::Read
        {
            return self.net.counters().ignored.add();
        }
        match (request.method(), call) {
            (Method::Register, _) => self.register(request, source),
            (Method::Ack, call) => self.deliver(call, CallEvent::Ack(request)),
            (Method::Cancel, Some(call)) => self.deliver(Some(call), CallEvent::Cancel(request)),
            (Method::Cancel, None) if self.stuck.has(&request.call_id) => {}
            (Method::Cancel, None) => self.answer(&request, 481, ""),
            (_, Some(call)) => self.deliver(Some(call), CallEvent::Request(request)),
            (_, None) => self.without_call(request, source),
        }
    }

    /// Handles a request that belongs to no known call.
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

    /// Begins a new call.
    fn invite(&self, invite: Box<Request>, source: Source) {
        // 16.3 step 5: the router knows no extensions.
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
        let call = self.runtime.submit(call).key(call_id.as_str());
        match call.place(self.place()).start() {
            Ok(_) => self.net.counters().calls.add(),
            Err(refused) => {
                let holder = refused.live().cloned();
                let call = refused.into_operation();
                match holder {
                    // The call of an earlier copy of this INVITE takes this one.
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
        let registration = self.runtime.submit(registration).place(self.place());
        if let Err(refused) = registration.start() {
            self.overloaded(refused.into_operation().request());
        }
    }

    /// Answers a request beyond the rate of its source.
    fn limited(&self, request: &Request) {
        self.net.counters().limited.add();
        self.answer(request, 503, "Retry-After: 5\r\n");
    }

    /// Answers that there is no room, or none for this source. The router keeps nothing of the request.
    fn overloaded(&self, request: &Request) {
        self.net.counters().overloaded.add();
        self.answer(request, 503, "Retry-After: 5\r\n");
    }

    fn deliver(&self, call: Option<FomRef<Call>>, event: CallEvent) {
        let delivered = call.is_some_and(|call| call.send(event).is_ok());
        if !delivered {
            self.net.counters().stray.add(); // a sender that wants an answer sends again
        }
    }

    fn answer(&self, request: &Request, status: u16, more: &str) {
        answer(&self.net, request, status, more);
    }
}

/// Answers without keeping anything (RFC 3261, 8.2.7): the same request again gets the same tag.
pub(crate) fn answer(net: &Net, request: &Request, status: u16, more: &str) {
    let mut hasher = DefaultHasher::new();
    (&request.key.branch, &request.key.sent_by, &request.call_id).hash(&mut hasher);
    let tag = format!("s{:016x}", hasher.finish());
    net.send(&request.answer(status, &tag, more), request.reply_to);
}

/// The methods that the router accepts.
pub(crate) const ALLOW: &str = "Allow: INVITE, ACK, CANCEL, BYE, OPTIONS, REGISTER\r\n";

pub(crate) fn proxy_require(request: &Request) -> Option<String> {
    request.sip.headers.iter().find_map(|header| match header {
        Header::ProxyRequire(wanted) => Some(wanted.value().to_owned()),
        _ => None,
    })
}
