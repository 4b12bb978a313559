//! Hostile packets, to a router that serves other callers meanwhile.

mod bed;
mod phone;

use std::net::SocketAddr;

use bed::{bob_with, talking};
use phone::{Calling, Phone};

/// Hostile packets, and the answer to each.
#[test]
fn hostile_packets_are_answered_or_dropped_and_leave_it_serving() {
    // The router must read all packets. `flooded.rs` tests the limits of one source.
    let (bed, caller, phones) = bob_with(1, |settings| settings.limits.rate = u32::MAX);
    let evil = Phone::new();
    let good = evil.text("INVITE", &Calling::to("bob"), bed.at);
    let answered: &[(&str, &str, u16)] = &[
        ("SIP/2.0\r\nVia", "SIP/1.0\r\nVia", 505),
        ("INVITE ", "FROB ", 501),
        ("INVITE sip:", "INVITE javascript:", 416),
        ("CSeq: 1 INVITE", "CSeq: 1 BYE", 400),
        ("CSeq: 1 INVITE", "CSeq: 99999999999999999999 INVITE", 400),
        ("CSeq: 1 INVITE", "CSeq: -1 INVITE", 400),
        ("CSeq: 1 INVITE\r\n", "", 400),
        ("Call-ID: ", "Call-ID: a\r\nCall-ID: ", 400),
        (
            "Content-Length: 0",
            "Content-Length: 99999999999999999999",
            400,
        ),
        ("Content-Length: 0", "Content-Length: 10", 400),
        (
            "Content-Length: 0",
            "Content-Length: 0\r\nContent-Length: 5",
            400,
        ),
        ("Max-Forwards: 70", "Max-Forwards: 256", 400),
        ("Max-Forwards: 70", "Max-Forwards: 0", 483),
        ("branch=z9hG4bK", "branch=", 400),
        (";tag=from", ";tug=from", 400),
        ("Max-Forwards: 70", "Proxy-Require: magic", 420),
        ("INVITE sip:bob@", "INVITE sip:bob@ ", 400),
        ("INVITE", "INVITE INVITE", 400),
    ];
    for (from, to, status) in answered {
        evil.send(
            good.replacen(from, to, if *from == "INVITE " { 1 } else { 9 }),
            bed.at,
        );
        let answer = evil.receive();
        assert_eq!(
            answer.status(),
            Some(*status),
            "{from:?} -> {to:?}: {}",
            answer.text
        );
    }
    assert_eq!(
        bed.router.counters().refused.get(),
        answered.len() as u64 - 2
    ); // 420 and 483 are good form

    let long_header = good.replace(
        "Max-Forwards",
        &format!("X: {}\r\nMax-Forwards", "y".repeat(30_000)),
    );
    let many_headers = good.replace(
        "Max-Forwards",
        &format!("{}Max-Forwards", "X: y\r\n".repeat(5_000)),
    );
    let dropped = [
        good.replace("Via:", "Vio:"),
        good.replace("Call-ID:", "Call-OD:"),
        good.replace("INVITE", "ACK").replace("CSeq: 1", "CSeq: x"),
        good.replace("\r\n\r\n", "\r\n"),
        good.replace("\r\n", "\n"),
        good.replace("caller", "cal\0ler"),
        good.replace("caller", "cal\u{1b}[2Jler"),
        good.replace("Max", "X: y\nMax"),
        format!(
            "SIP/2.0 200 OK\r\n{}",
            good.split_once("\r\n").expect("lines").1
        )
        .replace("CSeq", "C"),
        format!(
            "SIP/2.0 99999 OK\r\n{}",
            good.split_once("\r\n").expect("lines").1
        ),
        "SIP/2.0 200 OK\r\n\r\n".to_owned(),
        "\r\n\r\n\r\n\r\n".to_owned(),
        String::new(),
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        long_header,
        many_headers,
    ];
    for packet in &dropped {
        evil.send(packet, bed.at);
    }
    // Strays: packets in good form that belong to no call.
    let response = good.split_once("\r\n").expect("lines").1;
    evil.send(format!("SIP/2.0 200 OK\r\n{response}"), bed.at);
    let ours = response.replace(&evil.address.to_string(), &bed.at.to_string());
    evil.send(format!("SIP/2.0 200 OK\r\n{ours}"), bed.at);
    evil.request("ACK", &Calling::to("bob"), bed.at);

    // Noise, with a fixed seed: random bytes, and a good packet with some bytes changed, cut or doubled.
    let mut random = Random(0x5eed_f0f0);
    for round in 0..3_000 {
        let mut packet = if round % 2 == 0 {
            (0..random.below(1_500))
                .map(|_| random.below(256) as u8)
                .collect()
        } else {
            good.clone().into_bytes()
        };
        for _ in 0..=random.below(8) {
            if packet.is_empty() {
                break;
            }
            let at = random.below(packet.len());
            match random.below(4) {
                0 => packet[at] = random.below(256) as u8,
                1 => packet.truncate(at),
                2 => packet.insert(at, random.below(256) as u8),
                _ => packet.extend_from_within(at..),
            }
        }
        // Not to the phone: no routable packet of these must reach the call below.
        let packet = String::from_utf8_lossy(&packet).replace("sip:bob@", "sip:bxb@");
        evil.send(packet.as_bytes(), bed.at);
        if round % 50 == 0 {
            fence(&evil, bed.at); // not faster than it reads
        }
    }
    fence(&evil, bed.at);
    let counters = bed.router.counters();
    assert!(counters.dropped.get() >= dropped.len() as u64, "{counters}");
    assert!(counters.stray.get() >= 3, "{counters}");
    talking(&bed, &caller, &phones[0]);
}

/// Waits until the router has read all earlier packets.
fn fence(phone: &Phone, router: SocketAddr) {
    let call = Calling {
        to_tag: Some("fence".into()),
        ..Calling::to("fence")
    };
    phone.request("BYE", &call, router);
    while !phone.receive().text.contains(&call.call_id) {}
}

/// A small generator of pseudo-random numbers that are the same every time (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}
