//! Packets that were good once. The router can forward and answer whatever it can read of them. What it sends can be
//! read again. Nothing panics.

use std::net::SocketAddr;

use fom_runtime::prelude::*;
use session_router::call::{Call, Stage, Timers};
use session_router::places::Place;
use session_router::wire::message::Message;
use session_router::wire::parse::parse;
use session_router::wire::udp::Net;

/// Packets that use all that the grammar allows.
const GOOD: [&str; 3] = [
    "INVITE sip:bob:pw@[::1]:5060;transport=udp?a=b&c=d SIP/2.0\r\n\
     Via: SIP/2.0/UDP 10.0.0.1:5062;branch=z9hG4bK1;rport;x=\"a,b;\\\"\", SIP/2.0/UDP h;branch=z9hG4bK2\r\n\
     v: SIP/2.0/TCP c\r\nRoute: <sip:127.0.0.1:5060;lr>, <sip:x;lr>\r\n\
     From: \"A \\\"b\" <sip:a@127.0.0.1;x=1>;tag=1;q=0.5\r\nTo: sip:bob@127.0.0.1;tag=2\r\nCall-ID: one\r\n\
     CSeq: 1 INVITE\r\nContact: \"x\" <sip:a@b:99;lr>;expires=5;q=1.0, *\r\nMax-Forwards: 70\r\n\
     Content-Length: 3\r\n\r\nabc",
    "SIP/2.0 180 Ringing\r\nVia: SIP/2.0/UDP 127.0.0.1:5062;branch=z9hG4bK1;received=1.2.3.4\r\n\
     From: <sip:a@127.0.0.1>;tag=1\r\nTo: <sip:bob@127.0.0.1>;tag=\u{e9}\u{4e2d}\r\nCall-ID: one\r\n\
     CSeq: 1 INVITE\r\nContact: <sip:\u{e9}@127.0.0.1>\r\n fold\r\nContent-Length: 0\r\n\r\n",
    "REGISTER sip:r SIP/2.0\r\nVia: SIP/2.0/UDP [::1]:5062;branch=z9hG4bK1\r\n\
     From: \u{4e2d}\u{6587} <sip:a@r>;tag=1\r\nTo: <sip:%4e@r>\r\nCall-ID: one\r\nCSeq: 1 REGISTER\r\n\
     Contact: <sip:a@1.2.3.4:70000>;expires=99999999999\r\nExpires: 1\r\n\r\n",
];

/// Pieces to insert into the packets.
const BITS: [&str; 28] = [
    "\u{e9}",
    "\u{4e2d}",
    ";",
    ",",
    "<",
    ">",
    "\"",
    "@",
    ":",
    "[",
    "]",
    "=",
    "?",
    "&",
    " ",
    "\r\n",
    "%",
    "\\",
    "z9hG4bK",
    "sip:",
    "4294967296",
    "-1",
    ";tag=",
    ";branch=",
    "*",
    "\t",
    "(",
    "'",
];

#[test]
fn what_is_read_can_be_passed_on_and_read_again() {
    let source = SocketAddr::from(([127, 0, 0, 1], 5062));
    let us = SocketAddr::from(([127, 0, 0, 1], 5060));
    let mut random = Random(0x0123_4567_89ab);
    let mut read = 0;
    for _ in 0..20_000 {
        let packet = mutated(&mut random);
        let again = |bytes: &[u8], what| {
            let text = String::from_utf8_lossy(&packet);
            assert!(
                parse(bytes, source).is_ok(),
                "{what} of {text:?}: {:?}",
                String::from_utf8_lossy(bytes)
            );
        };
        match parse(&packet, source) {
            Ok(Message::Request(request)) => {
                read += 1;
                again(
                    &request.forward(None, "z9hG4bKx", us, true).to_bytes(),
                    "the request",
                );
                again(&request.answer(404, "tag", ""), "the answer");
            }
            Ok(Message::Response(response)) => {
                read += 1;
                let _ = response.forward();
            }
            Err(_) => {}
        }
    }
    assert!(
        read > 2_000,
        "only {read} of them could be read: that says little"
    );
}

/// A readable request can be kept: a call comes back with the same INVITE, whatever is in it.
#[test]
fn what_is_read_is_the_same_after_a_restart() {
    let source = SocketAddr::from(([127, 0, 0, 1], 5062));
    let mut random = Random(0x0fed_cba9_8765);
    let mut kept = 0;
    for _ in 0..5_000 {
        let packet = mutated(&mut random);
        let Ok(Message::Request(request)) = parse(&packet, source) else {
            continue;
        };
        let call = Call::new(Net::default(), Place::default(), Timers::default(), request);
        let saved = call.snapshot(&Stage::Locate).expect("saved");
        let (back, phase) = Call::restore(&saved).expect("restored");
        assert!(matches!(phase, Stage::Locate));
        assert_eq!(
            format!("{:?}", back.invite()),
            format!("{:?}", call.invite())
        );
        kept += 1;
    }
    assert!(kept > 500, "only {kept} could be read: that says little");
}

/// Returns one of the good packets, with up to five changes.
fn mutated(random: &mut Random) -> Vec<u8> {
    let mut packet = GOOD[random.below(GOOD.len())].as_bytes().to_vec();
    for _ in 0..=random.below(5) {
        if packet.is_empty() {
            break;
        }
        let at = random.below(packet.len());
        let bit = BITS[random.below(BITS.len())];
        match random.below(5) {
            0 => packet[at] = random.below(256) as u8,
            1 => drop(packet.remove(at)),
            2 => drop(packet.splice(at..at, bit.bytes())),
            3 => {
                let end = (at + random.below(20)).min(packet.len());
                packet.drain(at..end);
            }
            _ => {
                let end = (at + random.below(60)).min(packet.len());
                let copy = packet[at..end].to_vec();
                let to = random.below(packet.len());
                packet.splice(to..to, copy);
            }
        }
    }
    packet
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
