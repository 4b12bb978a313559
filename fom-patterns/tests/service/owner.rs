//! Owners and watchers of a service: unregistering, and the news of that.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use fom_patterns::{
    prelude::*,
    service::{
        CallCause, CallCx, CallFailure, CancelledBy, Happened, Provider, Refusal, Running, Service,
        ServiceEvent, ServiceState,
    },
};
use fom_runtime::{error::BoxError, machine::FomState, time::TestClock};

use crate::kit::{self, Gate, Log, limited, many, one, secs};

static SLOW: Service<u32, u32> = Service::new("slow");
static OTHER: Service<u32, u32> = Service::new("other");

/// Takes this many seconds, one call after the other.
fn slow(owner: &str) -> Provider<u32, u32> {
    Provider::future(|cx: CallCx, n: u32| async move {
        cx.sleep(secs(n.into())).await;
        n
    })
    .owner(owner)
    .key(|_: &u32| "one after the other")
}

fn is_unregistered(failure: &CallFailure<u32>) -> bool {
    let by = CancelledBy::Unregistered {
        service: "slow".into(),
        owner: "a".into(),
    };
    matches!(&failure.cause, CallCause::Cancelled(cancelled) if *cancelled == by)
}

/// SV-08: unregistering cancels the waiting calls of this owner, returns their arguments, and leaves the calls of other
/// owners alone. It waits for running calls; the name is free at once. Trap 8: cancel of *everyone*.
#[test]
fn unregistering_cancels_only_the_owners_calls() {
    limited(async || {
        let clock = TestClock::new();
        let runtime = many(2, &clock).build().unwrap();
        let services = runtime.services();
        let a = services.register(&SLOW, slow("a")).unwrap();
        let _b = services.register(&OTHER, slow("b")).unwrap();
        let mine: Vec<_> = (1..=3)
            .map(|n| services.call(&SLOW, n).start().unwrap())
            .collect();
        let others: Vec<_> = (1..=2)
            .map(|n| services.call(&OTHER, n).start().unwrap())
            .collect();
        let (tell, told) = std::sync::mpsc::channel();
        services
            .call(&SLOW, 4)
            .then(move |answer| tell.send(answer).unwrap());
        runtime.quiet().await;

        let mut leaves = Box::pin(a.unregister(Running::Finish));
        assert!(
            kit::poll_once(leaves.as_mut()).await.is_pending(),
            "one runs"
        );
        let mut mine = mine.into_iter();
        let runs = mine.next().unwrap();
        for (calling, n) in mine.zip(2..) {
            let failure = calling.await.unwrap_err();
            assert!(is_unregistered(&failure), "{failure}");
            assert_eq!(failure.argument, Some(n));
        }
        let failure = told.recv().unwrap().unwrap_err();
        assert!(is_unregistered(&failure) && failure.argument == Some(4));
        let refused = services.call(&SLOW, 5).await.unwrap_err();
        assert!(matches!(
            refused.refusal(),
            Some(Refusal::NotRegistered { .. })
        ));
        // The name is free, and the leaving service is listed as long as it runs.
        let again = services.register(&SLOW, slow("c")).unwrap();
        let listed = services.status().services;
        let owners: Vec<_> = listed
            .iter()
            .map(|one| (one.owner.as_str(), one.running))
            .collect();
        assert_eq!(owners, [("a", 1), ("b", 1), ("c", 0)]);
        drop(again);

        runtime.quiet().await;
        clock.advance(secs(1));
        assert_eq!(runs.await.unwrap(), 1);
        leaves.await;
        assert_eq!(services.status().services.len(), 1);
        for calling in others {
            runtime.quiet().await;
            clock.advance(secs(2));
            calling.await.unwrap();
        }
    });
}

