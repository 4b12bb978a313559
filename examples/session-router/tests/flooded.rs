//! One source sends more than its share, and another one notices nothing of it.

mod bed;
mod phone;

use std::collections::BTreeSet;
use std::time::Duration;

use bed::{Bed, T1, bed, block_on, bob_with, hang_up, talking, wait_until};
use fom_durable::DurableBuilderExt as _;
use fom_durable::journal::MemoryJournal;
use fom_runtime::time::TestClock;
use phone::{Calling, Phone};
use session_router::counters::Counters;
use session_router::router::{Router, Settings};

/// How many packets of a source may begin something. The clock of these tests does not move.
const RATE: u32 = 100;

/// Answers 503 that a source gets in a second.
const REFUSALS: u64 = 10;

/// Sends packets as fast as the router receives them.
fn flood(bed: &Bed, packets: impl Iterator<Item = (Phone, Vec<String>)>) {
    for (from, packets) in packets {
        for packets in packets.chunks(50) {
            let received = counters(bed).received.get();
            for packet in packets {
                from.send(packet, bed.at);
            }
            let all = received + packets.len() as u64;
            wait_until(|| counters(bed).received.get() >= all);
        }
    }
}

fn counters(bed: &Bed) -> &Counters {
    bed.router.counters()
}

fn limited(settings: &mut Settings) {
    settings.limits.rate = RATE;
    settings.capacity = 1_000;
}

/// Whatever one source sends, a call of another source goes its way.
#[test]
fn a_flood_of_any_kind_takes_its_rate_and_leaves_the_others_theirs() {
    let (bed, caller, phones) = bob_with(1, limited);
    let flood_of = |last: u8, text: &dyn Fn(&Phone) -> String| {
        let phone = Phone::at(last);
        let packets = (0..2_000).map(|_| text(&phone)).collect();
        (phone, packets)
    };
    let method = |phone: &Phone, method: &str, to_tag: Option<&str>| {
        let call = Calling {
            to_tag: to_tag.map(str::to_owned),
            ..Calling::to("nobody")
        };
        phone.text(method, &call, bed.at)
    };
    let response = |phone: &Phone| {
        let invite = method(phone, "INVITE", None);
        let (_, headers) = invite.split_once("\r\n").expect("lines");
        format!("SIP/2.0 200 OK\r\n{headers}")
    };
    let kinds: [&dyn Fn(&Phone) -> String; 6] = [
        &|phone| method(phone, "INVITE", None),
        &|phone| method(phone, "BYE", Some("none")),
        &|phone| method(phone, "ACK", Some("none")),
        &|phone| method(phone, "REGISTER", None),
        &response,
        &|_| "noise".to_owned(),
    ];
    for (last, kind) in (2..).zip(kinds) {
        let (limited, ignored) = (counters(&bed).limited.get(), counters(&bed).ignored.get());
        flood(&bed, std::iter::once(flood_of(last, kind)));
        // The router may still read the last of them.
        let (call, _) = talking(&bed, &caller, &phones[0]);
        hang_up(&bed, &call, &caller, &phones[0]);
        let limited = counters(&bed).limited.get() - limited;
        let ignored = counters(&bed).ignored.get() - ignored;
        assert_eq!(limited + ignored, 2_000 - u64::from(RATE), "kind {last}");
        assert!(limited <= REFUSALS, "kind {last}: {limited}");
    }
    assert_eq!(counters(&bed).overloaded.get(), 0);
}

/// The answer to a refused INVITE has a Retry-After. After some of these answers the router is silent.
#[test]
fn a_source_above_its_rate_gets_503_and_then_nothing() {
    let (bed, ..) = bob_with(1, limited);
    let greedy = Phone::at(2);
    let invite = || greedy.request("INVITE", &Calling::to("nobody"), bed.at);
    for _ in 0..RATE {
        invite();
        greedy.expect(100);
        greedy.expect(404);
    }
    for _ in 0..REFUSALS {
        invite();
        assert_eq!(greedy.expect(503).header("Retry-After"), "5");
    }
    invite();
    wait_until(|| counters(&bed).ignored.get() == 1);
    // A second later the source has tokens again.
    bed.clock.advance(Duration::from_secs(1));
    greedy.request("OPTIONS", &Calling::to("nobody"), bed.at);
    while greedy.receive().status() != Some(405) {} // the 404 come again, on their timers
}

