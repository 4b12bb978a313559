//! Calls through the router, over loopback UDP, from the outside. Time moves only when a test moves it.

mod bed;
mod phone;

use std::time::Duration;

use bed::{T1, bed, block_on, bob, drain, talking};
use fom_runtime::{error::BoxError, observe::Interpose};
use phone::{Calling, Phone};
use session_router::call::{Call, Stage};

#[test]
fn a_call_is_routed_there_and_back() {
    let (bed, caller, phones) = bob(1);
    let bob = &phones[0];
    let mut call = Calling::to("bob");
    caller.request("INVITE", &call, bed.at);
    let trying = caller.expect(100);
    assert_eq!(trying.to_tag(), None);

    let invite = bob.expect_request("INVITE");
    assert_eq!(invite.all("Via").len(), 2);
    assert!(
        invite.header("Via").contains(&bed.at.to_string()),
        "ours is on top"
    );
    assert_eq!(invite.header("Max-Forwards"), "69");
    assert_eq!(
        invite.header("Record-Route"),
        format!("<sip:{};lr>", bed.at)
    );
    assert!(
        invite
            .text
            .starts_with(&format!("INVITE sip:bob@{} ", bob.address))
    );

    bob.answer(&invite, 180, "b");
    let ringing = caller.expect(180);
    assert_eq!(ringing.all("Via").len(), 1, "ours is gone");
    bob.answer(&invite, 200, "b");
    call.to_tag = caller.expect(200).to_tag();

    caller.request("ACK", &call.ack(), bed.at);
    let ack = bob.expect_request("ACK");
    assert!(
        ack.text
            .starts_with(&format!("ACK sip:phone@{} ", bob.address)),
        "to the Contact: {}",
        ack.text
    );

    let bye = call.next();
    caller.request("BYE", &bye, bed.at);
    let got = bob.expect_request("BYE");
    bob.answer(&got, 200, "b");
    caller.expect(200);
    // The same BYE again: the router repeats the answer, and bob hears nothing of it.
    caller.request("BYE", &bye, bed.at);
    caller.expect(200);
    assert_eq!(bed.router.counters().absorbed.get(), 1);
    assert_eq!(bed.router.counters().calls.get(), 1);
}

/// No packet wakes another locality, as long as this one keeps up.
#[test]
fn a_call_lives_where_its_packets_arrive() {
    let (bed, caller, phones) = bob(1);
    for _ in 0..4 {
        talking(&bed, &caller, &phones[0]);
    }
    let foms = bed.router.runtime().operations().foms;
    let home = |operation| {
        let of = foms.iter().filter(move |fom| fom.operation == operation);
        of.map(|fom| fom.home.locality).collect::<Vec<_>>()
    };
    assert_eq!((home("UdpReceiver"), home("Call")), (vec![0], vec![0; 4]));
}

#[test]
fn the_callee_may_hang_up() {
    let (bed, caller, phones) = bob(1);
    let bob = &phones[0];
    let (call, _) = talking(&bed, &caller, bob);
    let bye = Calling {
        user: "caller".into(),
        from_tag: "b".into(),
        to_tag: Some(call.from_tag.clone()),
        ..call.next()
    };
    bob.request("BYE", &bye, bed.at);
    let got = caller.expect_request("BYE");
    caller.answer(&got, 200, "x");
    bob.expect(200);
}

#[test]
fn a_via_that_is_joined_by_a_comma_finds_its_way() {
    let (bed, caller, phones) = bob(1);
    caller.request("INVITE", &Calling::to("bob"), bed.at);
    caller.expect(100);
    let mut invite = phones[0].expect_request("INVITE");
    let vias = invite.all("Via").join(", ");
    let others: Vec<_> = invite
        .text
        .split("\r\n")
        .filter(|line| !line.starts_with("Via"))
        .collect();
    invite.text = others
        .join("\r\n")
        .replacen("\r\n", &format!("\r\nVia: {vias}\r\n"), 1);
    phones[0].answer(&invite, 180, "b");
    assert_eq!(caller.expect(180).all("Via").len(), 1);
}

