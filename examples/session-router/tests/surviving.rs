//! A router that is started again on its journal continues calls in every phase, and registrations.

mod bed;
mod phone;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bed::{Bed, T1, answered, block_on, hang_up, talking, wait_until};
use fom_durable::journal::{
    Batch, Journal, JournalError, JournalStats, MemoryJournal, Recover, Recovery,
};
use fom_durable::{DurableBuilderExt as _, DurableExt as _};
use fom_runtime::time::TestClock;
use phone::{Calling, Phone};
use session_router::router::{Router, Settings, StartError};

/// A journal on a disk that may be full.
#[derive(Clone, Default)]
struct Disk {
    kept: MemoryJournal,
    full: Arc<AtomicBool>,
}

impl Journal for Disk {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.kept.recover(to)
    }
    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        if self.full.load(Ordering::Acquire) {
            let full = std::io::ErrorKind::StorageFull.into();
            return Err(JournalError::io("write", "test", full));
        }
        self.kept.commit(batch)
    }
    fn stats(&self) -> JournalStats {
        self.kept.stats()
    }
}

/// Starts a router with its journal on `disk`; `bob` is at this address.
fn start(disk: &Disk, bob: SocketAddr) -> Bed {
    let at = SocketAddr::from(([127, 0, 0, 1], 0));
    start_at(disk, bob, at, TestClock::new())
}

fn start_at(disk: &Disk, bob: SocketAddr, at: SocketAddr, clock: TestClock) -> Bed {
    let settings = Settings {
        listen: at,
        localities: Some(2),
        clock: Some(clock.clone()),
        endpoints: vec![("bob".to_owned(), bob)],
        ..Settings::default()
    };
    let limit = Instant::now() + Duration::from_secs(20);
    let router = loop {
        let disk = disk.clone();
        match Router::start_with(settings.clone(), |builder| builder.journal_with(disk)) {
            Ok(router) => break router,
            // The last thread of the previous router closes its socket.
            Err(StartError::Listen(..)) if Instant::now() < limit => std::thread::yield_now(),
            Err(error) => panic!("{error:?}"),
        }
    };
    let at = router.local();
    Bed { router, clock, at }
}

/// Ends the router as a crash would: the next router has only what this one committed.
fn restart(bed: Bed, disk: &mut Disk, bob: SocketAddr) -> Bed {
    disk.kept = disk.kept.fork();
    let (at, clock) = (bed.at, bed.clock.clone());
    drop(bed);
    start_at(disk, bob, at, clock)
}

/// An answered call can be ended. Repeats have the same words.
#[test]
fn a_call_that_was_established_is_ended_with_bye() {
    let (mut disk, caller, bob) = (Disk::default(), Phone::new(), Phone::new());
    let bed = start(&disk, bob.address);
    let (call, invite, ok) = answered(&bed, &caller, &bob);
    let ack = call.ack();
    caller.request("ACK", &ack, bed.at);
    let acked = bob.expect_request("ACK");

    let bed = restart(bed, &mut disk, bob.address);
    assert_eq!(bed.router.came_back().calls["Talk"], 1);
    // Suppose the ACK was lost: all packets come again.
    bob.answer(&invite, 200, "b");
    assert_eq!(caller.expect(200).text, ok.text);
    caller.request("ACK", &ack, bed.at);
    assert_eq!(bob.expect_request("ACK").text, acked.text);
    assert_eq!(bed.router.counters().resumed.get(), 1);

    hang_up(&bed, &call, &caller, &bob);
    assert_eq!(bed.router.counters().completed.get(), 1);
}

