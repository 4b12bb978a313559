//! What a call does with a packet, in any phase, and what its timers do.

use std::time::Duration;

use rsipstack::sip::Method;

use super::exchange::Exchange;
use super::fork::{News, Refusal};
use super::timers::Repeat;
use super::{Call, CallEvent, Outcome};
use crate::wire::message::{Request, Response};

/// The most requests of one call that may be on their way, or may come again, at the same time.
const MOST_EXCHANGES: usize = 32;

/// What a packet meant for the call.
#[derive(Debug)]
pub(crate) enum Happened {
    /// Nothing that changes its phase.
    Nothing,
    /// A place answered.
    Answered,
    /// The caller sent the first ACK.
    Confirmed,
    /// The last open dialog was hung up.
    HungUp,
    /// The caller gave up.
    Cancelled,
    /// The ACK of the refusal arrived.
    Acked,
    /// The caller asks again, with the same Call-ID and more in the INVITE (RFC 3261, 8.1.3.5).
    Again(Box<Request>),
}

impl Call {
    /// Takes one packet.
    pub(crate) fn take(&mut self, event: CallEvent, now: Duration) -> Happened {
        match event {
            CallEvent::Response(response) => self.response(&response, now),
            CallEvent::Request(request) => self.request(request, now),
            CallEvent::Ack(ack) => self.ack(&ack),
            CallEvent::Cancel(cancel) => self.cancel(&cancel),
        }
    }

    fn response(&mut self, response: &Response, now: Duration) -> Happened {
        match self.forks.response(&self.net, response, now, &self.timers) {
            Some(News::Nothing) => Happened::Nothing,
            Some(News::Progress) => {
                // After a final answer, progress is ignored.
                if !self.answered && !self.refused {
                    self.dialogs.answered(response);
                    self.pass_on(response);
                }
                Happened::Nothing
            }
            Some(News::Answered) => {
                let new = self.dialogs.answered(response) || !self.answered;
                if !new {
                    self.pass_on(response); // a repeated 200: the ACK was lost
                    return Happened::Nothing;
                }
                self.answered = true;
                if let Some(bytes) = response.forward() {
                    self.owe(bytes, self.invite.reply_to);
                }
                Happened::Answered
            }
            Some(News::RefusedByAll) => {
                self.forks.cancel(&self.net, now, &self.timers);
                Happened::Nothing
            }
            None => self.exchange_response(response, now),
        }
    }

    fn exchange_response(&mut self, response: &Response, now: Duration) -> Happened {
        let Some(exchange) = self
            .exchanges
            .iter_mut()
            .find(|exchange| exchange.is_answered_by(response))
        else {
            self.net.counters().stray.add();
            return Happened::Nothing;
        };
        let (passed, finished) = exchange.response(&self.net, response, now, &self.timers);
        let (to, ended) = (exchange.reply_to, exchange.tag.clone());
        // A BYE ends the dialog if the other side accepts it or does not know the dialog (RFC 3261, 15.1.1). A BYE that
        // the other side wants in another form does not.
        if finished
            && exchange.method == Method::Bye
            && matches!(response.status, 200..300 | 408 | 481)
            && let Happened::HungUp = self.hung_up(&ended)
        {
            if let Some(bytes) = passed {
                self.owe(bytes, to);
            }
            return Happened::HungUp;
        }
        if let Some(bytes) = passed {
            self.net.send(&bytes, to);
        }
        Happened::Nothing
    }

    fn hung_up(&mut self, tag: &str) -> Happened {
        self.dialogs.ended(tag);
        if self.dialogs.open() {
            Happened::Nothing
        } else {
            Happened::HungUp
        }
    }