#[test]
fn a_repeated_invite_is_absorbed() {
    let (bed, caller, phones) = bob(1);
    let bob = &phones[0];
    let call = Calling::to("bob");
    caller.request("INVITE", &call, bed.at);
    caller.expect(100);
    let invite = bob.expect_request("INVITE");
    caller.request("INVITE", &call, bed.at);
    caller.expect(100);
    bob.answer(&invite, 180, "b");
    caller.expect(180);
    caller.request("INVITE", &call, bed.at);
    caller.expect(180);
    caller.request("CANCEL", &call, bed.at);
    caller.expect(200);
    bob.expect_request("CANCEL"); // and no second INVITE before it
    assert_eq!(bed.router.counters().absorbed.get(), 2);
}

#[test]
fn an_invite_is_repeated_until_it_is_given_up() {
    let (bed, caller, phones) = bob(1);
    caller.request("INVITE", &Calling::to("bob"), bed.at);
    caller.expect(100);
    let first = phones[0].expect_request("INVITE");
    let mut wait = T1;
    for _ in 0..6 {
        bed.advance(wait);
        assert_eq!(phones[0].expect_request("INVITE").text, first.text);
        wait *= 2;
    }
    bed.advance(T1); // 64 T1 in all: timer B
    caller.expect(408);
    assert_eq!(bed.router.counters().repeated.get(), 6);
}

#[test]
fn a_provisional_answer_ends_the_repeating() {
    let (bed, caller, phones) = bob(1);
    let bob = &phones[0];
    caller.request("INVITE", &Calling::to("bob"), bed.at);
    caller.expect(100);
    let invite = bob.expect_request("INVITE");
    bob.answer(&invite, 180, "b");
    caller.expect(180);
    bed.advance(64 * T1); // timer B does not count any more; timer C does
    bed.advance(Duration::from_secs(181));
    let cancel = bob.expect_request("CANCEL");
    assert_eq!(cancel.header("Via"), invite.header("Via"));
    assert_eq!(cancel.all("Via").len(), 1);
    bob.answer(&cancel, 200, "b");
    bob.answer(&invite, 487, "b");
    bob.expect_request("ACK");
    caller.expect(408); // the caller cancelled nothing
}

#[test]
fn an_unknown_user_is_404_until_it_is_acknowledged() {
    let (bed, caller, _) = bob(1);
    let call = Calling::to("nobody");
    caller.request("INVITE", &call, bed.at);
    caller.expect(100);
    let refusal = caller.expect(404);
    bed.advance(T1); // timer G
    assert_eq!(caller.expect(404).text, refusal.text);
    let ack = Calling {
        to_tag: refusal.to_tag(),
        ..call.clone()
    };
    caller.request("ACK", &ack, bed.at);
    // After the ACK the router repeats nothing: the next packet is the answer to another request.
    caller.request(
        "OPTIONS",
        &Calling {
            to_tag: None,
            ..call.next()
        },
        bed.at,
    );
    assert_eq!(caller.receive().status(), Some(481));
    bed.advance(8 * T1);
    caller.request(
        "BYE",
        &Calling {
            to_tag: Some("x".into()),
            ..Calling::to("bob")
        },
        bed.at,
    );
    caller.expect(481);
}

#[test]
fn an_unacknowledged_refusal_is_forgotten() {
    let (bed, caller, _) = bob(1);
    caller.request("INVITE", &Calling::to("nobody"), bed.at);
    caller.expect(100);
    caller.expect(404);
    assert_eq!(bed.router.times().live(), 1);
    bed.advance(64 * T1); // timer H
    caller.expect(404); // timer G was due as well
    block_on(bed.router.runtime().quiet());
    assert_eq!(bed.router.times().live(), 0);
}

#[test]
fn a_call_that_ended_is_forgotten_after_a_while() {
    let (bed, caller, phones) = bob(1);
    let (call, _) = talking(&bed, &caller, &phones[0]);
    let bye = call.next();
    caller.request("BYE", &bye, bed.at);
    let got = phones[0].expect_request("BYE");
    phones[0].answer(&got, 200, "b");
    caller.expect(200);
    bed.advance(64 * T1 - Duration::from_millis(1));
    caller.request("BYE", &bye, bed.at);
    caller.expect(200);
    bed.advance(Duration::from_millis(1)); // timer J
    block_on(bed.router.runtime().quiet());
    assert_eq!(bed.router.times().live(), 0);
    caller.request("BYE", &bye, bed.at);
    caller.expect(481);
}

