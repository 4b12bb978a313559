//! `flood`: one source that sends a router more than its share. The script `examples/session-router/flood` makes calls
//! beside it. The flood goes only to a loopback address, and ends after a number of packets.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use lexopt::prelude::*;

const HELP: &str = "\
Sends packets of one source to a router on a loopback address, at a given rate.

Usage:
  flood ROUTER [OPTIONS]

Options:
  --from ADDRESS   the source [default: 127.0.0.2]
  --rate N         packets a second [default: 40000]
  --seconds N      how long [default: 10]
  --user USER      the user that an INVITE calls [default: service]
  --kind KIND      what is sent [default: invite]
                     invite   an INVITE of another call each time
                     again    the same INVITE each time
                     bye      a BYE of a call that there is not
                     register a REGISTER of another user each time
                     response a 200 that no request asked for
                     noise    a packet that no parser reads
  -h, --help       print this
";

struct Flood {
    router: SocketAddr,
    from: SocketAddr,
    rate: u64,
    seconds: u64,
    user: String,
    kind: String,
}

fn main() -> ExitCode {
    let flood = match read() {
        Ok(Some(flood)) => flood,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("flood: {error}\nTry flood --help.");
            return ExitCode::from(2);
        }
    };
    match flood.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flood: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read() -> Result<Option<Flood>, lexopt::Error> {
    let mut parser = lexopt::Parser::from_env();
    let mut flood = Flood {
        router: ([127, 0, 0, 1], 5060).into(),
        from: ([127, 0, 0, 2], 0).into(),
        rate: 40_000,
        seconds: 10,
        user: "service".to_owned(),
        kind: "invite".to_owned(),
    };
    let mut named = false;
    while let Some(argument) = parser.next()? {
        match argument {
            Value(router) if !named => {
                flood.router = router.parse()?;
                named = true;
            }
            Long("from") => flood.from.set_ip(parser.value()?.parse()?),
            Long("rate") => flood.rate = parser.value()?.parse::<u64>()?.max(1),
            Long("seconds") => flood.seconds = parser.value()?.parse()?,
            Long("user") => flood.user = parser.value()?.string()?,
            Long("kind") => flood.kind = parser.value()?.string()?,
            Short('h') | Long("help") => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    if !flood.router.ip().is_loopback() {
        return Err(format!("{} is no loopback address: name one", flood.router).into());
    }
    if flood.packet("").is_none() {
        return Err(format!("there is no kind {:?}: see --help", flood.kind).into());
    }
    Ok(Some(flood))
}

impl Flood {
    fn run(&self) -> io::Result<()> {
        let socket = UdpSocket::bind(self.from)?;
        socket.connect(self.router)?;
        socket.set_nonblocking(true)?; // what the kernel does not take at once is lost
        let text = self.packet(&" ".repeat(DIGITS)).unwrap_or_default();
        // Only the number in the packet changes.
        let places: Vec<usize> = text
            .match_indices(&" ".repeat(DIGITS))
            .map(|(at, _)| at)
            .collect();
        let mut packet = text.into_bytes();
        let mut answer = [0; 2048];
        let (began, last) = (Instant::now(), self.rate.saturating_mul(self.seconds));
        let (mut sent, mut answers, mut refused) = (0, 0_u64, 0_u64);
        while sent < last {
            let due = (began.elapsed().as_nanos() * u128::from(self.rate) / 1_000_000_000) as u64;
            // After a pause it sends at most the packets of a tenth of a second at once.
            let due = due.min(last).min(sent + self.rate / 10 + 1);
            while sent < due {
                let digits = format!("{sent:0DIGITS$}");
                for at in &places {
                    packet[*at..at + DIGITS].copy_from_slice(digits.as_bytes());
                }
                let _ = socket.send(&packet);
                sent += 1;
            }
            while let Ok(length) = socket.recv(&mut answer) {
                answers += 1;
                refused += u64::from(answer[..length].starts_with(b"SIP/2.0 503"));
            }
            thread::sleep(Duration::from_micros(500));
        }
        let took = began.elapsed().as_secs_f64();
        println!(
            "flood: {sent} packets of {} in {took:.1} s, {:.0} a second; {answers} answers, {refused} of them 503",
            self.from.ip(),
            sent as f64 / took
        );
        Ok(())
    }

    /// A packet of this kind. Its `number` differs from that of all others.
    fn packet(&self, number: &str) -> Option<String> {
        let Flood {
            router, from, user, ..
        } = self;
        let from = from.ip();
        let request = |method: &str, user: &str, number: &str, tag: &str| {
            format!(
                "{method} sip:{user}@{router} SIP/2.0\r\n\
                 Via: SIP/2.0/UDP {from}:5062;rport;branch=z9hG4bKf{number}\r\n\
                 From: <sip:flood@{from}>;tag=f{number}\r\nTo: <sip:{user}@{router}>{tag}\r\n\
                 Call-ID: f{number}@{from}\r\nCSeq: 1 {method}\r\nContact: <sip:flood@{from}:5062>\r\n\
                 Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
            )
        };
        Some(match self.kind.as_str() {
            "invite" => request("INVITE", user, number, ""),
            "again" => request("INVITE", user, "again", ""),
            "bye" => request("BYE", user, number, ";tag=none"),
            "register" => request("REGISTER", &format!("f{number}"), number, ""),
            "response" => format!(
                "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP {router};branch=z9hG4bKf{number}\r\n\
                 From: <sip:flood@{from}>;tag=f\r\nTo: <sip:{user}@{router}>;tag=t\r\n\
                 Call-ID: f{number}@{from}\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
            ),
            "noise" => format!("INVITE {number} {}\r\n\r\n", "x: y\r\n".repeat(80)),
            _ => return None,
        })
    }
}

/// How many digits a number has in a packet.
const DIGITS: usize = 10;