/// SV-08: told to stop, an async function is dropped where it waits, and a plain function sees it; both are waited for.
#[test]
fn what_runs_can_be_told_to_stop() {
    limited(async || {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let services = runtime.services();
        let waits = services.register(&SLOW, slow("a")).unwrap();
        let (enter, entered) = std::sync::mpsc::channel();
        let blocks = services
            .register(
                &OTHER,
                Provider::blocking(move |cx, n| {
                    enter.send(()).unwrap();
                    while !cx.is_cancelled() {
                        std::thread::yield_now();
                    }
                    n
                })
                .place(Placement::Locality(1)),
            )
            .unwrap();
        let dropped = services.call(&SLOW, 100).start().unwrap();
        runtime.quiet().await;
        waits.unregister(Running::Stop).await;
        let failure = dropped.await.unwrap_err();
        assert!(is_unregistered(&failure) && failure.argument.is_none());
        let told = services.call(&OTHER, 7).start().unwrap();
        entered.recv().unwrap();
        blocks.unregister(Running::Stop).await;
        assert_eq!(told.await.unwrap(), 7, "what it returns counts");
    });
}

/// SV-05: nothing is left of an unregistered service: its function is dropped with all it holds. Its stop ran once,
/// after its last call.
#[test]
fn nothing_is_left_of_what_was_unregistered() {
    limited(async || {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let services = runtime.services();
        let log = Log::default();
        let held = Arc::new(());
        let seen: Weak<()> = Arc::downgrade(&held);
        let (ended, stopped) = (log.clone(), log.clone());
        let slow = services
            .register(
                &SLOW,
                Provider::future(move |cx, n: u32| {
                    let (held, ended) = (Arc::clone(&held), ended.clone());
                    async move {
                        cx.sleep(secs(1)).await;
                        ended.put("ends");
                        drop(held);
                        n
                    }
                })
                .on_stop(move |_| {
                    stopped.put("stops");
                    async { Ok::<_, BoxError>(()) }
                }),
            )
            .unwrap();
        let calling = services.call(&SLOW, 1).start().unwrap();
        runtime.quiet().await;
        let mut leaves = Box::pin(slow.unregister(Running::Finish));
        assert!(kit::poll_once(leaves.as_mut()).await.is_pending());
        runtime.quiet().await;
        clock.advance(secs(1));
        leaves.await;
        assert_eq!(seen.strong_count(), 0);
        assert_eq!(log.take(), ["ends", "stops"]);
        assert_eq!(calling.await.unwrap(), 1);
    });
}

/// SV-08: a dropped guard unregisters without waiting; its stop still runs. Unregistering continues when no caller
/// waits for it. Trap 36.
#[test]
fn a_guard_that_is_dropped_unregisters() {
    limited(async || {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let services = runtime.services();
        let log = Log::default();
        for forgotten in [false, true] {
            let stopped = log.clone();
            let provider = slow("a").on_stop(move |_| {
                stopped.put("stops");
                async { Ok::<_, BoxError>(()) }
            });
            let guard = services.register(&SLOW, provider).unwrap();
            let runs = services.call(&SLOW, 1).start().unwrap();
            let waits = services.call(&SLOW, 2).start().unwrap();
            runtime.quiet().await;
            if forgotten {
                let mut leaves = Box::pin(guard.unregister(Running::Finish));
                assert!(kit::poll_once(leaves.as_mut()).await.is_pending());
            } else {
                drop(guard);
            }
            assert!(is_unregistered(&waits.await.unwrap_err()));
            runtime.quiet().await;
            assert_eq!(log.take(), [""; 0], "one runs");
            clock.advance(secs(1));
            assert_eq!(runs.await.unwrap(), 1);
            runtime.idle().await;
            assert_eq!(log.take(), ["stops"]);
            assert_eq!(services.status().services.len(), 0);
        }
    });
}

/// SV-08, trap 18: a service that unregisters itself in a call does not wait for that call.
#[test]
fn a_service_may_unregister_itself() {
    limited(async || {
        static ONCE: Service<(), u32> = Service::new("once");
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let own = Arc::new(std::sync::Mutex::new(None));
        let of = Arc::clone(&own);
        let guard = services
            .register(
                &ONCE,
                Provider::future(move |_, ()| {
                    let guard: Option<fom_patterns::service::Registration> =
                        of.lock().unwrap().take();
                    async move {
                        guard.expect("once").unregister(Running::Stop).await;
                        7
                    }
                }),
            )
            .unwrap();
        *own.lock().unwrap() = Some(guard);
        assert_eq!(services.call(&ONCE, ()).await.unwrap(), 7);
        assert!(
            services
                .call(&ONCE, ())
                .await
                .unwrap_err()
                .refusal()
                .is_some()
        );
    });
}