#[test]
fn a_caller_may_try_again_with_the_same_call_id() {
    let (bed, caller, phones) = bob(1);
    let bob = &phones[0];
    let call = Calling::to("bob");
    caller.request("INVITE", &call, bed.at);
    caller.expect(100);
    let invite = bob.expect_request("INVITE");
    bob.answer(&invite, 407, "b");
    bob.expect_request("ACK");
    let refusal = caller.expect(407);
    caller.request(
        "ACK",
        &Calling {
            to_tag: refusal.to_tag(),
            ..call.clone()
        },
        bed.at,
    );
    caller.request("INVITE", &call.next(), bed.at);
    caller.expect(100);
    let invite = bob.expect_request("INVITE");
    assert_eq!(invite.header("CSeq"), "2 INVITE");
    bob.answer(&invite, 486, "b");
    caller.expect(486);
}

#[test]
fn what_belongs_to_no_call_is_481() {
    let (bed, caller, phones) = bob(1);
    caller.request(
        "BYE",
        &Calling {
            to_tag: Some("x".into()),
            ..Calling::to("bob")
        },
        bed.at,
    );
    caller.expect(481);
    caller.request("CANCEL", &Calling::to("bob"), bed.at);
    caller.expect(481);
    let (call, _) = talking(&bed, &caller, &phones[0]);
    caller.request(
        "BYE",
        &Calling {
            to_tag: Some("else".into()),
            ..call.next()
        },
        bed.at,
    );
    caller.expect(481);
    caller.request(
        "CANCEL",
        &Calling {
            to_tag: None,
            ..call.next()
        },
        bed.at,
    );
    caller.expect(481);
}

#[test]
fn one_hop_too_many_is_483() {
    let (bed, caller, phones) = bob(1);
    caller.request(
        "INVITE",
        &Calling {
            max_forwards: 0,
            ..Calling::to("bob")
        },
        bed.at,
    );
    caller.expect(483);
    let (call, _) = talking(&bed, &caller, &phones[0]);
    caller.request(
        "BYE",
        &Calling {
            max_forwards: 0,
            ..call.next()
        },
        bed.at,
    );
    caller.expect(483);
}

#[test]
fn a_call_that_comes_back_to_us_is_482() {
    let (bed, caller, phones) = bob(1);
    let call = Calling::to("bob");
    caller.request("INVITE", &call, bed.at);
    caller.expect(100);
    let invite = phones[0].expect_request("INVITE");
    caller.request(
        "INVITE",
        &Calling {
            cseq: 1,
            ..call.next()
        },
        bed.at,
    );
    caller.expect(482);
    phones[0].answer(&invite, 180, "b");
    caller.expect(180); // the call itself continues
}

#[test]
fn what_the_caller_gives_up_is_487() {
    let (bed, caller, phones) = bob(1);
    let bob = &phones[0];
    let call = Calling::to("bob");
    caller.request("INVITE", &call, bed.at);
    caller.expect(100);
    let invite = bob.expect_request("INVITE");
    bob.answer(&invite, 180, "b");
    caller.expect(180);
    caller.request("CANCEL", &call, bed.at);
    caller.expect(200);
    let cancel = bob.expect_request("CANCEL");
    assert_eq!(cancel.header("CSeq"), "1 CANCEL");
    bob.answer(&cancel, 200, "b");
    bob.answer(&invite, 487, "b");
    let ack = bob.expect_request("ACK");
    assert_eq!(
        (ack.header("CSeq"), ack.header("Via")),
        ("1 ACK", invite.header("Via"))
    );
    let refusal = caller.expect(487);
    caller.request(
        "ACK",
        &Calling {
            to_tag: refusal.to_tag(),
            ..call.clone()
        },
        bed.at,
    );
}

#[test]
fn a_cancel_waits_until_something_was_heard() {
    let (bed, caller, phones) = bob(1);
    let bob = &phones[0];
    let call = Calling::to("bob");
    caller.request("INVITE", &call, bed.at);
    caller.expect(100);
    let invite = bob.expect_request("INVITE");
    caller.request("CANCEL", &call, bed.at);
    caller.expect(200);
    bed.advance(T1);
    bob.expect_request("INVITE"); // it may have been lost; a CANCEL may not overtake it
    bob.answer(&invite, 100, "b");
    bob.expect_request("CANCEL");
    bob.answer(&invite, 487, "b");
    caller.expect(487);
}