    fn request(&mut self, request: Box<Request>, now: Duration) -> Happened {
        if request.key == self.invite.key && request.method() == Method::Invite {
            self.net.counters().absorbed.add();
            // Once there is a 2xx, the callee repeats it, and not the router (RFC 6026, 7.1).
            if !self.answered
                && let Some(answer) = &self.answer
            {
                self.net.send(answer, self.invite.reply_to);
            }
            return Happened::Nothing;
        }
        if let Some(exchange) = self
            .exchanges
            .iter()
            .find(|exchange| exchange.is_of(&request) && exchange.method == request.method())
        {
            exchange.again(&self.net);
            return Happened::Nothing;
        }
        if request.to_tag.is_none() && request.method() == Method::Invite {
            let more = request.cseq > self.invite.cseq && request.from_tag == self.invite.from_tag;
            if more {
                return Happened::Again(request);
            }
            // The same call by another way: it went in a circle (RFC 3261, 8.2.2.2).
            self.refuse_other(&request, 482, "");
            return Happened::Nothing;
        }
        self.in_dialog(&request, now);
        Happened::Nothing
    }

    /// Sends a request on to the other side of its dialog.
    fn in_dialog(&mut self, request: &Request, now: Duration) {
        if request.max_forwards == 0 {
            return self.refuse_other(request, 483, "");
        }
        let Some((tag, side)) = self.dialogs.other_side(request) else {
            return self.refuse_other(request, 481, "");
        };
        self.exchanges
            .retain(|exchange| !exchange.over(now, &self.timers));
        if self.exchanges.len() >= MOST_EXCHANGES {
            return self.refuse_other(request, 503, "Retry-After: 1\r\n");
        }
        let target = side.target(request, self.net.local());
        let exchange = Exchange::start(
            &self.net,
            self.branch_for(request),
            request,
            tag,
            target,
            side.address,
            now,
            &self.timers,
        );
        self.exchanges.push(exchange);
    }

    /// Returns the branch of a forwarded request. It is derived from the branch that the request came with (RFC 3261,
    /// 16.11). So a repeated request gets the same branch, even after a restart of the router. The other side takes it
    /// for a retransmission and answers as before.
    fn branch_for(&self, request: &Request) -> String {
        let key = &request.key;
        let method = request.method().to_string();
        let cseq = request.cseq.to_be_bytes();
        let parts = [
            key.branch.as_bytes(),
            key.sent_by.as_bytes(),
            method.as_bytes(),
            &cseq,
        ];
        // FNV-1a: the standard library's hash may change in the next release.
        let bytes = parts.iter().flat_map(|part| part.iter().chain(&[0]));
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{}.{hash:016x}", self.branch)
    }

    fn ack(&mut self, ack: &Request) -> Happened {
        if ack.key == self.invite.key && !self.answered {
            // The ACK of a refusal has the branch of the INVITE, and goes no further (RFC 3261, 17.2.1).
            if self.repeat.take().is_none() {
                self.net.counters().absorbed.add();
            }
            return Happened::Acked;
        }
        if self.exchanges.iter().any(|exchange| exchange.is_of(ack)) {
            return Happened::Nothing; // the same, for an INVITE inside the dialog
        }
        // The ACK of a 2xx is a request of its own and gets no answer: the router forwards and forgets it (16.11).
        match self.dialogs.other_side(ack) {
            Some((_, side)) if ack.max_forwards > 0 => {
                let target = side.target(ack, self.net.local());
                let forward = ack.forward(target, &self.branch_for(ack), self.net.local(), false);
                let (bytes, to) = (forward.to_bytes(), side.address);
                // The caller's first ACK stops the repeats of the 200, so the journal must have the call before the ACK
                // is forwarded.
                if self.answered && !self.confirmed && ack.from_tag == self.invite.from_tag {
                    self.confirmed = true;
                    self.owe(bytes, to);
                    return Happened::Confirmed;
                }
                self.net.send(&bytes, to);
            }
            _ => self.net.counters().stray.add(),
        }
        Happened::Nothing
    }

