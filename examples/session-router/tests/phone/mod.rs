//! A phone for tests: says what the test wants, and waits for what the test expects.
#![allow(dead_code, reason = "each test file takes what it needs")]

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest time for a packet on a busy machine.
const LIMIT: Duration = Duration::from_secs(10);

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A phone: one socket.
pub(crate) struct Phone {
    pub(crate) socket: UdpSocket,
    pub(crate) address: SocketAddr,
}

/// A message, as text.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) source: SocketAddr,
}

/// One call of a phone, on the calling side.
#[derive(Debug, Clone)]
pub(crate) struct Calling {
    pub(crate) user: String,
    pub(crate) call_id: String,
    pub(crate) branch: String,
    pub(crate) cseq: u32,
    pub(crate) max_forwards: u32,
    pub(crate) to_tag: Option<String>,
    pub(crate) from_tag: String,
    pub(crate) more: String,
}

impl Calling {
    pub(crate) fn to(user: &str) -> Calling {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Calling {
            user: user.to_owned(),
            call_id: format!("call-{number}"),
            branch: format!("z9hG4bKt{number}"),
            cseq: 1,
            max_forwards: 70,
            to_tag: None,
            from_tag: format!("from{number}"),
            more: String::new(),
        }
    }

    /// Returns the next request of the same call: another transaction.
    pub(crate) fn next(&self) -> Calling {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Calling {
            branch: format!("z9hG4bKt{number}"),
            cseq: self.cseq + 1,
            ..self.clone()
        }
    }

    /// Returns the ACK of the INVITE of this call: another transaction with the same number.
    pub(crate) fn ack(&self) -> Calling {
        Calling {
            cseq: self.cseq,
            ..self.next()
        }
    }
}

impl Phone {
    pub(crate) fn new() -> Phone {
        Phone::at(1)
    }

    /// Returns a phone at 127.0.0.`last`: another source than those at other addresses.
    pub(crate) fn at(last: u8) -> Phone {
        let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, last], 0))).expect("a port");
        socket.set_read_timeout(Some(LIMIT)).expect("a limit");
        let address = socket.local_addr().expect("an address");
        Phone { socket, address }
    }

    pub(crate) fn send(&self, text: impl AsRef<[u8]>, to: SocketAddr) {
        self.socket.send_to(text.as_ref(), to).expect("sent");
    }

    /// Returns the next message.
    pub(crate) fn receive(&self) -> Text {
        let mut buffer = vec![0; 65_536];
        let (length, source) = self
            .socket
            .recv_from(&mut buffer)
            .expect("a message in time");
        Text {
            text: String::from_utf8(buffer[..length].to_vec()).expect("text"),
            source,
        }
    }

    /// Returns the next message, which must be a response with this status.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Text {
        let text = self.receive();
        assert_eq!(text.status(), Some(status), "{}", text.text);
        text
    }

    /// Returns the next message, which must be this kind of request.
    #[track_caller]
    pub(crate) fn expect_request(&self, method: &str) -> Text {
        let text = self.receive();
        assert!(
            text.text.starts_with(&format!("{method} ")),
            "expected {method}, got {}",
            text.text
        );
        text
    }

    /// Sends a request of a call.
    pub(crate) fn request(&self, method: &str, call: &Calling, router: SocketAddr) {
        self.send(self.text(method, call, router), router);
    }

    /// Returns a request of a call.
    pub(crate) fn text(&self, method: &str, call: &Calling, router: SocketAddr) -> String {
        let (us, tag) = (
            self.address,
            call.to_tag
                .as_ref()
                .map(|tag| format!(";tag={tag}"))
                .unwrap_or_default(),
        );
        let Calling {
            user,
            call_id,
            branch,
            cseq,
            max_forwards,
            from_tag,
            more,
            ..
        } = call;
        format!(
            "{method} sip:{user}@{router} SIP/2.0\r\nVia: SIP/2.0/UDP {us};branch={branch}\r\n\
             From: <sip:caller@{us}>;tag={from_tag}\r\nTo: <sip:{user}@{router}>{tag}\r\nCall-ID: {call_id}\r\n\
             CSeq: {cseq} {method}\r\nContact: <sip:caller@{us}>\r\nMax-Forwards: {max_forwards}\r\n{more}\
             Content-Length: 0\r\n\r\n"
        )
    }

    /// Answers a request; `tag` is added to To if To has no tag.
    pub(crate) fn answer(&self, request: &Text, status: u16, tag: &str) {
        let mut text = format!("SIP/2.0 {status} Whatever\r\n");
        for line in request.text.split("\r\n") {
            let name = line.split(':').next().unwrap_or("");
            match name {
                "To" if !line.contains(";tag=") && status > 100 => {
                    text.push_str(&format!("{line};tag={tag}\r\n"))
                }
                "Via" | "From" | "To" | "Call-ID" | "CSeq" | "Record-Route" => {
                    text.push_str(&format!("{line}\r\n"))
                }
                _ => {}
            }
        }
        text.push_str(&format!(
            "Contact: <sip:phone@{}>\r\nContent-Length: 0\r\n\r\n",
            self.address
        ));
        self.send(text, request.source);
    }

    /// Registers `user` at this phone, and returns the registrar's answer.
    pub(crate) fn register(&self, user: &str, seconds: u32, router: SocketAddr) -> Text {
        let us = self.address;
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        self.send(
            format!(
                "REGISTER sip:{router} SIP/2.0\r\nVia: SIP/2.0/UDP {us};branch=z9hG4bKr{number}\r\n\
                 From: <sip:{user}@{router}>;tag=r\r\nTo: <sip:{user}@{router}>\r\nCall-ID: register-{us}\r\n\
                 CSeq: {number} REGISTER\r\nContact: <sip:{user}@{us}>\r\nExpires: {seconds}\r\n\
                 Content-Length: 0\r\n\r\n"
            ),
            router,
        );
        self.receive()
    }
}

impl Text {
    pub(crate) fn status(&self) -> Option<u16> {
        self.text.strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()
    }

    /// Returns the values of a header.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let lines = self
            .text
            .split("\r\n")
            .filter_map(|line| line.split_once(": "));
        lines
            .filter(|(header, _)| *header == name)
            .map(|(_, value)| value)
            .collect()
    }

    /// Returns the first value of a header.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        self.all(name)
            .first()
            .copied()
            .unwrap_or_else(|| panic!("no {name} in {}", self.text))
    }

    /// Returns the tag in To.
    #[track_caller]
    pub(crate) fn to_tag(&self) -> Option<String> {
        self.header("To")
            .split_once(";tag=")
            .map(|(_, tag)| tag.to_owned())
    }
}
