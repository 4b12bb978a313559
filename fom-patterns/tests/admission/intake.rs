//! The intake itself: full, waiting, shed, cancelled, and at the end of the runtime.

use std::{
    pin::pin,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use fom_patterns::{
    admission::{
        Admission, BuildAdmissionError, ClientRoundRobin, ConfigError, DeadlineFirst, Level, Line,
        Next, Policy, Priorities, Rate, Request, Share, SortedBatches, Tags, TokenBuckets,
        WhenFull,
    },
    prelude::*,
};
use fom_runtime::{
    error::RefusedReason,
    time::{Instant, TestClock},
};

use crate::kit::{limited, one, poll_once, secs};
use crate::queue::{self, Held, Slow, Starts, Word, reason};

/// A limit on the operations in flight, and order within a series: at most two run, and those of a series one after the
/// other. The one that waits for its series stays in the queue, so an operation of another series has the place.
#[test]
fn a_limit_and_a_series_hold_together() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let intake = Admission::builder(&runtime).in_flight(2).build().unwrap();
        let starts = Starts::default();
        let submit = |name: &'static str, series: u64| {
            let slow = Slow {
                name: name.to_owned(),
                starts: starts.clone(),
            };
            intake
                .submit(slow)
                .key(name)
                .serial(series)
                .start()
                .unwrap()
        };
        let all = [submit("a", 7), submit("b", 7), submit("c", 8)];
        runtime.quiet().await;
        assert_eq!(starts.line(), "a c");
        assert_eq!(runtime.find::<Slow>("a").unwrap().serial(), Some(&7.into()));
        assert!(runtime.find::<Slow>("b").is_none());
        assert_eq!(intake.queued(), 1);
        assert_eq!(intake.status().await.queues[0].queued, 1);
        for mut queued in all {
            queued.started().await.unwrap().send(Word::Go).unwrap();
            queued.await.unwrap();
        }
        assert_eq!(starts.line(), "b");
    });
}

/// An operation that waits for its series in the queue can be cancelled, and the end of the runtime answers it. The
/// next one of the series has its turn.
#[test]
fn what_waits_for_its_series_can_leave_the_queue() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let intake = Admission::builder(&runtime).in_flight(2).build().unwrap();
        let starts = Starts::default();
        let submit = |name: &'static str| {
            let slow = Slow {
                name: name.to_owned(),
                starts: starts.clone(),
            };
            intake.submit(slow).serial(7).start().unwrap()
        };
        let [mut a, b, mut c, d] = ["a", "b", "c", "d"].map(submit);
        runtime.quiet().await;
        b.cancel();
        assert!(matches!(b.await.unwrap_err().cause, Cause::Cancelled));
        a.started().await.unwrap().send(Word::Go).unwrap();
        a.await.unwrap();
        c.started().await.unwrap();
        runtime.quiet().await;
        assert_eq!(starts.line(), "a c");
        runtime.shutdown(Shutdown::Now, secs(10)).await;
        assert!(matches!(d.await.unwrap_err().cause, Cause::Shutdown));
        assert!(matches!(c.await.unwrap_err().cause, Cause::Shutdown));
    });
}

/// Counts the requests that it gave and that have not ended.
struct Counting {
    line: Line,
    running: Arc<Mutex<usize>>,
}

impl Policy for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn enqueue(&mut self, request: Request, _: Instant) -> Result<(), Request> {
        self.line.put(request);
        Ok(())
    }

    fn get(&mut self, _: Instant, _: bool) -> Next {
        let next = self.line.take();
        *self.running.lock().unwrap() += usize::from(next.is_some());
        next.map_or(Next::Empty, Next::Request)
    }

    fn remove(&mut self, request: &Tags) -> Option<Request> {
        self.line.remove(request.number())
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Tags)) {
        self.line.iter().for_each(visitor);
    }

    fn ended(&mut self, _: &Tags) {
        *self.running.lock().unwrap() -= 1;
    }
}

