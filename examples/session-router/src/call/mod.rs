//! A call: one fom, keyed by its Call-ID, that takes every packet of it as an event.
//!
//! The packets of one call are taken one after the other, in the order in which they came, whatever else
//! the machine does: a 180 that overtakes its 200 is not possible. Nothing here is locked.
//!
//! A call survives: with a journal, each of its transitions is on disk before anybody hears of it, and after a restart
//! it goes on in the last phase that it committed. What that asks of the code is little, and stands where it is done:
//!
//! - What promises something to a stranger is sent *after* the transition that it tells of: it is owed in one phase and
//!   paid at the beginning of the next (`owe` and `pay`). Everything else is sent at once.
//! - What is sent once more after a restart is what was sent before, down to the branch, so that whoever had it already
//!   takes it for a retransmission. *Transitions exactly once, effects at least once.*
//! - What cannot be saved (the socket) or says nothing in another process (times on its clock) is made anew in `resume`.
//!
//! [`Stage`] says what phases there are, and shows a drawing of them; `phases` is what happens in each, `packets`
//! what a packet means in any of them. The rest are the parts that a proxy is made of: `fork` and `exchange` are
//! transactions of both kinds, `transaction` and `timers` what they have in common, `dialog` who talks to whom.

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
use self::{dialog::Dialogs, exchange::Exchange, fork::Forks, timers::Repeat};
use crate::cdr::Record;
use crate::locator::Binding;
use crate::places::Place;
use crate::wire::message::{Request, Response};
use crate::wire::udp::Net;

/// What comes in for a call.
#[derive(Debug)]
pub enum CallEvent {
    /// A request: the INVITE once more, or something inside the dialog.
    Request(Box<Request>),
    /// An ACK, which nobody answers.
    Ack(Box<Request>),
    /// A CANCEL.
    Cancel(Box<Request>),
    /// A response to something that this call sent.
    Response(Box<Response>),
}

/// The phases of a call.
///
/// With a journal, every one of these transitions waits for its sync, and the foms in flight share it. A call has seven,
/// and each is worth it: to begin (the 100 ends the caller's repeating, so from then on the INVITE is ours to remember),
/// to ring (the same places again after a restart, and no others), to talk (the 200 says that there is a call), to talk on
/// once the ACK is there (it ends the repeating of the 200, so from then on the call may be silent for hours), to write
/// the record and to linger (who hung up must not be found talking), to end. What happens *inside* a phase is not worth
/// one: a 180, an ACK, a CANCEL, a request in the dialog. Whoever needs an answer sends it again.
#[fom(operation(Call), event(CallEvent))]
pub enum Stage {
    /// Ask the locator where the one who is called can be reached.
    #[phase(start, to(Ring, Record), within = "2s", late)]
    Locate,
    /// Ring everywhere, until somebody answers, everybody refuses, or the caller gives up.
    #[phase(to(Talk, Record), on(Request, Ack, Cancel, Response))]
    Ring {
        /// Where.
        bindings: Vec<Binding>,
    },
    /// They talk; if another place answers as well, that is one more dialog to remember. A call without an ACK of the caller ends after 64 T1. The router forgets a call without a BYE after half a day.
    #[phase(
        to(Talk, Record),
        on(Request, Ack, Cancel, Response),
        within = "12h",
        late
    )]
    Talk,
    /// Write the call detail record.
    #[phase(blocking, to(Linger))]
    Record {
        /// How the call ended.
        outcome: Outcome,
    },
    /// It is over, but packets may be on their way, or be lost and come again (timers D, H, I, J).
    #[phase(
        to(Locate, Completed, Cancelled, Rejected),
        on(Request, Ack, Cancel, Response)
    )]
    Linger {
        /// How the call ended.
        outcome: Outcome,
    },
    /// Somebody answered, and somebody hung up.
    #[phase(end)]
    Completed,
    /// The caller gave up before anybody answered.
    #[phase(end)]
    Cancelled,
    /// There was no call.
    #[phase(end, failure)]
    Rejected {
        /// What the caller was told.
        status: u16,
    },
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Answered and hung up.
    Completed,
    /// Answered, and then nobody said anything any more.
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
    /// The INVITE: the server transaction that all of this is about.
    invite: Box<Request>,
    /// Our tag, in answers of our own.
    tag: String,
    /// What the branches of all that this call sends begin with. It is chosen once and kept, so that what is sent again
    /// after a restart is a retransmission.
    branch: String,
    /// The last answer to the INVITE: who sends the INVITE again gets it again.
    #[serde(with = "serde_bytes")]
    answer: Option<Vec<u8>>,
    /// What tells of a transition, and is sent once that is committed.
    owed: Vec<Answer>,
    /// Timer G: a refusal is sent again until the ACK is there.
    repeat: Option<Repeat>,
    /// The caller was told that there is no call.
    refused: bool,
    cancelled: bool,
    pub(crate) forks: Forks,
    exchanges: Vec<Exchange>,
    dialogs: Dialogs,
    /// When the router began with it, on a clock that no other process has.
    #[serde(skip)]
    pub(crate) began: Option<Duration>,
    /// Somebody answered.
    pub(crate) answered: bool,
    /// The caller has sent the ACK.
    confirmed: bool,
    /// The caller has been sent a final answer.
    #[serde(skip)]
    told: bool,
    pub(crate) record: Record,
}

