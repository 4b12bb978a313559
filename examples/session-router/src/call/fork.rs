//! The forks of an INVITE: one client transaction for each place that rings (RFC 3261, 16.6 and 16.7).

use std::time::Duration;

use rsipstack::sip::{self, Method};
use serde::{Deserialize, Serialize};

use super::timers::Timers;
use super::transaction::Sent;
use crate::locator::Binding;
use crate::wire::message::{Request, Response, ack, cancel};
use crate::wire::saved;
use crate::wire::udp::Net;

/// All places that ring for one call.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Forks {
    legs: Vec<Leg>,
}

/// One place that rings.
#[derive(Debug, Serialize, Deserialize)]
struct Leg {
    branch: String,
    /// The INVITE as sent. Its ACK and its CANCEL repeat parts of it.
    #[serde(with = "saved::request")]
    invite: sip::Request,
    sent: Sent,
    rings: bool,
    cancelled: bool,
    expired: bool,
    cancel: Option<Sent>,
    /// The final answer, if it is not a 2xx.
    refusal: Option<Refusal>,
}

/// A final answer that may become the answer to the caller.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// An endpoint's answer.
    Theirs(Box<Response>),
    /// No answer.
    Silence,
}

impl Refusal {
    /// Returns the status; silence counts as 408 (RFC 3261, 16.8).
    pub(crate) fn status(&self) -> u16 {
        match self {
            Refusal::Theirs(response) => response.status,
            Refusal::Silence => 408,
        }
    }

    /// Orders the refusals (RFC 3261, 16.7 step 6): a 6xx comes first, then the lowest class. Within a class, a
    /// response that tells the caller how to do better comes first.
    fn rank(&self) -> (u16, bool) {
        let status = self.status();
        let class = if status >= 600 { 0 } else { status / 100 };
        (class, !matches!(status, 401 | 407 | 415 | 420 | 484))
    }
}

/// What a response to one of the forks means for the call.
#[derive(Debug)]
pub(crate) enum News {
    /// Nothing that the caller should hear of.
    Nothing,
    /// A place rings, or reports other progress: the caller is told.
    Progress,
    /// A place answered. The caller always hears of it, even of a second answer (RFC 3261, 16.7 step 5).
    Answered,
    /// One place refused for all: a 6xx.
    RefusedByAll,
}

impl Forks {
    /// Rings at all `bindings`. The names of the transactions derive from `branch`, so ringing again after a restart
    /// only repeats what was sent.
    pub(crate) fn ring(
        net: &Net,
        branch: &str,
        invite: &Request,
        bindings: &[Binding],
        now: Duration,
        timers: &Timers,
    ) -> Forks {
        let legs = bindings.iter().enumerate().map(|(number, binding)| {
            let branch = format!("{branch}.{number}");
            let invite = invite.forward(Some(&binding.uri), &branch, net.local(), true);
            let sent = Sent::invite(net, invite.to_bytes(), binding.address, now, timers);
            Leg {
                branch,
                invite: headers_only(invite),
                sent,
                rings: false,
                cancelled: false,
                expired: false,
                cancel: None,
                refusal: None,
            }
        });
        Forks {
            legs: legs.collect(),
        }
    }

    /// Takes a response. Returns `None` if the response belongs to no fork.
    pub(crate) fn response(
        &mut self,
        net: &Net,
        response: &Response,
        now: Duration,
        timers: &Timers,
    ) -> Option<News> {
        let leg = self
            .legs
            .iter_mut()
            .find(|leg| leg.branch == response.branch)?;
        if response.method == Method::Cancel {
            if response.status >= 200
                && let Some(cancel) = &mut leg.cancel
            {
                cancel.done();
            }
            return Some(News::Nothing);
        }
        if response.method != Method::Invite {
            return None;
        }
        Some(leg.response(net, response, now, timers))
    }

    /// Cancels every fork that still rings.
    pub(crate) fn cancel(&mut self, net: &Net, now: Duration, timers: &Timers) {
        for leg in &mut self.legs {
            leg.cancel(net, now, timers);
        }
    }