/// Repeats of the same packet are no new call, but still cost the time of the parser.
#[test]
fn packets_of_a_known_call_have_a_rate_too() {
    let (bed, caller, _) = bob_with(1, limited);
    let greedy = Phone::at(2);
    let call = Calling::to("nobody");
    greedy.request("INVITE", &call, bed.at);
    greedy.expect(100);
    greedy.expect(404);
    let (invite, bye) = (
        greedy.text("INVITE", &call, bed.at),
        greedy.text(
            "BYE",
            &Calling {
                to_tag: Some("none".into()),
                ..call.next()
            },
            bed.at,
        ),
    );
    // An INVITE outside of a dialog may begin the call again, so it takes a token for new calls.
    let from = Phone::at(2);
    flood(&bed, std::iter::once((from, vec![invite; 500])));
    let friend = |bed: &Bed| {
        let call = Calling::to("nobody");
        caller.request("INVITE", &call, bed.at);
        caller.expect(100);
        caller.expect(404);
    };
    friend(&bed);
    assert_eq!(counters(&bed).ignored.get(), 500 - u64::from(RATE - 1));
    // Any other packet takes one of ten times as many tokens.
    let (from, sent) = (Phone::at(2), 3_000);
    flood(&bed, std::iter::once((from, vec![bye; sent])));
    friend(&bed);
    let all = 1 + 500 + sent as u64;
    let read = u64::from(10 * RATE);
    assert_eq!(
        counters(&bed).ignored.get(),
        500 - u64::from(RATE - 1) + all - read
    );
}

/// Under the Call-ID of a known call, a REGISTER costs a token for a new call, too. So does an INVITE with a folded
/// Call-ID.
#[test]
fn what_begins_something_under_the_call_id_of_a_known_call_needs_a_token_too() {
    let (bed, ..) = bob_with(1, limited);
    let greedy = Phone::at(2);
    let call = Calling::to("nobody");
    greedy.request("INVITE", &call, bed.at);
    greedy.expect(100);
    greedy.expect(404);
    let line = format!("Call-ID: {}", call.call_id);
    let (register, invite) = (
        greedy.text("REGISTER", &call, bed.at),
        greedy.text("INVITE", &call, bed.at),
    );
    // The earlier packets leave one token.
    let (registers, invites) = (RATE as usize - 2, 500);
    flood(
        &bed,
        std::iter::once((Phone::at(2), vec![register; registers])),
    );
    let invite = |number| invite.replace(&line, &format!("{line}\r\n {number}"));
    flood(
        &bed,
        std::iter::once((Phone::at(2), (0..invites).map(invite).collect())),
    );
    wait_until(|| counters(&bed).calls.get() + counters(&bed).ignored.get() == 1 + invites as u64);
    assert_eq!(counters(&bed).calls.get(), 2);
    // A folded Call-ID that names the call is found.
    let options = greedy.text("OPTIONS", &call.next(), bed.at);
    let options = options.replace(&line, &line.replace(": ", ":\r\n "));
    bed.clock.advance(Duration::from_secs(2));
    greedy.send(options, bed.at);
    while greedy.receive().status() != Some(481) {}
}

/// Makes calls to bob that bob answers, as many as the router allows this source.
fn all_answered(bed: &Bed, greedy: &Phone, bob: &Phone, calls: usize) -> Vec<Calling> {
    let mut there = Vec::new();
    for _ in 0..calls {
        let mut call = Calling::to("bob");
        greedy.request("INVITE", &call, bed.at);
        let answer = greedy.receive();
        if answer.status() == Some(503) {
            assert_eq!(answer.header("Retry-After"), "5");
            continue;
        }
        let invite = bob.expect_request("INVITE");
        bob.answer(&invite, 200, "b");
        call.to_tag = greedy.expect(200).to_tag();
        there.push(call);
    }
    there
}

