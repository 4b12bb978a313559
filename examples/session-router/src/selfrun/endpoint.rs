//! An endpoint: registers its users, rings, answers, and hangs up when told.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rsipstack::sip::Method;

use crate::wire::message::{Message, Request};
use crate::wire::parse::parse;

/// What a user of an endpoint does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Rings and answers at once.
    Answers,
    /// Rings until the caller gives up.
    Rings,
}

/// An endpoint, in a thread of its own.
#[derive(Debug)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    /// Starts the endpoint, and registers its users.
    pub(crate) fn start(
        registrar: SocketAddr,
        t1: Duration,
        users: &[(&str, Manner)],
    ) -> io::Result<Endpoint> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let address = socket.local_addr()?;
        socket.set_read_timeout(Some(Duration::from_millis(200)))?;
        for (number, (user, _)) in users.iter().enumerate() {
            register(&socket, registrar, user, number)?;
        }
        socket.set_read_timeout(Some(t1 / 4))?;
        let stop = Arc::new(AtomicBool::new(false));
        let users = users
            .iter()
            .map(|(user, manner)| ((*user).to_owned(), *manner))
            .collect();
        let mut endpoint = Answering {
            socket,
            address,
            t1,
            users,
            calls: HashMap::new(),
        };
        let thread = thread::Builder::new().name("endpoint".to_owned()).spawn({
            let stop = Arc::clone(&stop);
            move || endpoint.run(&stop)
        })?;
        Ok(Endpoint {
            address,
            stop,
            thread: Some(thread),
        })
    }

    /// Returns the endpoint's address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends a REGISTER until it is answered.
fn register(
    socket: &UdpSocket,
    registrar: SocketAddr,
    user: &str,
    number: usize,
) -> io::Result<()> {
    let us = socket.local_addr()?;
    let text = format!(
        "REGISTER sip:{registrar} SIP/2.0\r\nVia: SIP/2.0/UDP {us};branch=z9hG4bKreg{number}\r\n\
         From: <sip:{user}@{registrar}>;tag={number}\r\nTo: <sip:{user}@{registrar}>\r\n\
         Call-ID: register-{user}@{us}\r\nCSeq: 1 REGISTER\r\nContact: <sip:{user}@{us}>\r\nExpires: 3600\r\n\
         Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
    );
    let mut buffer = [0; 4096];
    for _ in 0..25 {
        socket.send_to(text.as_bytes(), registrar)?;
        if let Ok((length, _)) = socket.recv_from(&mut buffer)
            && buffer[..length].starts_with(b"SIP/2.0 200")
        {
            return Ok(());
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        format!("{user} could not register"),
    ))
}

struct Answering {
    socket: UdpSocket,
    address: SocketAddr,
    t1: Duration,
    users: HashMap<String, Manner>,
    calls: HashMap<String, Ringing>,
}

/// A call at an endpoint, until its ACK.
struct Ringing {
    invite: Box<Request>,
    answer: Vec<u8>,
    /// The endpoint repeats the final answer until the ACK comes (RFC 3261, 13.3.1.4).
    again: Option<(Instant, Duration)>,
}

impl Answering {
    fn run(&mut self, stop: &AtomicBool) {
        let mut buffer = vec![0; 65_536];
        let mut swept = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            if let Ok((length, source)) = self.socket.recv_from(&mut buffer)
                && let Ok(Message::Request(request)) = parse(&buffer[..length], source)
            {
                self.request(request);
            }
            if swept.elapsed() >= self.t1 / 4 {
                swept = Instant::now();
                self.again(swept);
            }
        }
    }

    fn request(&mut self, request: Box<Request>) {
        match request.method() {
            Method::Invite => self.invite(request),
            Method::Ack => {
                if let Some(call) = self.calls.get_mut(&request.call_id) {
                    call.again = None;
                }
            }
            Method::Cancel => {
                self.send(&request.answer(200, "end", ""), request.reply_to);
                if let Some(call) = self.calls.get_mut(&request.call_id)
                    && call.again.is_none()
                {
                    call.answer = call.invite.answer(487, "end", "");
                    call.again = Some((Instant::now() + self.t1, self.t1));
                    let (answer, to) = (call.answer.clone(), call.invite.reply_to);
                    self.send(&answer, to);
                }
            }
            Method::Bye => {
                self.calls.remove(&request.call_id);
                self.send(&request.answer(200, "end", ""), request.reply_to);
            }
            _ => self.send(&request.answer(405, "end", ""), request.reply_to),
        }
    }

    fn invite(&mut self, invite: Box<Request>) {
        if let Some(call) = self.calls.get(&invite.call_id) {
            return self.send(&call.answer, invite.reply_to);
        }
        let manner = invite.user().and_then(|user| self.users.get(user)).copied();
        // Two endpoints may answer one INVITE: their tags tell them apart.
        let tag = format!("e{}", self.address.port());
        let contact = format!(
            "Contact: <sip:{}@{}>\r\n",
            invite.user().unwrap_or("nobody"),
            self.address
        );
        // A dialog begins with the path that it took (RFC 3261, 12.1.1).
        let more: String = invite
            .sip
            .headers
            .iter()
            .filter(|header| matches!(header, rsipstack::sip::Header::RecordRoute(_)))
            .map(|header| format!("{header}\r\n"))
            .chain([contact])
            .collect();
        let ringing = invite.answer(180, &tag, &more);
        let (answer, again) = match manner {
            None => (invite.answer(404, &tag, ""), true),
            Some(Manner::Rings) => (ringing.clone(), false),
            Some(Manner::Answers) => (invite.answer(200, &tag, &more), true),
        };
        if manner.is_some() {
            self.send(&ringing, invite.reply_to);
        }
        if again {
            self.send(&answer, invite.reply_to);
        }
        let again = again.then(|| (Instant::now() + self.t1, self.t1));
        self.calls.insert(
            invite.call_id.clone(),
            Ringing {
                invite,
                answer,
                again,
            },
        );
    }

    /// Repeats the answers that have no ACK yet.
    fn again(&mut self, now: Instant) {
        for call in self.calls.values_mut() {
            if let Some((at, wait)) = &mut call.again
                && *at <= now
            {
                *wait *= 2;
                *at = now + *wait;
                let _ = self.socket.send_to(&call.answer, call.invite.reply_to);
            }
        }
    }

    fn send(&self, bytes: &[u8], to: SocketAddr) {
        let _ = self.socket.send_to(bytes, to);
    }
}