/// The places that rang still ring: for them the repeated INVITE is a retransmission.
#[test]
fn a_call_that_rings_goes_on_ringing() {
    let (mut disk, caller, bob) = (Disk::default(), Phone::new(), Phone::new());
    let bed = start(&disk, bob.address);
    let mut call = Calling::to("bob");
    caller.request("INVITE", &call, bed.at);
    caller.expect(100);
    let invite = bob.expect_request("INVITE");
    bob.answer(&invite, 180, "b");
    caller.expect(180);

    let bed = restart(bed, &mut disk, bob.address);
    assert_eq!(bob.expect_request("INVITE").text, invite.text);
    bob.answer(&invite, 200, "b");
    call.to_tag = caller.expect(200).to_tag();
    caller.request("ACK", &call.ack(), bed.at);
    bob.expect_request("ACK");
    hang_up(&bed, &call, &caller, &bob);
}

/// A ringing call that no phone answers any more ends by the same timer as before.
#[test]
fn a_call_that_rings_is_given_up_in_time() {
    let (mut disk, caller, bob) = (Disk::default(), Phone::new(), Phone::new());
    let bed = start(&disk, bob.address);
    caller.request("INVITE", &Calling::to("bob"), bed.at);
    caller.expect(100);
    bob.expect_request("INVITE");
    let bed = restart(bed, &mut disk, bob.address);
    let mut wait = T1;
    bob.expect_request("INVITE");
    for _ in 0..6 {
        bed.advance(wait);
        bob.expect_request("INVITE");
        wait *= 2;
    }
    bed.advance(T1);
    caller.expect(408);
}

/// The router ends while a BYE is on its way. The caller repeats the BYE, and the callee takes it for the same one.
#[test]
fn a_bye_that_was_on_its_way_comes_again_as_the_same() {
    let (mut disk, caller, bob) = (Disk::default(), Phone::new(), Phone::new());
    let bed = start(&disk, bob.address);
    let (call, _) = talking(&bed, &caller, &bob);
    let bye = call.next();
    caller.request("BYE", &bye, bed.at);
    let first = bob.expect_request("BYE");
    let bed = restart(bed, &mut disk, bob.address);
    caller.request("BYE", &bye, bed.at);
    let again = bob.expect_request("BYE");
    assert_eq!(again.text, first.text);
    bob.answer(&again, 200, "b");
    assert_eq!(caller.expect(200).header("CSeq"), "2 BYE");
}

/// A refusal is repeated until there is an ACK, also by the next router.
#[test]
fn a_refusal_is_repeated_until_it_is_acknowledged() {
    let (mut disk, caller, bob) = (Disk::default(), Phone::new(), Phone::new());
    let bed = start(&disk, bob.address);
    let call = Calling::to("nobody");
    caller.request("INVITE", &call, bed.at);
    caller.expect(100);
    let refusal = caller.expect(404);
    bed.advance(Duration::ZERO); // all that can run has run
    let bed = restart(bed, &mut disk, bob.address);
    bed.advance(T1);
    // The owed answer of the committed phase, and then timer G.
    assert_eq!(caller.expect(404).text, refusal.text);
    let ack = Calling {
        to_tag: refusal.to_tag(),
        ..call.clone()
    };
    caller.request("ACK", &ack, bed.at);
}

/// The ACK stops the repeats of the 200. So the router forwards it only when the disk knows that the call is confirmed.
/// After a crash before that, both sides repeat, and the call talks on.
#[test]
fn an_ack_is_passed_on_when_it_is_kept() {
    let (mut disk, caller, bob) = (Disk::default(), Phone::new(), Phone::new());
    let bed = start(&disk, bob.address);
    let (call, invite, _) = answered(&bed, &caller, &bob);
    let ack = call.ack();
    disk.full.store(true, Ordering::Release);
    caller.request("ACK", &ack, bed.at);
    wait_until(|| !bed.router.runtime().quarantine().list().is_empty());

    disk.full.store(false, Ordering::Release);
    let bed = restart(bed, &mut disk, bob.address);
    assert_eq!(bed.router.came_back().calls["Talk"], 1);
    bob.answer(&invite, 200, "b");
    caller.expect(200);
    caller.request("ACK", &ack, bed.at);
    bob.expect_request("ACK");
    // The disk has it now, so another restart changes nothing, and the call talks on.
    let bed = restart(bed, &mut disk, bob.address);
    bed.advance(64 * T1);
    block_on(bed.router.runtime().quiet());
    hang_up(&bed, &call, &caller, &bob);
    assert_eq!(bed.router.counters().unconfirmed.get(), 0);
}

