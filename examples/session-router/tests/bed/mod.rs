//! A router for tests, on a clock that moves only when a test moves it, and a call through it.
#![allow(dead_code, reason = "each test file takes what it needs")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fom_runtime::time::TestClock;
use session_router::router::{Router, Settings};

use crate::phone::{Calling, Phone, Text};

/// A router and its clock.
pub(crate) struct Bed {
    pub(crate) router: Router,
    pub(crate) clock: TestClock,
    pub(crate) at: SocketAddr,
}

impl Bed {
    /// Moves the clock on, once every call waits.
    pub(crate) fn advance(&self, by: Duration) {
        block_on(self.router.runtime().quiet());
        self.clock.advance(by);
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(future)
}

pub(crate) fn bed(change: impl FnOnce(&mut Settings)) -> Bed {
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

/// Starts a router, and phones of `bob`.
pub(crate) fn bob(phones: usize) -> (Bed, Phone, Vec<Phone>) {
    bob_with(phones, |_| {})
}

/// Like `bob`, with other settings.
pub(crate) fn bob_with(
    phones: usize,
    change: impl FnOnce(&mut Settings),
) -> (Bed, Phone, Vec<Phone>) {
    let phones: Vec<Phone> = (0..phones).map(|_| Phone::new()).collect();
    let bed = bed(|settings| {
        settings.endpoints = phones
            .iter()
            .map(|phone| ("bob".to_owned(), phone.address))
            .collect();
        settings.fork = true;
        change(settings);
    });
    (bed, Phone::new(), phones)
}

pub(crate) const T1: Duration = Duration::from_millis(500);

/// Makes a call to bob. Returns the call, bob's INVITE, and bob's answer 200. The caller has sent no ACK yet.
pub(crate) fn answered(bed: &Bed, caller: &Phone, bob: &Phone) -> (Calling, Text, Text) {
    let mut call = Calling::to("bob");
    caller.request("INVITE", &call, bed.at);
    caller.expect(100);
    let invite = bob.expect_request("INVITE");
    bob.answer(&invite, 200, "b");
    let ok = caller.expect(200);
    call.to_tag = ok.to_tag();
    (call, invite, ok)
}

/// Makes a call to bob that bob answered and the caller confirmed.
pub(crate) fn talking(bed: &Bed, caller: &Phone, bob: &Phone) -> (Calling, Text) {
    let (call, invite, _) = answered(bed, caller, bob);
    caller.request("ACK", &call.ack(), bed.at);
    bob.expect_request("ACK");
    (call, invite)
}

/// Hangs up such a call.
pub(crate) fn hang_up(bed: &Bed, call: &Calling, caller: &Phone, bob: &Phone) {
    caller.request("BYE", &call.next(), bed.at);
    let bye = bob.expect_request("BYE");
    bob.answer(&bye, 200, "b");
    caller.expect(200);
}

/// Waits until `so` returns true, for half a minute at most.
#[track_caller]
pub(crate) fn wait_until(so: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !so() {
        assert!(Instant::now() < limit, "waited for too long");
        std::thread::yield_now();
    }
}

/// Ends the router; no call may remain.
pub(crate) fn drain(bed: &Bed) {
    let remained = block_on(bed.router.drain(Duration::from_secs(10)));
    assert!(remained.is_empty(), "{remained:?}");
}
