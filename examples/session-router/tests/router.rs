//! The router, over loopback UDP, from the outside. Time stands still unless a test moves it.

mod phone;

use std::net::SocketAddr;
use std::time::Duration;

use fom_runtime::{BoxError, Interpose, TestClock};
use phone::{Calling, Phone, Text};
use session_router::call::{Call, Stage};
use session_router::router::{Router, Settings};

/// A router, and the clock that it goes by.
struct Bed {
    router: Router,
    clock: TestClock,
    at: SocketAddr,
}

impl Bed {
    /// Moves the clock on, once every call waits for that.
    fn advance(&self, by: Duration) {
        block_on(self.router.runtime().quiet());
        self.clock.advance(by);
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(future)
}

fn bed(change: impl FnOnce(&mut Settings)) -> Bed {
    let clock = TestClock::new();
    let mut settings = Settings {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        localities: Some(2),
        clock: Some(clock.clone()),
        ..Settings::default()
    };
    change(&mut settings);
    let router = Router::start(settings).expect("a router");
    let at = router.local();
    Bed { router, clock, at }
}

/// A router, and phones that `bob` is at.
fn bob(phones: usize) -> (Bed, Phone, Vec<Phone>) {
    let phones: Vec<Phone> = (0..phones).map(|_| Phone::new()).collect();
    let bed = bed(|settings| {
        settings.endpoints = phones
            .iter()
            .map(|phone| ("bob".to_owned(), phone.address))
            .collect();
        settings.fork = true;
    });
    (bed, Phone::new(), phones)
}

const T1: Duration = Duration::from_millis(500);

/// A call to bob that was answered.
fn talking(bed: &Bed, caller: &Phone, bob: &Phone) -> (Calling, Text) {
    let mut call = Calling::to("bob");
    caller.request("INVITE", &call, bed.at);
    caller.expect(100);
    let invite = bob.expect_request("INVITE");
    bob.answer(&invite, 200, "b");
    call.to_tag = caller.expect(200).to_tag();
    let ack = Calling {
        cseq: 1,
        ..call.next()
    };
    caller.request("ACK", &ack, bed.at);
    bob.expect_request("ACK");
    (call, invite)
}

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

    let ack = Calling {
        cseq: 1,
        ..call.next()
    };
    caller.request("ACK", &ack, bed.at);
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
    // Once more: the answer is given again, and bob hears nothing of it.
    caller.request("BYE", &bye, bed.at);
    caller.expect(200);
    assert_eq!(bed.router.counters().absorbed.get(), 1);
    assert_eq!(bed.router.counters().calls.get(), 1);
}