/// A registered user can be called without registering again. The registration expires in time, counted from the
/// registration and not from the restart.
#[test]
fn a_registration_survives_and_expires_in_time() {
    let (mut disk, caller, carol) = (Disk::default(), Phone::new(), Phone::new());
    let bed = start(&disk, carol.address);
    assert_eq!(carol.register("carol", 90, bed.at).status(), Some(200));
    bed.advance(Duration::from_secs(60));

    let bed = restart(bed, &mut disk, carol.address);
    assert_eq!(bed.router.came_back().users, 1);
    bed.advance(Duration::from_secs(29));
    caller.request("INVITE", &Calling::to("carol"), bed.at);
    caller.expect(100);
    let invite = carol.expect_request("INVITE");
    carol.answer(&invite, 486, "c");
    carol.expect_request("ACK");
    caller.expect(486);

    bed.advance(Duration::from_secs(1));
    let other = Phone::new();
    other.request("INVITE", &Calling::to("carol"), bed.at);
    other.expect(100);
    other.expect(480);
    block_on(bed.router.runtime().quiet());
    let bed = restart(bed, &mut disk, carol.address);
    assert_eq!(bed.router.came_back().users, 0, "nothing is kept of it");
}

/// A removed binding does not come back, and a refreshed one lasts as long as the last registration says.
#[test]
fn the_last_registration_counts() {
    let (mut disk, carol, dave) = (Disk::default(), Phone::new(), Phone::new());
    let bed = start(&disk, carol.address);
    carol.register("carol", 3600, bed.at);
    carol.register("carol", 0, bed.at);
    dave.register("dave", 60, bed.at);
    bed.advance(Duration::from_secs(59));
    dave.register("dave", 60, bed.at);
    let bed = restart(bed, &mut disk, carol.address);
    bed.advance(Duration::from_secs(59));
    let caller = Phone::new();
    caller.request("INVITE", &Calling::to("dave"), bed.at);
    caller.expect(100);
    dave.expect_request("INVITE");
    let other = Phone::new();
    other.request("INVITE", &Calling::to("carol"), bed.at);
    other.expect(100);
    assert!(matches!(other.receive().status(), Some(404 | 480)));
}

/// While the disk is full, the router begins nothing new. Existing calls stay, and end when there is room.
#[test]
fn a_full_disk_refuses_new_calls_and_keeps_the_others() {
    let (mut disk, caller, bob) = (Disk::default(), Phone::new(), Phone::new());
    let bed = start(&disk, bob.address);
    let (call, _) = talking(&bed, &caller, &bob);
    disk.full.store(true, Ordering::Release);

    let other = Phone::new();
    other.request("INVITE", &Calling::to("bob"), bed.at);
    assert_eq!(other.expect(503).header("Retry-After"), "5");
    assert_eq!(other.register("eve", 60, bed.at).status(), Some(503));
    // The existing call continues: requests in it need no disk.
    let info = call.next();
    caller.request("INFO", &info, bed.at);
    let got = bob.expect_request("INFO");
    bob.answer(&got, 200, "b");
    caller.expect(200);
    // The end of the call cannot be kept: so the call has not ended, and no side is told so.
    let bye = info.next();
    caller.request("BYE", &bye, bed.at);
    let got = bob.expect_request("BYE");
    bob.answer(&got, 200, "b");
    wait_until(|| !bed.router.runtime().quarantine().list().is_empty());
    caller.request("BYE", &bye, bed.at);
    disk.full.store(false, Ordering::Release);
    assert_eq!(caller.expect(200).header("CSeq"), "3 BYE");
    assert_eq!(bed.router.counters().completed.get(), 1);
    talking(&bed, &other, &bob);
    let bed = restart(bed, &mut disk, bob.address);
    assert_eq!(bed.router.came_back().calls["Talk"], 1);
}