/// A policy hears the end of each request that it gave, also of one that left the queue while it waited for its series.
#[test]
fn a_policy_hears_of_what_waited_for_its_series_in_vain() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let running = Arc::new(Mutex::new(0));
        let counting = Counting {
            line: Line::default(),
            running: Arc::clone(&running),
        };
        let builder = Admission::builder(&runtime).in_flight(4);
        let intake = builder.policy(counting).build().unwrap();
        let starts = Starts::default();
        let submit = |name: &'static str| {
            let slow = Slow {
                name: name.to_owned(),
                starts: starts.clone(),
            };
            intake.submit(slow).serial(7).start().unwrap()
        };
        let [mut a, b, c] = ["a", "b", "c"].map(submit);
        a.started().await.unwrap();
        assert_eq!(*running.lock().unwrap(), 3);
        b.cancel();
        assert!(matches!(b.await.unwrap_err().cause, Cause::Cancelled));
        assert_eq!(*running.lock().unwrap(), 2);
        runtime.shutdown(Shutdown::Now, secs(10)).await;
        assert!(matches!(c.await.unwrap_err().cause, Cause::Shutdown));
        drop(a);
        assert_eq!(*running.lock().unwrap(), 0);
    });
}

/// A change of the policy keeps the order of a client, also if its older request waits for a series.
#[test]
fn a_change_of_the_policy_passes_no_request_that_waits_for_its_series() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let intake = Admission::builder(&runtime).in_flight(4).build().unwrap();
        let starts = Starts::default();
        let submit = |name: &'static str, series: Option<u64>| {
            let slow = Slow {
                name: name.to_owned(),
                starts: starts.clone(),
            };
            let request = intake.submit(slow).client("one");
            match series {
                Some(series) => request.serial(series).start().unwrap(),
                None => request.start().unwrap(),
            }
        };
        let mut first = submit("a", Some(7));
        first.started().await.unwrap();
        let mut older = submit("b", Some(7));
        intake.set_policy(ClientRoundRobin::new(1).unwrap());
        let mut later = submit("c", None);
        assert_eq!(intake.status().await.queued, 2);
        // `started` says that there is a fom, not that it has run.
        runtime.quiet().await;
        assert_eq!(starts.line(), "a");
        for queued in [&mut first, &mut older, &mut later] {
            queued.started().await.unwrap().send(Word::Go).unwrap();
            queued.await.unwrap();
        }
        assert_eq!(starts.line(), "b c");
    });
}

/// Trap 35: the intake is full from the high mark until the queue is down to the low mark. A refused caller has the
/// operation back, each time the same. Each mark is told once.
#[test]
fn the_queue_is_full_from_mark_to_mark() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let levels = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&levels);
        let builder = Admission::builder(&runtime)
            .marks(1, 3)
            .on_level(move |level| told.lock().unwrap().push(level));
        let intake = builder.in_flight(1).build().unwrap();
        let starts = Starts::default();
        let slow = |name: &str| Slow {
            name: name.to_owned(),
            starts: starts.clone(),
        };
        let mut all: Vec<_> = ["a", "b", "c", "d"]
            .map(|name| intake.submit(slow(name)).start().unwrap())
            .into();
        assert_eq!((intake.queued(), intake.level()), (3, Level::Full));
        let mut back = slow("e");
        for _ in 0..2 {
            let refused = intake.submit(back).client("e").start().unwrap_err();
            assert_eq!(refused.reason(), RefusedReason::Full);
            back = refused.into_operation();
            assert_eq!(back.name, "e");
        }
        for left in [2, 1] {
            assert!(intake.submit(slow("f")).start().is_err());
            let mut first = all.remove(0);
            first.started().await.unwrap().send(Word::Go).unwrap();
            first.await.unwrap();
            all[0].started().await.unwrap();
            // Asked after the start, so the status knows of the start.
            assert_eq!(intake.status().await.queued, left);
        }
        assert_eq!(intake.level(), Level::Normal);
        all.push(intake.submit(back).start().unwrap());
        for mut one in all {
            one.started().await.unwrap().send(Word::Go).unwrap();
            one.await.unwrap();
        }
        assert_eq!(starts.line(), "a b c d e");
        assert_eq!(*levels.lock().unwrap(), [Level::Full, Level::Normal]);
        runtime.idle().await;
        let status = intake.status().await;
        assert_eq!((status.filled, status.refused, status.ended), (1, 4, 5));
    });
}

