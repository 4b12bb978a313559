//! A call: one fom, keyed by its Call-ID, that takes every packet of it as an event.
//!
//! The packets of one call are taken one after the other, in the order in which they came, whatever else
//! the machine does: a 180 that overtakes its 200 is not possible. Nothing here is locked.
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
use std::time::{Duration, SystemTime};

use fom_runtime::prelude::*;
use rsipstack::sip::{self, HeadersExt};

pub(crate) use self::packets::Happened;
pub use self::timers::Timers;
use self::{dialog::Dialogs, exchange::Exchange, fork::Forks, timers::Repeat};
use crate::cdr::Record;
use crate::locator::Binding;
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
#[fom(operation(Call), event(CallEvent), transient)]
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
    /// They talk. A call of which nobody ever says that it ended is forgotten after half a day.
    #[phase(to(Record), on(Request, Ack, Cancel, Response), within = "12h", late)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Answered and hung up.
    Completed,
    /// Answered, and then nobody said anything any more.
    Forgotten,
    /// Given up by the caller.
    Cancelled,
    /// Refused with this status.
    Rejected(u16),
}

impl Outcome {
    /// The final answer that the caller got.
    pub fn status(self) -> u16 {
        match self {
            Outcome::Completed | Outcome::Forgotten => 200,
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
            Outcome::Cancelled => "cancelled",
            Outcome::Rejected(_) => "rejected",
        })
    }
}

/// One call, from the first INVITE to the last straggler: what it keeps from phase to phase.
#[derive(Debug)]
pub struct Call {
    net: Net,
    timers: Timers,
    /// The INVITE: the server transaction that all of this is about.
    invite: Box<Request>,
    /// Our tag, in answers of our own.
    tag: String,
    /// The last answer to the INVITE: who sends the INVITE again gets it again.
    answer: Option<Vec<u8>>,
    /// Timer G: a refusal is sent again until the ACK is there.
    repeat: Option<Repeat>,
    /// The caller was told that there is no call.
    refused: bool,
    cancelled: bool,
    pub(crate) forks: Forks,
    exchanges: Vec<Exchange>,
    dialogs: Dialogs,
    pub(crate) began: Duration,
    pub(crate) answered: Option<Duration>,
    pub(crate) record: Record,
}

impl Call {
    /// The call that `invite` asks for.
    pub fn new(net: Net, timers: Timers, invite: Box<Request>) -> Call {
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
            net,
            timers,
            invite,
            tag,
            answer: None,
            repeat: None,
            refused: false,
            cancelled: false,
            forks: Forks::default(),
            exchanges: Vec::new(),
            dialogs,
            began: Duration::ZERO,
            answered: None,
            record,
        }
    }

    /// Rings at all of these.
    pub(crate) fn ring_at(&mut self, bindings: &[Binding], now: Duration) {
        self.record.forks = bindings.len();
        if bindings.len() > 1 {
            self.net.counters().forked.add();
        }
        self.forks = Forks::ring(&self.net, &self.invite, bindings, now, &self.timers);
    }

    /// Makes a call that is over small. Of one that was answered, nothing is ever said to the INVITE again.
    pub(crate) fn forget_what_nobody_needs(&mut self) {
        self.invite.sip.body = Vec::new();
        if self.answered.is_some() {
            self.invite.sip.headers = sip::Headers::default();
            self.answer = None;
        }
        self.exchanges.shrink_to_fit();
        self.dialogs.shrink();
    }

    /// The call failed in a way that is nobody's answer: the caller is told, unless it was told before.
    pub(crate) fn failed(&self) {
        if self.answered.is_none() && !self.refused {
            self.net.send(
                &self.invite.answer(500, &self.tag, ""),
                self.invite.reply_to,
            );
        }
    }

    /// The INVITE, for whoever must answer it if the call could not be begun.
    pub fn invite(&self) -> &Request {
        &self.invite
    }
}

fn uri(uri: Result<sip::Uri, sip::Error>) -> String {
    uri.map(|uri| uri.to_string()).unwrap_or_default()
}
