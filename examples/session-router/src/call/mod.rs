//! A call: one fom, keyed by its Call-ID, that takes every packet of the call as an event.
//!
//! The fom takes the packets of a call one after the other, in their order of arrival, whatever the load. So a 180
//! never overtakes its 200. The fom needs no locks.
//!
//! A call survives. With a journal, each transition is on disk before any other party hears of it. After a restart the
//! call continues in the last phase that it committed. The code needs little for that:
//!
//! - The call sends what promises something to a stranger *after* the transition behind the promise. One phase owes it
//!   and the next phase pays it first (`owe` and `pay`). The call sends everything else at once.
//! - After a restart the call repeats what it sent before, down to the branch. A receiver that had it already takes it
//!   for a retransmission. *Transitions exactly once, effects at least once.*
//! - `resume` makes again what a journal cannot save (the socket) or what means nothing in another process (times on
//!   its clock).
//!
//! [`Stage`] lists the phases and shows a drawing of them. `phases` has the code of each phase, and `packets` what a
//! packet means in any of them. The rest are the parts of a proxy. `fork` and `exchange` are transactions of both
//! kinds, and `transaction` and `timers` what both have in common. `dialog` has the two sides of a call.

mod dialog;
mod exchange;
mod fork;
mod packets;
mod phases;
mod timers;
mod transaction;

use std::fmt;
use std::mem;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use fom_runtime::prelude::*;
use rsipstack::sip::{self, HeadersExt};
use serde::{Deserialize, Serialize};

pub(crate) use self::packets::Happened;
pub use self::timers::Timers;
pub(crate) use self::timers::since_start;
use self::{dialog::Dialogs, exchange::Exchange, fork::Forks, timers::Repeat};
use crate::cdr::Record;
use crate::locator::Binding;
use crate::places::Place;
use crate::wire::message::{Request, Response};
use crate::wire::udp::Net;

/// An event of a call.
#[derive(Debug)]
pub enum CallEvent {
    /// A request: the INVITE again, or a request inside the dialog.
    Request(Box<Request>),
    /// An ACK, which gets no answer.
    Ack(Box<Request>),
    /// A CANCEL.
    Cancel(Box<Request>),
    /// A response to a request that this call sent.
    Response(Box<Response>),
}

/// The phases of a call.
///
/// With a journal, each transition waits for its sync, and the foms in flight share the sync. A call has seven
/// transitions:
///
/// - to begin: the 100 stops the caller's retransmissions, so from then on the router must remember the INVITE;
/// - to ring: after a restart the same places ring, and no others;
/// - to talk: the 200 says that there is a call;
/// - to talk on after the ACK: it stops the retransmissions of the 200, so the call may then be silent for hours;
/// - to write the record, and then to linger: a call that hung up must not come back as talking;
/// - to end.
///
/// An event *inside* a phase (a 180, an ACK, a CANCEL, a request in the dialog) is not worth a transition. A sender
/// that needs an answer sends again.
#[fom(operation(Call), event(CallEvent))]
pub enum Stage {
    /// Asks the locator where the called user can be reached.
    #[phase(start, to(Ring, Record), within = "2s", late)]
    Locate,
    /// Rings everywhere, until a place answers, all places refuse, or the caller gives up.
    /// A place that never ends its 180s rings for hours; after some minutes a person would look.
    #[phase(to(Talk, Record), on(Request, Ack, Cancel, Response), hung = "10m")]
    Ring {
        /// The places to ring.
        bindings: Vec<Binding>,
    },
    /// The two sides talk. If another place answers as well, the call remembers one more dialog. A call without an ACK
    /// of the caller ends after 64 T1. The router forgets a call without a BYE after half a day.
    #[phase(
        to(Talk, Record),
        on(Request, Ack, Cancel, Response),
        within = "12h",
        late
    )]
    Talk,
    /// Writes the call detail record.
    #[phase(blocking, to(Linger), hung = "10s")]
    Record {
        /// How the call ended.
        outcome: Outcome,
    },
    /// The call is over, but packets may be on their way, or be lost and come again (timers D, H, I, J).
    #[phase(
        to(Locate, Completed, Cancelled, Rejected),
        on(Request, Ack, Cancel, Response),
        hung = "2m"
    )]
    Linger {
        /// How the call ended.
        outcome: Outcome,
    },
    /// A place answered, and later one side hung up.
    #[phase(end)]
    Completed,
    /// The caller gave up before a place answered.
    #[phase(end)]
    Cancelled,
    /// There was no call.
    #[phase(end, failure)]
    Rejected {
        /// The status that the caller got.
        status: u16,
    },
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Answered and hung up.
    Completed,
    /// Answered, and then no side sent anything any more.
    Forgotten,
    /// Answered, and the caller sent no ACK.
    Unconfirmed,
    /// Given up by the caller.
    Cancelled,
    /// Refused with this status.
    Rejected(u16),
}

