//! A caller: many calls at a time, through one socket, each as a stranger would.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rsipstack::sip::{Header, Method};

use crate::report::micros;
use crate::wire::message::{Message, Response};
use crate::wire::parse::parse;

/// The planned course of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// An endpoint answers, and the caller hangs up at once.
    Talk,
    /// The call rings, and the caller gives up.
    Cancel,
    /// The router refuses the call with this status.
    Refused(u16),
}

/// What the caller saw.
#[derive(Debug)]
pub(crate) struct Summary {
    /// The time from the first INVITE to the last answer.
    pub took: Duration,
    /// Calls that were answered and hung up.
    pub talked: u64,
    /// Calls that were cancelled and got their 487.
    pub cancelled: u64,
    /// Calls that were refused as planned.
    pub refused: u64,
    /// Calls that went another way than planned.
    pub failed: u64,
    /// Answers 503 with a Retry-After.
    pub put_off: u64,
    /// Repeated requests.
    pub repeated: u64,
    /// Microseconds from INVITE to 200.
    pub setup: Histogram<u64>,
    /// Microseconds from CANCEL to 487.
    pub cancel: Histogram<u64>,
    /// Microseconds from INVITE to the refusal.
    pub refusal: Histogram<u64>,
}

/// A caller, in a thread of its own.
#[derive(Debug)]
pub(crate) struct Caller {
    progress: Arc<Progress>,
    thread: JoinHandle<Summary>,
}

#[derive(Debug, Default)]
struct Progress {
    done: AtomicU64,
    failed: AtomicU64,
}

impl Caller {
    /// Starts `calls` calls through `router`, at most `in_flight` at a time and `rate` a second.
    pub(crate) fn start(
        router: SocketAddr,
        t1: Duration,
        calls: usize,
        in_flight: usize,
        rate: Option<u32>,
        plan: fn(usize) -> (Plan, &'static str),
    ) -> io::Result<Caller> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let us = socket.local_addr()?;
        socket.set_read_timeout(Some(t1 / 4))?;
        let progress = Arc::new(Progress::default());
        let summary = Summary {
            took: Duration::ZERO,
            talked: 0,
            cancelled: 0,
            refused: 0,
            failed: 0,
            put_off: 0,
            repeated: 0,
            setup: micros(),
            cancel: micros(),
            refusal: micros(),
        };
        let calling = Calling {
            socket,
            us,
            router,
            t1,
            plan,
            progress: Arc::clone(&progress),
            live: HashMap::new(),
            later: VecDeque::new(),
            calls: calls as u64,
            summary,
        };
        let thread = thread::Builder::new()
            .name("caller".to_owned())
            .spawn(move || calling.run(calls, in_flight, rate))?;
        Ok(Caller { progress, thread })
    }

