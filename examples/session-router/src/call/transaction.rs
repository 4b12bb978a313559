//! Client transactions: requests of the router that want an answer (RFC 3261, 17.1).

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::timers::{Repeat, Timers};
use crate::wire::udp::Net;

/// A request of the router: it is sent again until the other side says something, and given up after a while.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// Its destination.
    pub(crate) to: SocketAddr,
    #[serde(with = "serde_bytes")]
    bytes: Vec<u8>,
    repeat: Option<Repeat>,
    until: Option<Duration>,
}

impl Sent {
    /// Sends an INVITE (timers A and B).
    pub(crate) fn invite(
        net: &Net,
        bytes: Vec<u8>,
        to: SocketAddr,
        now: Duration,
        timers: &Timers,
    ) -> Sent {
        Sent::new(
            net,
            bytes,
            to,
            Repeat::invite(now, timers),
            now + timers.give_up(),
        )
    }

    /// Sends any other request (timers E and F).
    pub(crate) fn other(
        net: &Net,
        bytes: Vec<u8>,
        to: SocketAddr,
        now: Duration,
        timers: &Timers,
    ) -> Sent {
        Sent::new(
            net,
            bytes,
            to,
            Repeat::other(now, timers),
            now + timers.give_up(),
        )
    }

    fn new(net: &Net, bytes: Vec<u8>, to: SocketAddr, repeat: Repeat, until: Duration) -> Sent {
        net.send(&bytes, to);
        Sent {
            to,
            bytes,
            repeat: Some(repeat),
            until: Some(until),
        }
    }

    /// Starts the waits again on another clock, after a restart.
    pub(crate) fn restart(&mut self, now: Duration, timers: &Timers) {
        if self.open() {
            self.until = Some(now + timers.give_up());
        }
        if let Some(repeat) = &mut self.repeat {
            repeat.restart(now, timers);
        }
    }

    /// Notes a provisional answer: the INVITE is not repeated any more, and has time until `until`.
    pub(crate) fn proceeding(&mut self, until: Duration) {
        self.repeat = None;
        self.until = Some(until);
    }

    /// Notes the final answer: the router sends nothing more, and frees the text.
    pub(crate) fn done(&mut self) {
        self.repeat = None;
        self.until = None;
        self.bytes = Vec::new();
    }

    /// Returns true until the final answer, or until the router gave up.
    pub(crate) fn open(&self) -> bool {
        self.until.is_some()
    }

    /// Returns the time of the next work.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.until.map(|until| {
            self.repeat
                .as_ref()
                .map_or(until, |repeat| repeat.at.min(until))
        })
    }

    /// Does what is due. Returns true, once, if the answer did not come in time.
    pub(crate) fn tick(&mut self, net: &Net, now: Duration) -> bool {
        match self.until {
            Some(until) if until <= now => {
                self.done();
                true
            }
            Some(_) => {
                if self.repeat.as_mut().is_some_and(|repeat| repeat.due(now)) {
                    net.counters().repeated.add();
                    net.send(&self.bytes, self.to);
                }
                false
            }
            None => false,
        }
    }
}