impl Outcome {
    /// The final answer that the caller got.
    pub fn status(self) -> u16 {
        match self {
            Outcome::Completed | Outcome::Forgotten | Outcome::Unconfirmed => 200,
            Outcome::Cancelled => 487,
            Outcome::Rejected(status) => status,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Completed => "completed",
            Outcome::Forgotten => "forgotten",
            Outcome::Unconfirmed => "unconfirmed",
            Outcome::Cancelled => "cancelled",
            Outcome::Rejected(_) => "rejected",
        })
    }
}

/// One call, from the first INVITE to the last straggler: what it keeps from phase to phase.
#[derive(Debug, Serialize, Deserialize)]
pub struct Call {
    #[serde(skip)]
    net: Net,
    #[serde(skip)]
    timers: Timers,
    #[serde(skip)]
    place: Place,
    /// The INVITE: the server transaction of this call.
    invite: Box<Request>,
    /// The router's tag, in its own answers.
    tag: String,
    /// The start of every branch that this call sends. The call chooses it once and keeps it, so that a request that is
    /// sent again after a restart is a retransmission.
    branch: String,
    /// The last answer to the INVITE. A caller that repeats the INVITE gets it again.
    #[serde(with = "serde_bytes")]
    answer: Option<Vec<u8>>,
    /// Answers that tell of a transition. The call sends them once the transition is committed.
    owed: Vec<Answer>,
    /// Timer G: the call repeats a refusal until the ACK arrives.
    repeat: Option<Repeat>,
    /// True once the caller got a refusal.
    refused: bool,
    cancelled: bool,
    pub(crate) forks: Forks,
    exchanges: Vec<Exchange>,
    dialogs: Dialogs,
    /// The time at which the router began the call, on a clock of this process only.
    #[serde(skip)]
    pub(crate) began: Option<Duration>,
    /// True once a place answered.
    pub(crate) answered: bool,
    /// True once the caller sent the ACK.
    confirmed: bool,
    /// True once the caller got a final answer.
    #[serde(skip)]
    told: bool,
    pub(crate) record: Record,
}

/// An answer and its receiver.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    to: SocketAddr,
    #[serde(with = "serde_bytes")]
    bytes: Vec<u8>,
}

impl Call {
    /// Returns the call that `invite` asks for, in this place.
    pub fn new(net: Net, place: Place, timers: Timers, invite: Box<Request>) -> Call {
        let tag = net.tag();
        let record = Record {
            began: SystemTime::now(),
            call_id: invite.call_id.clone(),
            from: uri(invite.sip.from_header().and_then(|from| from.uri())),
            to: invite.sip.uri.to_string(),
            setup: None,
            talk: None,
            forks: 0,
        };
        let dialogs = Dialogs::new(&invite);
        Call {
            branch: net.branch(),
            net,
            place,
            timers,
            invite,
            tag,
            answer: None,
            owed: Vec::new(),
            repeat: None,
            refused: false,
            cancelled: false,
            forks: Forks::default(),
            exchanges: Vec::new(),
            dialogs,
            began: None,
            answered: false,
            confirmed: false,
            told: false,
            record,
        }
    }