/// A call that is cancelled through its fom is answered, too. SV-10: calls are foms that can be found and told by id;
/// calls that wait for their key say so.
#[test]
fn calls_are_listed_and_cancelled_as_foms() {
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let _slow = services.register(&SLOW, slow("a")).unwrap();
        let runs = services.call(&SLOW, 1).start().unwrap();
        let waits = services.call(&SLOW, 2).start().unwrap();
        runtime.quiet().await;
        let foms = runtime.operations().foms;
        assert_eq!(foms.len(), 2);
        for fom in &foms {
            assert_eq!(
                (fom.operation, fom.state),
                ("ServiceCall", FomState::Waiting)
            );
            assert_eq!(
                fom.key.as_ref().unwrap().to_string(),
                "service/slow/one after the other"
            );
        }
        let held = "its key, held by ServiceCall 1 (key service/slow/one after the other) in Serve";
        assert_eq!(foms[1].waiting_for().as_deref(), Some(held));
        for fom in foms.iter().rev() {
            assert!(runtime.cancel(fom.id));
        }
        for (calling, argument) in [(runs, None), (waits, Some(2))] {
            let failure = calling.await.unwrap_err();
            assert!(
                matches!(failure.cause, CallCause::Cancelled(CancelledBy::Fom)),
                "{failure}"
            );
            assert_eq!(failure.argument, argument);
        }
    });
}

fn short(event: ServiceEvent) -> String {
    format!("{} {:?}", event.owner, event.happened)
}

/// SV-07: a new subscriber is told at once of what is there already, and then of each event, once and in order.
#[test]
fn a_late_subscriber_is_told_at_once() {
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let mut early = services.subscribe("slow");
        assert!(
            kit::poll_once(std::pin::pin!(early.next()))
                .await
                .is_pending()
        );
        let a = services.register(&SLOW, slow("a")).unwrap();
        let mut late = services.subscribe("slow");
        let other = services.register(&OTHER, slow("x")).unwrap();
        a.unregister(Running::Finish).await;
        let b = slow("b").on_start(|_| async { Ok::<_, BoxError>(()) });
        let b = services.register(&SLOW, b).unwrap();
        b.start().await.unwrap();
        b.stop().await.unwrap();
        drop((b, other));
        for subscription in [&mut early, &mut late] {
            let mut seen = Vec::new();
            for _ in 0..7 {
                seen.push(short(subscription.next().await.unwrap()));
            }
            assert_eq!(
                seen,
                [
                    "a Registered",
                    "a Started",
                    "a Unregistered",
                    "b Registered",
                    "b Started",
                    "b Stopped",
                    "b Unregistered"
                ]
            );
            assert!(
                kit::poll_once(std::pin::pin!(subscription.next()))
                    .await
                    .is_pending()
            );
        }
        drop(runtime);
        assert_eq!(early.next().await, None);
    });
}