fn confirm(bed: &Bed, calls: &[Calling], greedy: &Phone, bob: &Phone) {
    for call in calls {
        greedy.request("ACK", &call.ack(), bed.at);
        bob.expect_request("ACK");
    }
}

#[test]
fn calls_that_talk_count_toward_the_share_of_their_source() {
    let (bed, caller, phones) = bob_with(1, |settings| settings.capacity = 20);
    let (bob, greedy) = (&phones[0], Phone::at(2));
    let calls = all_answered(&bed, &greedy, bob, 15);
    assert_eq!(calls.len(), 10, "half of the places");
    assert_eq!(counters(&bed).overloaded.get(), 5);
    confirm(&bed, &calls, &greedy, bob);
    bed.advance(Duration::from_secs(3600));
    assert!(
        all_answered(&bed, &greedy, bob, 1).is_empty(),
        "they talk on"
    );
    let (call, _) = talking(&bed, &caller, bob);
    hang_up(&bed, &call, &caller, bob);
    // A call that ended makes room when no straggler can come any more.
    for call in &calls {
        hang_up(&bed, call, &greedy, bob);
    }
    bed.advance(64 * T1);
    block_on(bed.router.runtime().quiet());
    assert_eq!(bed.router.times().live(), 0);
    assert_eq!(all_answered(&bed, &greedy, bob, 1).len(), 1);
}

#[test]
fn a_call_that_is_never_confirmed_ends_and_a_confirmed_one_talks_on() {
    let (bed, caller, phones) = bob_with(1, |settings| settings.capacity = 20);
    let (bob, greedy) = (&phones[0], Phone::at(2));
    assert_eq!(all_answered(&bed, &greedy, bob, 10).len(), 10);
    let (call, _) = talking(&bed, &caller, bob);
    bed.advance(64 * T1 - Duration::from_millis(1));
    block_on(bed.router.runtime().quiet());
    assert_eq!(counters(&bed).unconfirmed.get(), 0);
    bed.advance(Duration::from_millis(1));
    wait_until(|| counters(&bed).unconfirmed.get() == 10);
    // Their stragglers have the same time as those of all calls.
    bed.advance(64 * T1);
    block_on(bed.router.runtime().quiet());
    assert_eq!(bed.router.times().live(), 1);
    hang_up(&bed, &call, &caller, bob);
    wait_until(|| counters(&bed).completed.get() == 1);
}

/// The callee repeats the 200 until the ACK is there. A late ACK counts as an early one.
#[test]
fn an_ack_in_the_last_moment_confirms_the_call() {
    let (bed, caller, phones) = bob_with(1, |_| {});
    let calls = all_answered(&bed, &caller, &phones[0], 1);
    bed.advance(64 * T1 - Duration::from_millis(1));
    confirm(&bed, &calls, &caller, &phones[0]);
    bed.advance(Duration::from_secs(11 * 3600));
    hang_up(&bed, &calls[0], &caller, &phones[0]);
    wait_until(|| counters(&bed).completed.get() == 1);
    assert_eq!(counters(&bed).unconfirmed.get(), 0);
}

#[test]
fn users_that_one_source_registers_leave_room_for_others() {
    let bed = bed(|settings| settings.users = 20);
    let (greedy, friend) = (Phone::at(2), Phone::new());
    let registered = (0..15).filter(|user| {
        let status = greedy.register(&format!("u{user}"), 60, bed.at).status();
        assert!(matches!(status, Some(200 | 503)));
        status == Some(200)
    });
    assert_eq!(registered.count(), 10);
    assert_eq!(friend.register("carol", 60, bed.at).status(), Some(200));
    // A source may refresh a user at its limit, and a user that expired makes room.
    assert_eq!(greedy.register("u0", 600, bed.at).status(), Some(200));
    bed.advance(Duration::from_secs(60));
    block_on(bed.router.runtime().quiet());
    assert_eq!(greedy.register("u14", 60, bed.at).status(), Some(200));
}

