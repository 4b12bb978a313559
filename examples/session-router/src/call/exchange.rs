//! Requests inside a dialog: each is a server transaction on one side and a client transaction on the
//! other (RFC 3261, 16 and 17).

use std::net::SocketAddr;
use std::time::Duration;

use rsipstack::sip::{self, Method};
use serde::{Deserialize, Serialize};

use super::timers::Timers;
use super::transaction::Sent;
use crate::wire::message::{Request, Response, TransactionKey, ack};
use crate::wire::saved;
use crate::wire::udp::Net;

/// One request on its way through the router, with its answer on the way back.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Exchange {
    /// Its method.
    #[serde(with = "saved::text")]
    pub(crate) method: Method,
    /// The name of its dialog: the tag of the called side.
    pub(crate) tag: String,
    key: TransactionKey,
    /// Where its answers go.
    pub(crate) reply_to: SocketAddr,
    branch: String,
    sent: Sent,
    /// The INVITE, since its ACK repeats parts of it. `None` for other methods.
    #[serde(with = "saved::request::maybe")]
    invite: Option<sip::Request>,
    /// The last answer. A sender that repeats the request gets it again.
    #[serde(with = "serde_bytes")]
    answer: Option<Vec<u8>>,
    /// The headers that an answer of the router echoes.
    #[serde(with = "saved::headers")]
    request: sip::Headers,
    done: Option<Duration>,
}

impl Exchange {
    /// Forwards `request` to `to`, as the transaction `branch`.
    #[allow(
        clippy::too_many_arguments,
        reason = "they are what a request on its way is"
    )]
    pub(crate) fn start(
        net: &Net,
        branch: String,
        request: &Request,
        tag: &str,
        target: Option<&sip::Uri>,
        to: SocketAddr,
        now: Duration,
        timers: &Timers,
    ) -> Exchange {
        let forward = request.forward(target, &branch, net.local(), false);
        let bytes = forward.to_bytes();
        let is_invite = request.method() == Method::Invite;
        let sent = if is_invite {
            net.send(&request.answer(100, "", ""), request.reply_to);
            Sent::invite(net, bytes, to, now, timers)
        } else {
            Sent::other(net, bytes, to, now, timers)
        };
        Exchange {
            method: request.method(),
            tag: tag.to_owned(),
            key: request.key.clone(),
            reply_to: request.reply_to,
            branch,
            sent,
            invite: is_invite.then_some(forward),
            answer: None,
            request: request.sip.headers.clone(),
            done: None,
        }
    }

    /// Returns true if `request` is a repeat of this one, or its ACK or CANCEL.
    pub(crate) fn is_of(&self, request: &Request) -> bool {
        self.key == request.key
    }

    /// Handles a repeat of the request: sends the answer again, if there is one.
    pub(crate) fn again(&self, net: &Net) {
        net.counters().absorbed.add();
        if let Some(answer) = &self.answer {
            net.send(answer, self.reply_to);
        }
    }

    /// Returns true if `response` answers this request.
    pub(crate) fn is_answered_by(&self, response: &Response) -> bool {
        self.branch == response.branch && self.method == response.method
    }

    /// Takes a response. Returns what the router forwards of it, and true if it is the final one, the first time.
    pub(crate) fn response(
        &mut self,
        net: &Net,
        response: &Response,
        now: Duration,
        timers: &Timers,
    ) -> (Option<Vec<u8>>, bool) {
        let invite_ok = self.method == Method::Invite && (200..300).contains(&response.status);
        if response.status < 200 {
            if self.sent.open() && self.method == Method::Invite {
                self.sent.proceeding(now + timers.c);
            }
            if response.status == 100 {
                return (None, false);
            }
        } else {
            if let Some(invite) = &self.invite
                && !invite_ok
            {
                net.send(&ack(invite, &response.sip), self.sent.to);
            }
            if !self.sent.open() && !invite_ok {
                net.counters().absorbed.add();
                return (None, false);
            }
        }
        let bytes = response.forward();
        if bytes.is_some() {
            // The sender of a 2xx to an INVITE repeats it, and not the router (RFC 6026).
            self.answer = bytes.clone().filter(|_| !invite_ok);
        }
        if response.status < 200 {
            return (bytes, false);
        }
        self.sent.done();
        (bytes, self.done(now))
    }

    /// Starts the waits again on another clock, after a restart.
    pub(crate) fn restart(&mut self, now: Duration, timers: &Timers) {
        self.sent.restart(now, timers);
        self.done = self.done.map(|_| now);
    }

    /// Returns the time of the next work.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.sent.due()
    }

    /// Repeats what is due. Returns true if no answer came: then the router answered with 408.
    pub(crate) fn tick(&mut self, net: &Net, now: Duration) -> bool {
        if !self.sent.tick(net, now) {
            return false;
        }
        let answer = crate::wire::message::answer(&self.request, 408, "none", "");
        net.send(&answer, self.reply_to);
        self.answer = Some(answer);
        self.done(now)
    }

    /// Returns true once no repeat can arrive any more: timer J.
    pub(crate) fn over(&self, now: Duration, timers: &Timers) -> bool {
        self.done.is_some_and(|done| now >= done + timers.give_up())
    }

    /// Notes that the final answer is there. Returns true the first time.
    fn done(&mut self, now: Duration) -> bool {
        self.request = sip::Headers::default();
        if self.done.is_some() {
            return false;
        }
        self.done = Some(now);
        true
    }
}