    /// Rings at all `bindings`.
    pub(crate) fn ring_at(&mut self, bindings: &[Binding], now: Duration) {
        self.record.forks = bindings.len();
        if bindings.len() > 1 {
            self.net.counters().forked.add();
        }
        self.forks = Forks::ring(
            &self.net,
            &self.branch,
            &self.invite,
            bindings,
            now,
            &self.timers,
        );
    }

    /// Frees the memory that a talking or ended call no longer needs, since there may be many such calls. The router
    /// never answers the INVITE of an answered call again.
    pub(crate) fn free_unneeded_memory(&mut self) {
        self.invite.sip.body = Vec::new();
        if self.answered {
            self.invite.sip.headers = sip::Headers::default();
            self.answer = None;
        }
        self.exchanges.shrink_to_fit();
        self.dialogs.shrink();
    }

    /// Queues an answer. The next phase sends it at its entry, which is committed by then.
    pub(crate) fn owe(&mut self, bytes: Vec<u8>, to: SocketAddr) {
        self.owed.push(Answer { to, bytes });
    }

    /// Sends the owed answers.
    pub(crate) fn pay(&mut self) {
        self.told |= self.answered || self.refused;
        for Answer { to, bytes } in self.owed.drain(..) {
            self.net.send(&bytes, to);
        }
    }

    /// Makes again what a journal does not keep. Waits for answers begin again: the router does not know how long it
    /// was away, and a side that answered meanwhile answers again.
    pub(crate) fn restart(&mut self, net: Net, timers: Timers, now: Duration) {
        net.counters().resumed.add();
        self.place = net.call_places().keep(self.invite.source.ip().into());
        (self.net, self.timers) = (net, timers);
        self.told = self.answered || self.refused;
        self.forks.restart(now, &self.timers);
        for exchange in &mut self.exchanges {
            exchange.restart(now, &self.timers);
        }
        if let Some(repeat) = &mut self.repeat {
            repeat.restart(now, &self.timers);
        }
    }

    /// Notes the time until a place answered.
    pub(crate) fn set_up(&mut self, now: Duration) {
        // After a restart only the wall clock knows when the call began.
        let took = match self.began {
            Some(began) => now - began,
            None => self.record.began.elapsed().unwrap_or_default(),
        };
        self.record.setup.get_or_insert(took);
    }

    /// Adds to the talk time: the time since the first or the latest answer.
    pub(crate) fn talked(&mut self, time: Duration) {
        self.record.talk = Some(self.record.talk.unwrap_or_default() + time);
    }

    /// Handles a failure that is no side's answer: tells the caller, unless the caller got a final answer before.
    pub(crate) fn failed(&self, status: u16, more: &str) {
        if !self.told {
            self.net.send(
                &self.invite.answer(status, &self.tag, more),
                self.invite.reply_to,
            );
        }
    }

    /// Replaces this call, which is over, by the one that `invite` asks for. The new call keeps the place.
    pub(crate) fn again(&mut self, invite: Box<Request>) {
        let place = mem::take(&mut self.place);
        self.net.counters().calls.add();
        *self = Call::new(self.net.clone(), place, self.timers, invite);
    }

    /// Returns how long the callee repeats the 200 before it gives the call up (RFC 3261, 13.3.1.4). Returns `None`
    /// once the caller sent the ACK.
    pub(crate) fn unconfirmed_for(&self) -> Option<Duration> {
        (!self.confirmed).then(|| self.timers.give_up())
    }

    /// The INVITE, so that the router can answer it if the call could not begin.
    pub fn invite(&self) -> &Request {
        &self.invite
    }
}

fn uri(uri: Result<sip::Uri, sip::Error>) -> String {
    uri.map(|uri| uri.to_string()).unwrap_or_default()
}