    /// Repeats the requests that are due and gives up those that are out of time.
    pub(crate) fn tick(&mut self, net: &Net, now: Duration, timers: &Timers) {
        for leg in &mut self.legs {
            leg.tick(net, now, timers);
        }
    }

    /// Starts the waits again on another clock, after a restart.
    pub(crate) fn restart(&mut self, now: Duration, timers: &Timers) {
        for leg in &mut self.legs {
            leg.sent.restart(now, timers);
            if let Some(cancel) = &mut leg.cancel {
                cancel.restart(now, timers);
            }
        }
    }

    /// Returns the time of the next work.
    pub(crate) fn due(&self) -> Option<Duration> {
        let due = |leg: &Leg| {
            leg.sent
                .due()
                .into_iter()
                .chain(leg.cancel.as_ref().and_then(Sent::due))
                .min()
        };
        self.legs.iter().filter_map(due).min()
    }

    /// Returns the best of all answers, once all have arrived and none was a 2xx.
    pub(crate) fn verdict(&self) -> Option<Refusal> {
        if self.legs.iter().any(|leg| leg.sent.open()) {
            return None;
        }
        self.legs
            .iter()
            .filter_map(|leg| leg.refusal.clone())
            .min_by_key(Refusal::rank)
    }
}

impl Leg {
    fn response(&mut self, net: &Net, response: &Response, now: Duration, timers: &Timers) -> News {
        match response.status {
            ..200 => {
                if !self.sent.open() {
                    return News::Nothing;
                }
                if !self.rings {
                    self.rings = true;
                    self.sent.proceeding(now + timers.c);
                }
                if self.cancelled {
                    // A CANCEL may only follow a provisional response, so it goes now (RFC 3261, 9.1).
                    self.send_cancel(net, now, timers);
                    return News::Nothing;
                }
                if response.status == 100 {
                    return News::Nothing;
                }
                self.sent.proceeding(now + timers.c); // 16.7 step 2: timer C starts again
                News::Progress
            }
            200..300 => {
                self.sent.done();
                self.invite.headers = sip::Headers::default(); // no ACK and no CANCEL of the router repeats them
                News::Answered
            }
            status => {
                // The ACK is for this hop, and goes out for every copy of the response (17.1.1.2, timer D).
                net.send(&ack(&self.invite, &response.sip), self.sent.to);
                if !self.sent.open() {
                    net.counters().absorbed.add();
                    return News::Nothing;
                }
                self.sent.done();
                let silent = self.expired && status == 487;
                let refusal = if silent {
                    Refusal::Silence
                } else {
                    Refusal::Theirs(Box::new(response.clone()))
                };
                self.refusal = Some(refusal);
                if status >= 600 {
                    News::RefusedByAll
                } else {
                    News::Nothing
                }
            }
        }
    }

    fn cancel(&mut self, net: &Net, now: Duration, timers: &Timers) {
        if !self.sent.open() || self.cancelled {
            return;
        }
        self.cancelled = true;
        if self.rings {
            self.send_cancel(net, now, timers);
        }
    }

    fn send_cancel(&mut self, net: &Net, now: Duration, timers: &Timers) {
        if self.cancel.is_none() {
            self.cancel = Some(Sent::other(
                net,
                cancel(&self.invite),
                self.sent.to,
                now,
                timers,
            ));
            // 9.1: an endpoint that is silent for this long after the CANCEL never answers the INVITE.
            self.sent.proceeding(now + timers.give_up());
        }
    }

    fn tick(&mut self, net: &Net, now: Duration, timers: &Timers) {
        if let Some(cancel) = &mut self.cancel {
            cancel.tick(net, now);
        }
        if !self.sent.tick(net, now) {
            return;
        }
        if self.rings && !self.cancelled {
            // Timer C: the place rang long enough (16.8).
            self.expired = true;
            self.cancelled = true;
            self.send_cancel(net, now, timers);
        } else {
            self.refusal = Some(Refusal::Silence); // timer B
        }
    }
}

/// Returns the request without its body, which is not needed again.
fn headers_only(mut request: sip::Request) -> sip::Request {
    request.body = Vec::new();
    request
}