/// Trap 35: submissions that wait for room go in in their order, and none overtakes another. A dropped wait is over.
#[test]
fn waits_for_room_are_in_order() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let mut held = Held::new(Admission::builder(&runtime).marks(1, 2)).await;
        held.detach_all("a b");
        let mut waits: Vec<_> = ["c", "d", "e"]
            .map(|name| Box::pin(held.of_client(name).start_when_room()))
            .into();
        for wait in &mut waits {
            assert!(poll_once(wait.as_mut()).await.is_pending());
        }
        // The wait for d is given up.
        drop(waits.remove(1));
        let status = held.intake.status().await;
        assert_eq!((status.waiting_for_room, status.queued), (2, 2));
        assert!(held.of_client("f").start().is_err());
        held.go().await;
        let mut queued = Vec::new();
        for wait in waits {
            queued.push(wait.await.unwrap());
        }
        for one in queued {
            one.await.unwrap();
        }
        assert_eq!(held.starts.line(), "holder a b c e");
    });
}

/// Trap 35: the policy chooses the request that is shed. The operation is given back with the reason.
#[test]
fn the_policy_chooses_the_shed_request() {
    limited(|| async {
        let cases: [(Box<dyn Policy>, &str); 4] = [
            ("fifo".parse().unwrap(), "b1"),
            ("crr quantum=1".parse().unwrap(), "a3"),
            ("edf default=10s".parse().unwrap(), "a2"),
            ("priorities most=9".parse().unwrap(), "a3"),
        ];
        for (policy, shed) in cases {
            let runtime = one(&TestClock::new()).build().unwrap();
            let builder = Admission::builder(&runtime)
                .marks(1, 3)
                .when_full(WhenFull::Shed)
                .policy(policy);
            let held = Held::new(builder).await;
            let all = [
                (held.of_client("a1"), 1, Priority::Normal),
                (held.of_client("a2"), 9, Priority::Normal),
                (held.of_client("a3"), 2, Priority::Low),
                (held.of_client("b1"), 3, Priority::High),
            ];
            let mut answers = Vec::new();
            for (tagged, deadline, priority) in all {
                let tagged = tagged.deadline(secs(deadline)).priority(priority);
                answers.push(tagged.start().unwrap());
            }
            assert_eq!(held.intake.queued(), 3);
            let mut given_back = Vec::new();
            for mut answer in answers {
                if let Poll::Ready(outcome) = poll_once(pin!(&mut answer)).await {
                    let failure = outcome.unwrap_err();
                    assert!(matches!(failure.cause, Cause::Shed));
                    given_back.push(failure.operation.unwrap().into_inner().name);
                }
            }
            assert_eq!(given_back, [shed]);
        }
    });
}

/// A cancel in the queue takes the operation out, gives it back, and makes room at once.
#[test]
fn what_is_cancelled_leaves_the_queue() {
    limited(|| async {
        for policy in [
            "fifo",
            "crr quantum=2",
            "tbf rate=1 burst=1",
            "edf default=1s",
            "priorities most=3",
            "batches quantum=4",
        ] {
            let runtime = one(&TestClock::new()).build().unwrap();
            let policy: Box<dyn Policy> = policy.parse().unwrap();
            let builder = Admission::builder(&runtime).marks(1, 3).policy(policy);
            let mut held = Held::new(builder).await;
            let [a, b, c] = ["a", "b", "c"].map(|name| {
                let tagged = held.of_client(name).object("the same", 1);
                tagged.start().unwrap()
            });
            for cancelled in [b, c] {
                cancelled.cancel();
                cancelled.cancel();
                let failure = cancelled.await.unwrap_err();
                assert!(matches!(failure.cause, Cause::Cancelled));
                assert!(failure.operation.is_some());
            }
            assert_eq!(held.intake.status().await.cancelled, 2);
            assert_eq!(
                (held.intake.queued(), held.intake.level()),
                (1, Level::Normal)
            );
            held.go().await;
            a.await.unwrap();
            assert_eq!(held.starts.line(), "holder a");
        }
    });
}