    /// Returns true once the last call ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Returns how many calls ended, and how many of them not as planned.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (
            self.progress.done.load(Ordering::Relaxed),
            self.progress.failed.load(Ordering::Relaxed),
        )
    }

    /// Waits for the end, and returns what the caller saw.
    pub(crate) fn finish(self) -> Summary {
        match self.thread.join() {
            Ok(summary) => summary,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

struct Calling {
    socket: UdpSocket,
    us: SocketAddr,
    router: SocketAddr,
    t1: Duration,
    plan: fn(usize) -> (Plan, &'static str),
    progress: Arc<Progress>,
    live: HashMap<String, Live>,
    /// Calls that got 503, and the time at which each begins again.
    later: VecDeque<(Instant, usize)>,
    calls: u64,
    summary: Summary,
}

/// One call.
struct Live {
    number: usize,
    plan: Plan,
    user: &'static str,
    began: Instant,
    /// True once a response to the INVITE came.
    proceeding: bool,
    /// The time at which the CANCEL or the BYE went out.
    ending: Option<Instant>,
    /// The request that is repeated until an answer: the bytes, the next time, and the wait after that.
    request: Vec<u8>,
    again: Option<(Instant, Duration)>,
}

impl Calling {
    fn run(mut self, calls: usize, in_flight: usize, rate: Option<u32>) -> Summary {
        let began = Instant::now();
        let mut next = 0;
        let mut swept = began;
        let mut buffer = vec![0; 65_536];
        while next < calls || !self.live.is_empty() || !self.later.is_empty() {
            let now = Instant::now();
            while self.live.len() < in_flight
                && let Some((_, number)) = self.later.pop_front_if(|(at, _)| *at <= now)
            {
                self.call(number);
            }
            let due = rate.map_or(calls, |rate| {
                let due = began.elapsed().as_secs_f64() * f64::from(rate);
                calls.min(due as usize + 1)
            });
            while next < due && self.live.len() < in_flight {
                self.call(next);
                next += 1;
            }
            if let Ok((length, source)) = self.socket.recv_from(&mut buffer)
                && let Ok(Message::Response(response)) = parse(&buffer[..length], source)
            {
                self.response(&response);
            }
            if swept.elapsed() >= self.t1 / 4 {
                swept = Instant::now();
                self.again(swept);
            }
        }
        self.summary.took = began.elapsed();
        self.summary
    }

    fn call(&mut self, number: usize) {
        let (plan, user) = (self.plan)(number);
        let call_id = format!("{number}@{}", self.us);
        let now = Instant::now();
        let request = self.request("INVITE", number, user, 1, None);
        self.send(&request);
        let again = Some((now + self.t1, self.t1));
        self.live.insert(
            call_id,
            Live {
                number,
                plan,
                user,
                began: now,
                proceeding: false,
                ending: None,
                request,
                again,
            },
        );
    }

    fn response(&mut self, response: &Response) {
        let Some(mut live) = self.live.remove(&response.call_id) else {
            return;
        };
        let keep = match (response.method, response.status) {
            (Method::Invite, 503) if self.put_off(&live, response) => return,
            (Method::Invite, status) => self.answered(&mut live, response, status),
            (Method::Bye, 200) => {
                self.summary.talked += 1;
                false
            }
            (Method::Cancel, 200) => {
                live.again = None; // the 487 decides
                true
            }
            (_, ..200) => true,
            _ => self.failed(),
        };
        if keep {
            self.live.insert(response.call_id.clone(), live);
        } else {
            self.progress.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Handles a 503 of the router. Returns true if the answer has a Retry-After: then the call begins again after that
    /// time. That happens no more often than there are calls.
    fn put_off(&mut self, live: &Live, response: &Response) -> bool {
        let after = response.sip.headers.iter().find_map(|header| match header {
            Header::RetryAfter(after) => after.value().trim().parse::<u32>().ok(),
            _ => None,
        });
        let Some(after) = after.filter(|_| self.summary.put_off < self.calls) else {
            return false;
        };
        self.summary.put_off += 1;
        let ack = self.request("ACK", live.number, live.user, 1, response.to_tag.as_deref());
        self.send(&ack);
        let at = Instant::now() + Duration::from_secs(after.into());
        self.later.push_back((at, live.number));
        true
    }

    /// Takes an answer to the INVITE. Returns false if that was the end of the call.
    fn answered(&mut self, live: &mut Live, response: &Response, status: u16) -> bool {
        let since = |from: Instant| from.elapsed().as_micros() as u64;
        match status {
            ..200 => {
                live.proceeding = true;
                if live.ending.is_none() && live.plan == Plan::Cancel {
                    if status > 100 {
                        self.then(live, "CANCEL", 1, None);
                    } // else after T1: the 180 may be lost, and the endpoint does not repeat it
                } else if live.ending.is_none() {
                    live.again = None;
                }
                true
            }
            200 => {
                let ack =
                    self.request("ACK", live.number, live.user, 1, response.to_tag.as_deref());
                self.send(&ack);
                if live.plan != Plan::Talk {
                    return self.failed();
                }
                if live.ending.is_none() {
                    self.summary.setup.saturating_record(since(live.began));
                    self.then(live, "BYE", 2, response.to_tag.as_deref());
                }
                true
            }
            _ => {
                let ack =
                    self.request("ACK", live.number, live.user, 1, response.to_tag.as_deref());
                self.send(&ack);
                match live.plan {
                    Plan::Cancel if status == 487 => {
                        self.summary.cancelled += 1;
                        self.summary
                            .cancel
                            .saturating_record(since(live.ending.unwrap_or(live.began)));
                        false
                    }
                    Plan::Refused(expected) if status == expected => {
                        self.summary.refused += 1;
                        self.summary.refusal.saturating_record(since(live.began));
                        false
                    }
                    _ => self.failed(),
                }
            }
        }
    }

    /// Sends the request after the INVITE, and repeats it until an answer.
    fn then(&mut self, live: &mut Live, method: &str, cseq: u32, to_tag: Option<&str>) {
        let now = Instant::now();
        live.request = self.request(method, live.number, live.user, cseq, to_tag);
        live.ending = Some(now);
        live.again = Some((now + self.t1, self.t1));
        self.send(&live.request);
    }

    fn failed(&mut self) -> bool {
        self.summary.failed += 1;
        self.progress.failed.fetch_add(1, Ordering::Relaxed);
        false
    }

    /// Does what is due.
    fn again(&mut self, now: Instant) {
        let limit = 128 * self.t1;
        let due =
            |live: &Live| now - live.began > limit || live.again.is_some_and(|(at, _)| at <= now);
        let due: Vec<_> = self
            .live
            .iter()
            .filter(|(_, live)| due(live))
            .map(|(id, _)| id.clone())
            .collect();
        for call_id in due {
            let Some(mut live) = self.live.remove(&call_id) else {
                continue;
            };
            if now - live.began > limit {
                self.failed();
                self.progress.done.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            if live.plan == Plan::Cancel && live.proceeding && live.ending.is_none() {
                self.then(&mut live, "CANCEL", 1, None);
            } else if let Some((at, wait)) = &mut live.again {
                *wait *= 2;
                *at = now + *wait;
                self.summary.repeated += 1;
                self.send(&live.request);
            }
            self.live.insert(call_id, live);
        }
    }

    fn request(
        &self,
        method: &str,
        number: usize,
        user: &str,
        cseq: u32,
        to_tag: Option<&str>,
    ) -> Vec<u8> {
        let (us, router) = (self.us, self.router);
        // A CANCEL, and the ACK of a refusal, are about the INVITE and have its branch. A BYE and the ACK of a 200 are
        // requests of their own. (Here all ACKs have that branch, as with many clients.)
        let branch = if method == "BYE" { "b" } else { "i" };
        let mut text = String::with_capacity(512);
        let _ = write!(
            text,
            "{method} sip:{user}@{router} SIP/2.0\r\nVia: SIP/2.0/UDP {us};branch=z9hG4bK{branch}{number}\r\n\
             From: <sip:caller@{us}>;tag=c{number}\r\nTo: <sip:{user}@{router}>"
        );
        if let Some(tag) = to_tag {
            let _ = write!(text, ";tag={tag}");
        }
        let _ = write!(
            text,
            "\r\nCall-ID: {number}@{us}\r\nCSeq: {cseq} {method}\r\nContact: <sip:caller@{us}>\r\n\
             Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        );
        text.into_bytes()
    }

    fn send(&self, bytes: &[u8]) {
        let _ = self.socket.send_to(bytes, self.router);
    }
}
