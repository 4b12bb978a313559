//! Series: foms run one after the other by one name, and are found by another.

use fom_runtime::{error::RefusedReason, submission::Joined, time::TestClock};

use crate::kit::foms::{Walker, Word, walker};
use crate::kit::{Log, limited, one, secs};

/// The foms of a series run one after the other, and each is found by its own key from its submission on. A fom of
/// another series does not wait.
#[test]
fn the_series_orders_and_the_key_finds() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let start = |name: &'static str, series| {
            let submission = runtime.submit(walker(&log, name)).key(name);
            submission.serial(series).start().unwrap()
        };
        let (a, b, c) = (start("a", 7), start("b", 7), start("c", 8));
        runtime.quiet().await;
        assert_eq!(log.take(), ["a begins", "a waits", "c begins", "c waits"]);
        assert_eq!(b.key(), Some(&"b".into()));
        assert_eq!(b.serial(), Some(&7.into()));
        let info = runtime.operation(b.id()).unwrap();
        let holder = format!("Walker {} (key a) in Waits", a.id());
        assert_eq!(
            info.waiting_for(),
            Some(format!("its turn in the series 7, held by {holder}"))
        );
        for fom in [&a, &b, &c] {
            let key = fom.key().unwrap().clone();
            assert_eq!(runtime.find::<Walker>(key).unwrap().id(), fom.id());
        }
        // The name of the series finds none.
        assert!(runtime.find::<Walker>(7).is_none());
        let keys = runtime.operations().keys;
        assert_eq!(keys.len(), 1);
        assert!(keys[0].is_serial);
        assert_eq!(
            (keys[0].holders.as_slice(), keys[0].waiting.as_slice()),
            (&[a.id()][..], &[b.id()][..])
        );
        // An event for the fom that waits is there when it begins.
        runtime
            .find::<Walker>("b")
            .unwrap()
            .send(Word::Stop)
            .unwrap();
        a.send(Word::Fail).unwrap();
        assert!(a.await.is_err());
        b.await.unwrap();
        assert_eq!(log.take(), ["a Fail", "b begins", "b waits", "b Stop"]);
        assert!(runtime.find::<Walker>("a").is_none());
        c.send(Word::Stop).unwrap();
        c.await.unwrap();
        assert!(runtime.operations().keys.is_empty());
    });
}

/// A key that is in use refuses the submission, whatever its series, and leaves nothing behind. The key is free when its
/// fom has ended, also when that fom never began.
#[test]
fn a_key_in_use_refuses_a_fom_of_a_series() {
    limited(|| async {
        let runtime = one(&TestClock::new()).key_queue(1).build().unwrap();
        let log = Log::default();
        let submit = |key: &'static str, series: u64| {
            let submission = runtime.submit(walker(&log, key)).key(key);
            submission.serial(series)
        };
        let a = submit("a", 7).start().unwrap();
        let b = submit("b", 7).start().unwrap();
        for (key, live) in [("a", a.id()), ("b", b.id())] {
            let refused = submit(key, 8).start().unwrap_err();
            assert_eq!(refused.reason(), RefusedReason::KeyInUse);
            assert_eq!(refused.live().unwrap().id(), live);
        }
        let full = submit("c", 7).join().unwrap_err();
        assert_eq!(full.reason(), RefusedReason::KeyFull);
        match submit("b", 9).join().unwrap() {
            Joined::Live { fom, .. } => assert_eq!(fom.id(), b.id()),
            Joined::Started(_) => panic!("the key is in use"),
        }
        b.cancel();
        assert_eq!(b.await.unwrap_err().cause.name(), "cancelled");
        let again = submit("b", 8).start().unwrap();
        runtime.quiet().await;
        assert_eq!(log.take(), ["a begins", "a waits", "b begins", "b waits"]);
        for fom in [a, again] {
            fom.send(Word::Stop).unwrap();
            fom.await.unwrap();
        }
        assert_eq!(runtime.in_flight(), 0);
    });
}

/// A series that is full refuses before a fom is made, or sheds the oldest; and the refused key is free.
#[test]
fn a_full_series_refuses_and_frees_the_key() {
    limited(|| async {
        let runtime = one(&TestClock::new()).key_queue(1).build().unwrap();
        let log = Log::default();
        let submit = |key: &'static str| runtime.submit(walker(&log, key)).key(key).serial(7);
        let a = submit("a").start().unwrap();
        let b = submit("b").start().unwrap();
        let refused = submit("c").start().unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::KeyFull);
        assert!(runtime.find::<Walker>("c").is_none());
        let c = submit("c").shed_oldest().start().unwrap();
        assert_eq!(b.await.unwrap_err().cause.name(), "shed");
        assert!(runtime.find::<Walker>("b").is_none());
        a.send(Word::Stop).unwrap();
        a.await.unwrap();
        c.send(Word::Stop).unwrap();
        c.await.unwrap();
        assert_eq!(
            log.take(),
            [
                "a begins", "a waits", "a Stop", "c begins", "c waits", "c Stop"
            ]
        );
    });
}

/// A delayed fom has its key at once, and its place in the series when its delay is over.
#[test]
fn a_delayed_fom_takes_its_place_in_the_series_later() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let submit = |key: &'static str| runtime.submit(walker(&log, key)).key(key).serial(7);
        let late = submit("late").after(secs(5)).start().unwrap();
        runtime.quiet().await;
        assert_eq!(runtime.find::<Walker>("late").unwrap().id(), late.id());
        let (a, b) = (submit("a").start().unwrap(), submit("b").start().unwrap());
        clock.advance(secs(5));
        runtime.quiet().await;
        let last = submit("last").start().unwrap();
        for fom in [a, b, late, last] {
            fom.send(Word::Stop).unwrap();
            fom.await.unwrap();
        }
        let begun: Vec<_> = log
            .take()
            .into_iter()
            .filter(|line| line.ends_with("begins"))
            .collect();
        assert_eq!(
            begun,
            ["a begins", "b begins", "late begins", "last begins"]
        );
    });
}

/// Foms that share go together, a suspended series stands, and a fom in its turn may run another one inside the turn.
#[test]
fn a_series_is_shared_suspended_and_chained() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let submit = |key: &'static str| runtime.submit(walker(&log, key)).key(key).serial(7);
        let suspended = runtime.suspend_serial::<Walker>(7);
        let (a, b) = (
            submit("a").shared().start().unwrap(),
            submit("b").shared().start().unwrap(),
        );
        let c = submit("c").start().unwrap();
        runtime.quiet().await;
        assert_eq!(log.take(), [""; 0]);
        suspended.resume();
        runtime.quiet().await;
        assert_eq!(log.take(), ["a begins", "a waits", "b begins", "b waits"]);
        for fom in [a, b, c] {
            fom.send(Word::Stop).unwrap();
            fom.await.unwrap();
        }
    });
}