/// Trap 40: the end of a fom frees its place, in whatever way the fom ends, also if it could not start.
#[test]
fn every_way_of_ending_gives_the_place_free() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let intake = Admission::builder(&runtime).in_flight(1).build().unwrap();
        let starts = Starts::default();
        let slow = |name: &str| Slow {
            name: name.to_owned(),
            starts: starts.clone(),
        };
        for round in 0..20 {
            let mut one = intake.submit(slow("one")).key("its key").start().unwrap();
            let fom = one.started().await.unwrap();
            let next = match round % 5 {
                0 => {
                    fom.send(Word::Fail).unwrap();
                    one.await.unwrap_err().cause.name()
                }
                1 => {
                    fom.send(Word::Panic).unwrap();
                    one.await.unwrap_err().cause.name()
                }
                2 => {
                    one.cancel();
                    one.await.unwrap_err().cause.name()
                }
                3 => {
                    // The key of the twin is in use.
                    let other = runtime
                        .submit(slow("other"))
                        .key("other key")
                        .start()
                        .unwrap();
                    fom.send(Word::Go).unwrap();
                    let twin = intake
                        .submit(slow("twin"))
                        .key("other key")
                        .start()
                        .unwrap();
                    let failure = twin.await.unwrap_err();
                    assert_eq!(reason(&failure), Some(RefusedReason::KeyInUse));
                    other.cancel();
                    "refused"
                }
                _ => {
                    drop(one);
                    fom.send(Word::Go).unwrap();
                    "detached"
                }
            };
            let mut last = intake.submit(slow("last")).start().unwrap();
            let fom = last.started().await;
            fom.unwrap_or_else(|| panic!("no place after: {next}"))
                .send(Word::Go)
                .unwrap();
            last.await.unwrap();
        }
        runtime.idle().await;
        let status = intake.status().await;
        assert_eq!((status.running, status.queued), (0, 0));
    });
}

/// SV-09, trap 28: a drain serves the queue past its rate. Later submissions are refused, and so are submissions that
/// wait for room.
#[test]
fn a_drain_serves_the_queue_past_its_rate() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let rate = Rate::per_second(1).unwrap().burst(1).unwrap();
        let builder = Admission::builder(&runtime)
            .marks(1, 4)
            .policy(TokenBuckets::new(rate, Share::All));
        let intake = builder.in_flight(2).build().unwrap();
        let starts = Starts::default();
        let quick = |name: &str| queue::Quick {
            name: name.to_owned(),
            starts: starts.clone(),
        };
        for name in ["a", "b", "c", "d", "e"] {
            intake.submit(quick(name)).detach().unwrap();
        }
        let mut wait = Box::pin(intake.submit(quick("f")).start_when_room());
        assert!(poll_once(wait.as_mut()).await.is_pending());
        runtime.quiet().await;
        assert_eq!((starts.len(), runtime.in_flight()), (1, 4));
        let report = runtime.shutdown(Shutdown::Drain, secs(20)).await;
        assert!(report.remained.is_empty());
        assert_eq!(starts.line(), "a b c d e");
        let refused = wait.await.unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::ShuttingDown);
        let refused = intake.submit(quick("g")).start().unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::ShuttingDown);
    });
}