#[test]
fn the_one_who_was_called_may_hang_up() {
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
fn nobody_of_that_name_is_404_until_it_is_acknowledged() {
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
    // After the ACK nothing is sent any more: the next thing that comes is the answer to something else.
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
fn a_refusal_that_nobody_acknowledges_is_forgotten() {
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
    caller.expect(180); // the call itself goes on
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
fn the_first_of_two_that_answers_wins_and_the_other_is_cancelled() {
    let (bed, caller, phones) = bob(2);
    let mut call = Calling::to("bob");
    caller.request("INVITE", &call, bed.at);
    caller.expect(100);
    let invites = [
        phones[0].expect_request("INVITE"),
        phones[1].expect_request("INVITE"),
    ];
    phones[0].answer(&invites[0], 180, "one");
    caller.expect(180);
    phones[1].answer(&invites[1], 180, "two");
    caller.expect(180);
    phones[1].answer(&invites[1], 200, "two");
    call.to_tag = caller.expect(200).to_tag();
    assert_eq!(call.to_tag.as_deref(), Some("two"));

    let cancel = phones[0].expect_request("CANCEL");
    assert_eq!(cancel.header("Via"), invites[0].header("Via"));
    phones[0].answer(&cancel, 200, "one");
    phones[0].answer(&invites[0], 487, "one");
    phones[0].expect_request("ACK");
    phones[0].answer(&invites[0], 487, "one"); // the ACK was lost (timer D)
    phones[0].expect_request("ACK");

    caller.request("BYE", &call.next(), bed.at);
    let bye = phones[1].expect_request("BYE");
    phones[1].answer(&bye, 200, "two");
    caller.expect(200); // and nothing was heard of the 487
    assert_eq!(bed.router.counters().forked.get(), 1);
}

#[test]
fn a_second_answer_is_passed_on_as_well() {
    let (bed, caller, phones) = bob(2);
    let call = Calling::to("bob");
    caller.request("INVITE", &call, bed.at);
    caller.expect(100);
    let invites = [
        phones[0].expect_request("INVITE"),
        phones[1].expect_request("INVITE"),
    ];
    phones[0].answer(&invites[0], 200, "one");
    caller.expect(200);
    phones[1].answer(&invites[1], 200, "two"); // RFC 3261, 16.7 step 5
    assert_eq!(caller.expect(200).to_tag().as_deref(), Some("two"));
    // There are two dialogs now, and each can be hung up.
    for (phone, tag) in phones.iter().zip(["one", "two"]) {
        caller.request(
            "BYE",
            &Calling {
                to_tag: Some(tag.into()),
                ..call.next()
            },
            bed.at,
        );
        let bye = phone.expect_request("BYE");
        phone.answer(&bye, 200, tag);
        caller.expect(200);
    }
}

#[test]
fn when_all_refuse_the_best_refusal_counts() {
    let (bed, caller, phones) = bob(3);
    caller.request("INVITE", &Calling::to("bob"), bed.at);
    caller.expect(100);
    for (phone, status) in phones.iter().zip([503, 404, 407]) {
        let invite = phone.expect_request("INVITE");
        phone.answer(&invite, status, "x");
        phone.expect_request("ACK");
    }
    caller.expect(407); // it tells the caller how to do better
}

#[test]
fn one_endpoint_without_room_is_not_us_without_room() {
    let (bed, caller, phones) = bob(1);
    caller.request("INVITE", &Calling::to("bob"), bed.at);
    caller.expect(100);
    let invite = phones[0].expect_request("INVITE");
    phones[0].answer(&invite, 503, "x");
    caller.expect(500);
}

#[test]
fn a_6xx_speaks_for_all() {
    let (bed, caller, phones) = bob(2);
    caller.request("INVITE", &Calling::to("bob"), bed.at);
    caller.expect(100);
    let invites = [
        phones[0].expect_request("INVITE"),
        phones[1].expect_request("INVITE"),
    ];
    phones[1].answer(&invites[1], 180, "two");
    caller.expect(180);
    phones[0].answer(&invites[0], 603, "one");
    let cancel = phones[1].expect_request("CANCEL");
    phones[1].answer(&cancel, 200, "two");
    phones[1].answer(&invites[1], 487, "two");
    caller.expect(603);
}

#[test]
fn a_bye_that_nobody_answers_is_408_in_the_end() {
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

#[test]
fn a_user_registers_and_is_called_until_that_expires() {
    let bed = bed(|_| {});
    let (caller, carol) = (Phone::new(), Phone::new());
    let registered = carol.register("carol", 60, bed.at);
    assert_eq!(registered.status(), Some(200));
    assert_eq!(
        registered.header("Contact"),
        format!("<sip:carol@{}>;expires=60", carol.address)
    );

    caller.request("INVITE", &Calling::to("carol"), bed.at);
    caller.expect(100);
    let invite = carol.expect_request("INVITE");
    carol.answer(&invite, 486, "c");
    carol.expect_request("ACK");
    caller.expect(486);

    bed.advance(Duration::from_secs(59));
    // Asking for the bindings by registering for longer: it is refreshed.
    assert!(
        carol
            .register("carol", 90, bed.at)
            .header("Contact")
            .ends_with(";expires=90")
    );
    bed.advance(Duration::from_secs(90));
    let other = Phone::new();
    other.request("INVITE", &Calling::to("carol"), bed.at);
    other.expect(100);
    other.expect(480);
}

#[test]
fn a_user_takes_the_binding_away() {
    let bed = bed(|_| {});
    let (caller, carol) = (Phone::new(), Phone::new());
    carol.register("carol", 60, bed.at);
    assert!(carol.register("carol", 0, bed.at).all("Contact").is_empty());
    caller.request("INVITE", &Calling::to("carol"), bed.at);
    caller.expect(100);
    caller.expect(480);
}

#[test]
fn registering_for_a_moment_only_is_423() {
    let bed = bed(|_| {});
    let refused = Phone::new().register("carol", 5, bed.at);
    assert_eq!(
        (refused.status(), refused.header("Min-Expires")),
        (Some(423), "60")
    );
}

#[test]
fn a_locator_that_is_gone_is_500() {
    let (bed, caller, _) = bob(1);
    bed.router.locator().stop();
    // What it had taken before it stopped is answered; then it is gone.
    loop {
        let call = Calling::to("bob");
        caller.request("INVITE", &call, bed.at);
        loop {
            match caller.receive().status() {
                Some(100) => {}
                Some(500) => return,
                Some(_) => break,
                None => {}
            }
        }
    }
}

/// Takes the place of a phase, and fails.
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
    // The call that there is goes on.
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

/// Ends the router; nothing may remain.
fn drain(bed: &Bed) {
    let remained = block_on(bed.router.drain(Duration::from_secs(10)));
    assert!(remained.is_empty(), "{remained:?}");
}

#[test]
fn a_draining_router_ends_calls_that_are_over_and_takes_no_new_ones() {
    let (bed, caller, phones) = bob(1);
    let (call, _) = talking(&bed, &caller, &phones[0]);
    caller.request("BYE", &call.next(), bed.at);
    let bye = phones[0].expect_request("BYE");
    phones[0].answer(&bye, 200, "b");
    caller.expect(200);
    drain(&bed); // without waiting for 32 s of the clock, which stands still
    assert_eq!(bed.router.times().live(), 0);
}

/// Packets that no friend would send, and what each of them gets.
#[test]
fn hostile_packets_are_answered_or_dropped_and_leave_it_serving() {
    let (bed, caller, phones) = bob(1);
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
    // Strays: in good form, and for nobody.
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
        // Not to the phone: whatever is routable in this must not end up in the call below.
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

/// Waits until the router has read everything that was sent before.
fn fence(phone: &Phone, router: SocketAddr) {
    let call = Calling {
        to_tag: Some("fence".into()),
        ..Calling::to("fence")
    };
    phone.request("BYE", &call, router);
    while !phone.receive().text.contains(&call.call_id) {}
}

/// A small generator of numbers that look random and are the same every time (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}
