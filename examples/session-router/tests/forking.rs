//! Calls to a user at several endpoints: the first to answer, a second answer, and the refusal that counts.

mod bed;
mod phone;

use bed::bob;
use phone::Calling;

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
    caller.expect(200); // and the caller hears nothing of the 487
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
    // There are two dialogs now, and the caller can hang up each.
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
    caller.expect(407); // the 407 tells the caller how to do better
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