/// SV-09, trap 28: a shutdown at once answers every queued submission with its operation, whatever the policy. So does
/// dropping the runtime.
#[test]
fn a_shutdown_at_once_answers_all() {
    limited(|| async {
        for policy in ["fifo", "crr quantum=1", "tbf rate=1", "batches quantum=1"] {
            for drops in [false, true] {
                let runtime = one(&TestClock::new()).build().unwrap();
                let policy: Box<dyn Policy> = policy.parse().unwrap();
                let held = Held::new(Admission::builder(&runtime).marks(1, 3).policy(policy)).await;
                let queued = ["a", "b", "b"].map(|name| held.of_client(name).start().unwrap());
                let mut wait = Box::pin(held.of_client("d").start_when_room());
                assert!(poll_once(wait.as_mut()).await.is_pending());
                if drops {
                    drop(runtime);
                } else {
                    runtime.shutdown(Shutdown::Now, secs(20)).await;
                }
                for one in queued {
                    let failure = one.await.unwrap_err();
                    assert!(matches!(failure.cause, Cause::Shutdown));
                    assert!(failure.operation.is_some());
                }
                let refused = wait.await.unwrap_err();
                assert_eq!(refused.reason(), RefusedReason::ShuttingDown);
                assert!(held.starts.all().iter().all(|name| name == "holder"));
            }
        }
    });
}

/// NR-09, 77h: impossible settings are errors that say what to do, never a panic.
#[test]
fn bad_settings_are_errors() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let built = Admission::builder(&runtime).in_flight(0).build();
        assert_eq!(built.unwrap_err(), BuildAdmissionError::NothingInFlight);
        for (low, high) in [(2, 1), (0, 0), (5, 5)] {
            let built = Admission::builder(&runtime).marks(low, high).build();
            assert_eq!(built.unwrap_err(), BuildAdmissionError::Marks { low, high });
        }
        assert_eq!(
            ClientRoundRobin::new(0).unwrap_err(),
            ConfigError::Zero("quantum")
        );
        assert_eq!(
            SortedBatches::new(0).unwrap_err(),
            ConfigError::Zero("quantum")
        );
        assert_eq!(Priorities::new(0).unwrap_err(), ConfigError::Zero("most"));
        assert_eq!(Rate::per_second(0), Err(ConfigError::Zero("rate")));
        assert!(Rate::new(1, Duration::ZERO).is_err());
        assert!(Rate::new(1, Duration::MAX).is_err());
        let rate = Rate::per_second(u64::MAX).unwrap();
        assert_eq!(rate.burst(0), Err(ConfigError::Zero("burst")));
        assert!(Rate::per_second(1).unwrap().burst(u64::MAX).is_err());
        drop(DeadlineFirst::new(Duration::MAX));
        for (line, says) in [
            ("", "no policy ``"),
            ("lifo", "no policy `lifo`"),
            ("fifo quantum=1", "takes nothing"),
            ("crr", "needs `quantum=..`"),
            ("crr quantum=0", "is zero"),
            ("crr quantum=-1", "whole number"),
            ("crr quantum=1 quantum=2", "each once"),
            ("tbf burst=1", "needs `rate=..`"),
            ("tbf rate=1/0s", "is zero"),
            ("tbf rate=1/1h burst=1", "must be a time"),
            ("tbf rate=1 burst=99999999999999999999", "whole number"),
            ("tbf rate=1 per=moon", "`client`, `class` or `all`"),
            ("edf default=5", "must be a time"),
            ("priorities most", "takes most"),
        ] {
            let error = line.parse::<Box<dyn Policy>>().map(drop).unwrap_err();
            assert!(error.to_string().contains(says), "{line}: {error}");
        }
    });
}

/// NR-09: the name of a policy is a line that makes the policy again.
#[test]
fn names_of_policies_are_lines() {
    for line in [
        "fifo",
        "crr quantum=8",
        "batches quantum=256",
        "priorities most=16",
        "edf default=1s",
        "edf default=1500ms",
        "tbf rate=100 burst=10 per=client",
        "tbf rate=5/60s burst=3 per=all",
        "tbf rate=5/20us burst=3 per=class",
    ] {
        let policy: Box<dyn Policy> = line.parse().unwrap();
        assert_eq!(policy.name(), line);
    }
}