/// An answer, and who gets it.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    to: SocketAddr,
    #[serde(with = "serde_bytes")]
    bytes: Vec<u8>,
}

impl Call {
    /// The call that `invite` asks for, in this place.
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

    /// Rings at all of these.
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

    /// Makes a call small that talks or is over: there may be many. The router never answers the INVITE of an answered call
    /// again.
    pub(crate) fn forget_what_nobody_needs(&mut self) {
        self.invite.sip.body = Vec::new();
        if self.answered {
            self.invite.sip.headers = sip::Headers::default();
            self.answer = None;
        }
        self.exchanges.shrink_to_fit();
        self.dialogs.shrink();
    }

    /// This answer is sent when the next phase is entered, and that is committed then.
    pub(crate) fn owe(&mut self, bytes: Vec<u8>, to: SocketAddr) {
        self.owed.push(Answer { to, bytes });
    }

    /// Sends what is owed.
    pub(crate) fn pay(&mut self) {
        self.told |= self.answered || self.refused;
        for Answer { to, bytes } in self.owed.drain(..) {
            self.net.send(&bytes, to);
        }
    }

    /// Makes anew what a journal does not keep. What still waits for an answer waits anew: nobody knows how long the
    /// router was away, and whoever has answered meanwhile does so again.
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

    /// How long it took until somebody answered.
    pub(crate) fn set_up(&mut self, now: Duration) {
        // After a restart nobody knows on this clock when it began, but for the wall clock.
        let took = match self.began {
            Some(began) => now - began,
            None => self.record.began.elapsed().unwrap_or_default(),
        };
        self.record.setup.get_or_insert(took);
    }

    /// They talked so long, since somebody answered or since the last one answered.
    pub(crate) fn talked(&mut self, time: Duration) {
        self.record.talk = Some(self.record.talk.unwrap_or_default() + time);
    }

    /// The call failed in a way that is nobody's answer: the caller is told, unless it was told before.
    pub(crate) fn failed(&self, status: u16, more: &str) {
        if !self.told {
            self.net.send(
                &self.invite.answer(status, &self.tag, more),
                self.invite.reply_to,
            );
        }
    }

    /// Replaces this call, which is over, by the one that `invite` asks for. It keeps the place.
    pub(crate) fn again(&mut self, invite: Box<Request>) {
        let place = mem::take(&mut self.place);
        self.net.counters().calls.add();
        *self = Call::new(self.net.clone(), place, self.timers, invite);
    }

    /// How long the callee repeats the 200 before it gives the call up (RFC 3261, 13.3.1.4). `None` once the caller has sent
    /// the ACK.
    pub(crate) fn unconfirmed_for(&self) -> Option<Duration> {
        (!self.confirmed).then(|| self.timers.give_up())
    }

    /// The INVITE, for whoever must answer it if the call could not be begun.
    pub fn invite(&self) -> &Request {
        &self.invite
    }
}

fn uri(uri: Result<sip::Uri, sip::Error>) -> String {
    uri.map(|uri| uri.to_string()).unwrap_or_default()
}