#[test]
fn an_unanswered_bye_is_408_in_the_end() {
    let (bed, caller, phones) = bob(1);
    let (call, _) = talking(&bed, &caller, &phones[0]);
    caller.request("BYE", &call.next(), bed.at);
    phones[0].expect_request("BYE");
    for wait in [1, 2, 4, 8, 8, 8, 8, 8, 8, 8] {
        bed.advance(wait * T1); // timer E
        phones[0].expect_request("BYE");
    }
    bed.advance(T1); // timer F
    caller.expect(408);
}

#[test]
fn a_request_inside_the_dialog_passes_both_ways() {
    let (bed, caller, phones) = bob(1);
    let bob = &phones[0];
    let (call, _) = talking(&bed, &caller, bob);
    let again = call.next();
    caller.request("INVITE", &again, bed.at);
    caller.expect(100);
    let invite = bob.expect_request("INVITE");
    bob.answer(&invite, 200, "b");
    caller.expect(200);
    caller.request(
        "ACK",
        &Calling {
            cseq: again.cseq,
            ..again.next()
        },
        bed.at,
    );
    bob.expect_request("ACK");
    let info = Calling {
        user: "caller".into(),
        from_tag: "b".into(),
        to_tag: Some(call.from_tag.clone()),
        ..call.next()
    };
    bob.request("INFO", &info, bed.at);
    let got = caller.expect_request("INFO");
    caller.answer(&got, 200, "x");
    bob.expect(200);
}

/// Replaces a phase, and fails.
struct Broken;

impl Interpose<Call> for Broken {
    fn before(&self, _: &mut Call, _: &mut Stage) -> Option<Result<Stage, BoxError>> {
        Some(Err("broken".into()))
    }
}

#[test]
fn a_call_that_fails_is_500() {
    let (bed, caller, phones) = bob(1);
    let broken = bed.router.runtime().interpose::<Call>(Broken);
    caller.request("INVITE", &Calling::to("bob"), bed.at);
    caller.expect(500);
    broken.remove().expect("on top");
    talking(&bed, &caller, &phones[0]);
}

#[test]
fn a_full_router_says_503_and_when_to_come_back() {
    let phone = Phone::new();
    let bed = bed(|settings| {
        settings.capacity = 1;
        settings.endpoints = vec![("bob".to_owned(), phone.address)];
    });
    let caller = Phone::new();
    let (call, _) = talking(&bed, &caller, &phone);
    let refused_call = Calling::to("bob");
    caller.request("INVITE", &refused_call, bed.at);
    let refused = caller.expect(503);
    assert_eq!(refused.header("Retry-After"), "5");
    caller.request("INVITE", &refused_call, bed.at);
    assert_eq!(
        caller.expect(503).to_tag(),
        refused.to_tag(),
        "nothing is kept, and yet the tag is the same"
    );
    assert_eq!(bed.router.counters().overloaded.get(), 2);
    // The existing call continues.
    caller.request("BYE", &call.next(), bed.at);
    let bye = phone.expect_request("BYE");
    phone.answer(&bye, 200, "b");
    caller.expect(200);
}

#[test]
fn call_detail_records_are_written() {
    let phone = Phone::new();
    let file =
        std::env::temp_dir().join(format!("session-router-test-{}.json", std::process::id()));
    let bed = bed(|settings| {
        settings.records = Some(file.clone());
        settings.endpoints = vec![("bob".to_owned(), phone.address)];
    });
    let caller = Phone::new();
    let (call, _) = talking(&bed, &caller, &phone);
    bed.advance(Duration::from_secs(42));
    caller.request("BYE", &call.next(), bed.at);
    let bye = phone.expect_request("BYE");
    phone.answer(&bye, 200, "b");
    caller.expect(200);
    drain(&bed);
    let text = std::fs::read_to_string(&file).expect("records");
    std::fs::remove_file(&file).expect("removed");
    assert_eq!(text.lines().count(), 1);
    assert!(
        text.contains(&format!("\"call_id\":\"{}\"", call.call_id))
            && text.contains("\"talk_us\":42000000"),
        "{text}"
    );
}

#[test]
fn a_draining_router_ends_calls_that_are_over_and_takes_no_new_ones() {
    let (bed, caller, phones) = bob(1);
    let (call, _) = talking(&bed, &caller, &phones[0]);
    caller.request("BYE", &call.next(), bed.at);
    let bye = phones[0].expect_request("BYE");
    phones[0].answer(&bye, 200, "b");
    caller.expect(200);
    drain(&bed); // does not wait for 32 s of the clock, which does not move
    assert_eq!(bed.router.times().live(), 0);
}