/// SV-07: a callback runs in a locality and has its data at hand. It hears nothing after its guard is dropped. A
/// callback that panics is removed and reported.
#[test]
fn a_callback_hears_of_services_in_its_locality() {
    limited(async || {
        let runtime = many(2, &TestClock::new())
            .locality_data(|_| Ok::<_, BoxError>(0_usize))
            .build()
            .unwrap();
        let services = runtime.services();
        let log = Log::default();
        let seen = log.clone();
        let watching = services
            .subscribe_in(1, "slow", move |local, event| {
                *local.data::<usize>() += 1;
                seen.put(format_args!("{} {}", local.index(), short(event)));
            })
            .unwrap();
        let panics = services
            .subscribe_in(0, "slow", |_, _| panic!("enough"))
            .unwrap();
        for _ in 0..3 {
            drop(services.register(&SLOW, slow("a")).unwrap());
        }
        runtime.quiet().await;
        let once = ["1 a Registered", "1 a Started", "1 a Unregistered"];
        assert_eq!(log.take(), [once; 3].concat());
        assert_eq!(
            runtime
                .call(1, |local| *local.data::<usize>())
                .await
                .unwrap(),
            9
        );
        let incidents = runtime.operations().incidents;
        assert_eq!(incidents.len(), 1, "{incidents:?}");
        assert_eq!(
            incidents[0].text,
            "a watcher of service `slow` panicked and gets no more events: enough"
        );
        drop((watching, panics));
        drop(services.register(&SLOW, slow("a")).unwrap());
        runtime.quiet().await;
        assert_eq!(log.take(), [""; 0]);
        assert!(services.subscribe_in(2, "slow", |_, _| ()).is_err());
    });
}

/// SV-07: waiting for a service that is there already, comes later, or comes with other types.
#[test]
fn waiting_for_a_service() {
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let mut waits = Box::pin(services.wait_for(&SLOW));
        assert!(kit::poll_once(waits.as_mut()).await.is_pending());
        let started = slow("a").on_start(|_| async { Ok::<_, BoxError>(()) });
        let guard = services.register(&SLOW, started).unwrap();
        assert!(
            kit::poll_once(waits.as_mut()).await.is_pending(),
            "not started"
        );
        guard.start().await.unwrap();
        waits.await.unwrap();
        services.wait_for(&SLOW).await.unwrap();
        let other: Service<(), ()> = Service::new("slow");
        let wrong = services.wait_for(&other).await.unwrap_err();
        assert!(matches!(wrong, Refusal::WrongSignature { .. }));
        assert_eq!(guard.state(), ServiceState::Started);
    });
}

/// SV-07: registrations from many threads: every watcher sees one order, in which each event occurs once and in its
/// turn.
#[test]
fn every_watcher_sees_one_order() {
    limited(async || {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let services = runtime.services();
        let log = Log::default();
        let seen = log.clone();
        let _watching = services.subscribe_in(0, "slow", move |_, event| seen.put(short(event)));
        let mut subscription = services.subscribe("slow");
        let registered = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (services, registered) = (services.clone(), Arc::clone(&registered));
                std::thread::spawn(move || {
                    for n in 0..100 {
                        if let Ok(guard) = services.register(&SLOW, slow(&format!("{thread}.{n}")))
                        {
                            registered.fetch_add(1, SeqCst);
                            drop(guard);
                        }
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        runtime.quiet().await;
        let registered = registered.load(SeqCst);
        let mut events = Vec::new();
        for n in 0..3 * registered {
            let event = subscription.next().await.unwrap();
            let expected = [
                Happened::Registered,
                Happened::Started,
                Happened::Unregistered,
            ];
            assert_eq!(event.happened, expected[n % 3]);
            events.push(short(event));
        }
        for of_one in events.chunks(3) {
            let owner = of_one[0].split(' ').next().unwrap();
            assert!(of_one.iter().all(|event| event.starts_with(owner)));
        }
        assert_eq!(log.take(), events);
    });
}

/// SV-08: calls, cancels and unregistering meet in a locality that is held: a call not entered by then never is.
#[test]
fn what_waits_in_the_queue_is_cancelled() {
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let entered = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&entered);
        let guard = services
            .register(
                &SLOW,
                Provider::function(move |_, n| {
                    count.fetch_add(1, SeqCst);
                    n
                })
                .owner("a"),
            )
            .unwrap();
        let gate = Gate::close(&runtime, 0);
        let waits: Vec<_> = (0..10)
            .map(|n| services.call(&SLOW, n).start().unwrap())
            .collect();
        drop(guard);
        for (calling, n) in waits.into_iter().zip(0..) {
            let failure = calling.await.unwrap_err();
            assert!(is_unregistered(&failure) && failure.argument == Some(n));
        }
        gate.open();
        runtime.idle().await;
        assert_eq!(entered.load(SeqCst), 0);
    });
}