/// Calls and users that come back after a restart take the places of their source again.
#[test]
fn what_comes_back_counts_toward_the_share_of_its_source() {
    let (mut disk, clock) = (MemoryJournal::default(), TestClock::new());
    let (bob, greedy, friend) = (Phone::new(), Phone::at(2), Phone::new());
    let start = |disk: &MemoryJournal| {
        let settings = Settings {
            listen: ([127, 0, 0, 1], 0).into(),
            localities: Some(2),
            clock: Some(clock.clone()),
            endpoints: vec![("bob".to_owned(), bob.address)],
            capacity: 8,
            users: 8,
            ..Settings::default()
        };
        let disk = disk.clone();
        let router = Router::start_with(settings, |builder| builder.journal_with(disk));
        let router = router.expect("a router");
        let at = router.local();
        Bed {
            router,
            clock: clock.clone(),
            at,
        }
    };
    let bed = start(&disk);
    let calls = all_answered(&bed, &greedy, &bob, 4);
    confirm(&bed, &calls, &greedy, &bob);
    for user in ["a", "b", "c", "d"] {
        assert_eq!(greedy.register(user, 3600, bed.at).status(), Some(200));
    }

    disk = disk.fork();
    drop(bed);
    let bed = start(&disk);
    assert_eq!(bed.router.came_back().calls["Talk"], 4);
    block_on(bed.router.runtime().quiet()); // each takes its place when it continues
    assert!(all_answered(&bed, &greedy, &bob, 1).is_empty());
    assert_eq!(greedy.register("e", 3600, bed.at).status(), Some(503));
    assert_eq!(friend.register("carol", 3600, bed.at).status(), Some(200));
    talking(&bed, &friend, &bob);
    // The calls were confirmed before the restart.
    bed.advance(64 * T1);
    block_on(bed.router.runtime().quiet());
    assert_eq!(bed.router.times().live(), 5);
    assert_eq!(counters(&bed).unconfirmed.get(), 0);
}

#[test]
fn a_buffer_beyond_all_limits_is_as_large_as_the_kernel_allows() {
    let bed = bed(|settings| settings.buffer = 1 << 32);
    assert!(bed.router.buffer() > 64 * 1024, "{}", bed.router.buffer());
}

/// The router also counts the datagrams that the kernel dropped before it.
#[test]
fn what_the_kernel_dropped_is_counted() {
    let bed = bed(|settings| settings.buffer = 4096);
    assert!(bed.router.buffer() <= 4096);
    let greedy = Phone::at(2);
    let packet = greedy.text("INVITE", &Calling::to("nobody"), bed.at);
    const SENT: u64 = 20_000;
    for _ in 0..SENT {
        greedy.send(&packet, bed.at);
    }
    wait_until(|| {
        // The router looks at the kernel's count from time to time.
        bed.clock.advance(Duration::from_millis(100));
        let counters = counters(&bed);
        counters.lost.get() > 0 && counters.received.get() + counters.lost.get() == SENT
    });
    let table = counters(&bed).to_string();
    assert!(table.contains("dropped by the kernel"), "{table}");
}

/// A locality that does not keep up is helped by the others.
#[test]
fn calls_begin_in_all_localities_after_the_kernel_dropped_datagrams() {
    let bed = bed(|settings| {
        settings.buffer = 4096;
        settings.limits.rate = 1_000_000;
        settings.limits.share = 100;
    });
    let caller = Phone::new();
    let homes = || -> BTreeSet<usize> {
        let foms = bed.router.runtime().operations().foms;
        let calls = foms.iter().filter(|fom| fom.operation == "Call");
        calls.map(|fom| fom.home.locality).collect()
    };
    for _ in 0..4 {
        caller.request("INVITE", &Calling::to("nobody"), bed.at);
        caller.expect(100);
        caller.expect(404);
    }
    assert_eq!(homes(), BTreeSet::from([0]));
    // Until the kernel drops some, and then until calls have begun on both sides.
    wait_until(|| {
        for _ in 0..1000 {
            caller.request("INVITE", &Calling::to("nobody"), bed.at);
        }
        bed.clock.advance(Duration::from_millis(100));
        counters(&bed).lost.get() > 0 && homes().len() == 2
    });
}