    fn cancel(&mut self, cancel: &Request) -> Happened {
        if cancel.key != self.invite.key {
            // There is nothing to cancel (9.2). The router does not forward a CANCEL of an INVITE inside the dialog:
            // that INVITE gets its answer soon in any case.
            let known = self.exchanges.iter().any(|exchange| exchange.is_of(cancel));
            self.refuse_other(cancel, if known { 200 } else { 481 }, "");
            return Happened::Nothing;
        }
        self.refuse_other(cancel, 200, "");
        if self.answered || self.refused || self.cancelled {
            return Happened::Nothing; // too late, or a repeat
        }
        self.cancelled = true;
        Happened::Cancelled
    }

    /// Does what is due. Returns true if that ended the last dialog because its BYE got no answer.
    pub(crate) fn tick(&mut self, now: Duration) -> bool {
        self.forks.tick(&self.net, now, &self.timers);
        if let (Some(repeat), Some(answer)) = (&mut self.repeat, &self.answer)
            && repeat.due(now)
        {
            self.net.counters().repeated.add();
            self.net.send(answer, self.invite.reply_to);
        }
        let mut unanswered = None;
        for exchange in &mut self.exchanges {
            if exchange.tick(&self.net, now) && exchange.method == Method::Bye {
                unanswered = Some(exchange.tag.clone());
            }
        }
        unanswered.is_some_and(|tag| matches!(self.hung_up(&tag), Happened::HungUp))
    }

    /// Returns the time until the next work is due.
    pub(crate) fn quiet(&self, now: Duration) -> Duration {
        let exchanges = self.exchanges.iter().filter_map(Exchange::due);
        let repeat = self.repeat.iter().map(|repeat| repeat.at);
        let due = exchanges.chain(repeat).chain(self.forks.due()).min();
        due.map_or(Duration::from_secs(3600), |due| due.saturating_sub(now))
    }

    /// Tells the caller that the router works on the call (RFC 3261, 17.2.1), which stops the repeats of the INVITE.
    pub(crate) fn trying(&mut self) {
        let trying = self.invite.answer(100, "", "");
        self.net.send(&trying, self.invite.reply_to);
        self.answer = Some(trying);
    }

    /// Refuses the call with the router's own answer; `more` holds whole header lines.
    pub(crate) fn refuse(&mut self, status: u16, more: &str, now: Duration) -> Outcome {
        let bytes = self.invite.answer(status, &self.tag, more);
        self.refuse_with(status, bytes, now)
    }

    /// Refuses the call with the best answer of the places that rang.
    pub(crate) fn refuse_as(&mut self, refusal: &Refusal, now: Duration) -> Outcome {
        match refusal {
            // The caller gave up and no endpoint answered.
            Refusal::Silence if self.cancelled => self.refuse(487, "", now),
            Refusal::Silence => self.refuse(408, "", now),
            // 16.7 step 6: one endpoint without room does not mean that the router has none.
            Refusal::Theirs(response) if response.status == 503 => self.refuse(500, "", now),
            Refusal::Theirs(response) => match response.forward() {
                Some(bytes) => self.refuse_with(response.status, bytes, now),
                None => self.refuse(500, "", now),
            },
        }
    }

    fn refuse_with(&mut self, status: u16, bytes: Vec<u8>, now: Duration) -> Outcome {
        self.owe(bytes.clone(), self.invite.reply_to);
        self.answer = Some(bytes);
        self.repeat = Some(Repeat::other(now, &self.timers));
        self.refused = true;
        if self.cancelled && status == 487 {
            Outcome::Cancelled
        } else {
            Outcome::Rejected(status)
        }
    }

    /// Answers a request that goes no further.
    pub(crate) fn refuse_other(&self, request: &Request, status: u16, more: &str) {
        self.net
            .send(&request.answer(status, &self.tag, more), request.reply_to);
    }

    /// Forwards an answer of a callee to the caller.
    fn pass_on(&mut self, response: &Response) {
        if let Some(bytes) = response.forward() {
            self.net.send(&bytes, self.invite.reply_to);
            self.answer = Some(bytes);
        }
    }
}
