//! Users are registered, expired, and removed; and what becomes of calls when no locator answers.

mod bed;
mod phone;

use std::time::Duration;

use bed::{bed, bob};
use phone::{Calling, Phone};

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
    // A longer registration returns the bindings, and refreshes this one.
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

/// The router keeps a registration for hours, so it must not be large.
#[test]
fn a_long_name_or_a_long_contact_is_400() {
    let bed = bed(|_| {});
    let carol = Phone::new();
    let long = "c".repeat(257);
    assert_eq!(carol.register(&long, 60, bed.at).status(), Some(400));
    assert_eq!(carol.register(&long[1..], 60, bed.at).status(), Some(200));
    let far = format!("carol;x={}", "y".repeat(512));
    assert_eq!(carol.register(&far, 60, bed.at).status(), Some(400));
}

#[test]
fn a_locator_that_is_gone_is_500() {
    let (bed, caller, _) = bob(1);
    bed.router.locator().stop();
    // The locator answers the requests that it took before it stopped; then it is gone.
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
