//! Services by name: registered, called in every way, and their answers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
    mpsc,
};

use fom_patterns::{
    prelude::*,
    service::{
        CallCause, CancelledBy, Provider, Refusal, RegisterReason, Running, Service, Signature,
    },
};
use fom_runtime::time::TestClock;

use crate::kit::{Gate, Log, limited, many, one, secs};

static ECHO: Service<String, usize> = Service::new("echo");

fn echo() -> Provider<String, usize> {
    Provider::function(|_, text: String| text.len())
}

/// SV-07: a service is called by its name with its types: awaited, by a plain thread, with a callback, and without an
/// answer.
#[test]
fn calls_of_every_kind_are_answered() {
    limited(async || {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let services = runtime.services();
        let entered = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&entered);
        let _echo = services
            .register(
                &ECHO,
                Provider::function(move |_, text: String| {
                    count.fetch_add(1, SeqCst);
                    text.len()
                }),
            )
            .unwrap();
        assert_eq!(services.call(&ECHO, "four".into()).await.unwrap(), 4);
        assert_eq!(services.call(&ECHO, "four".into()).wait().unwrap(), 4);
        let calling = services.call(&ECHO, "four".into()).start().unwrap();
        assert_eq!(calling.await.unwrap(), 4);
        let (tell, told) = mpsc::channel();
        services
            .call(&ECHO, "four".into())
            .then(move |answer| tell.send(answer.unwrap()).unwrap());
        assert_eq!(told.recv().unwrap(), 4);
        services.call(&ECHO, "four".into()).detach().unwrap();
        runtime.idle().await;
        assert_eq!(entered.load(SeqCst), 5);
    });
}

/// SV-07: a name is registered once. The error of a second registration names the owner, and the caller gets its own
/// provider back.
#[test]
fn a_second_registration_learns_the_owner_of_the_name() {
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let first = services.register(&ECHO, echo().owner("the first")).unwrap();
        let other: Service<u8, u8> = Service::named("echo");
        let refused = services
            .register(&other, Provider::function(|_, n| n))
            .unwrap_err();
        assert_eq!(
            refused.reason,
            RegisterReason::Taken {
                service: "echo".into(),
                owner: "the first".into(),
                signature: Signature::of::<String, usize>(),
            }
        );
        assert_eq!(
            refused.to_string(),
            "service `echo` is already registered by the first as `fn(alloc::string::String) -> usize`; \
             unregister that one first, or use another name"
        );
        first.unregister(Running::Finish).await;
        let again = services.register(&other, *refused.provider).unwrap();
        assert_eq!(services.call(&other, 7).await.unwrap(), 7);
        drop(again);
        // By default the owner is the source location.
        let placed = services.register(&ECHO, echo()).unwrap();
        assert!(services.status().services[0].owner.contains("calls.rs:"));
        drop(placed);
    });
}

/// SV-07: a name known only at run time is checked at run time, and the error names both signatures.
#[test]
fn a_name_that_is_looked_up_has_its_types_checked() {
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let missing = services.lookup::<String, usize>("echo").unwrap_err();
        assert_eq!(
            missing,
            Refusal::NotRegistered {
                service: "echo".into()
            }
        );
        let _echo = services.register(&ECHO, echo().owner("tests")).unwrap();
        let found = services.lookup::<String, usize>("echo").unwrap();
        assert_eq!(services.call(&found, "four".into()).await.unwrap(), 4);
        let wrong = services.lookup::<String, i64>("echo").unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "service `echo` is registered by tests as `fn(alloc::string::String) -> usize`, \
             but the call is for `fn(alloc::string::String) -> i64`"
        );
        // The same for a call without the check; the argument comes back.
        let blind: Service<Vec<u8>, usize> = Service::named("echo");
        let failure = services.call(&blind, vec![1, 2]).await.unwrap_err();
        assert!(matches!(
            failure.refusal(),
            Some(Refusal::WrongSignature { .. })
        ));
        assert_eq!(failure.argument, Some(vec![1, 2]));
        assert_eq!(services.status().unknown, 3);
    });
}

/// Trap 31: a panic fails its own call and nothing else, in any kind of function. FL-06.
#[test]
fn a_panic_fails_only_its_call() {
    limited(async || {
        static PLAIN: Service<bool, u8> = Service::new("plain");
        static BLOCKS: Service<bool, u8> = Service::new("blocks");
        static WAITS: Service<bool, u8> = Service::new("waits");
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        fn work(bad: bool) -> u8 {
            assert!(!bad, "no such luck");
            7
        }
        let _plain = services.register(&PLAIN, Provider::function(|_, bad| work(bad)));
        let _blocks = services.register(&BLOCKS, Provider::blocking(|_, bad| work(bad)));
        let _waits = services.register(
            &WAITS,
            Provider::future(|cx, bad| async move {
                cx.runtime().call(0, |_| ()).await.unwrap();
                work(bad)
            }),
        );
        for service in [&PLAIN, &BLOCKS, &WAITS] {
            let failure = services.call(service, true).await.unwrap_err();
            assert!(
                matches!(&failure.cause, CallCause::Panicked(text) if text == "no such luck"),
                "{failure}"
            );
            assert_eq!(services.call(service, false).await.unwrap(), 7);
        }
        for status in services.status().services {
            assert_eq!((status.done, status.failed, status.running), (1, 1, 0));
        }
    });
}

/// Trap 18: a wait never blocks a thread that runs a locality; a blocking section may wait. Trap 32.
#[test]
fn a_wait_where_a_locality_runs_is_an_error() {
    limited(async || {
        static PLAIN: Service<(), bool> = Service::new("plain");
        static BLOCKS: Service<(), usize> = Service::new("blocks");
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let _echo = services.register(&ECHO, echo()).unwrap();
        let _plain = services
            .register(
                &PLAIN,
                Provider::function(|cx, ()| {
                    let services = cx.runtime().services();
                    let failure = services.call(&ECHO, "four".into()).wait().unwrap_err();
                    assert_eq!(failure.argument.as_deref(), Some("four"));
                    matches!(failure.cause, CallCause::WouldBlock)
                }),
            )
            .unwrap();
        let _blocks = services
            .register(
                &BLOCKS,
                Provider::blocking(|cx, ()| {
                    let services = cx.runtime().services();
                    services.call(&ECHO, "four".into()).wait().unwrap()
                }),
            )
            .unwrap();
        assert!(services.call(&PLAIN, ()).await.unwrap());
        assert_eq!(services.call(&BLOCKS, ()).await.unwrap(), 4);
        let of = services.clone();
        let posted = runtime
            .call(0, move |_| of.call(&ECHO, "four".into()).wait())
            .await;
        assert!(matches!(
            posted.unwrap().unwrap_err().cause,
            CallCause::WouldBlock
        ));
    });
}

/// Trap 32: in a task of tokio, a thread that may block may wait any number of times. Tokio's limit of polls per task
/// does not apply.
#[test]
fn a_task_of_tokio_may_wait_often() {
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let _echo = services.register(&ECHO, echo()).unwrap();
        for _ in 0..500 {
            assert_eq!(services.call(&ECHO, "four".into()).wait().unwrap(), 4);
        }
    });
}

/// AO-02: a waiting call that is cancelled is never entered and returns its argument; a running call is told.
#[test]
fn a_cancel_takes_back_what_was_not_entered() {
    limited(async || {
        static SLOW: Service<u8, u8> = Service::new("slow");
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let _slow = services
            .register(
                &SLOW,
                Provider::future(|cx, n| async move {
                    cx.sleep(secs(3600)).await;
                    n
                })
                .key(|_| 0),
            )
            .unwrap();
        let runs = services.call(&SLOW, 1).start().unwrap();
        let waits = services.call(&SLOW, 2).start().unwrap();
        runtime.quiet().await;
        let status = &services.status().services[0];
        assert_eq!((status.running, status.waiting, status.callers), (1, 1, 2));
        waits.cancel();
        runs.cancel();
        for (calling, argument) in [(waits, Some(2)), (runs, None)] {
            let failure = calling.await.unwrap_err();
            assert!(matches!(
                failure.cause,
                CallCause::Cancelled(CancelledBy::Caller)
            ));
            assert_eq!(failure.argument, argument);
        }
        runtime.idle().await;
        assert_eq!(services.status().services[0].cancelled, 2);
    });
}

/// WK-10: a call is answered when its time has passed, on the runtime's clock, wherever it is. Trap 37: the remaining
/// time does not begin again when the function is entered.
#[test]
fn a_call_is_late_when_its_time_has_passed() {
    limited(async || {
        static SLOW: Service<u64, u64> = Service::new("slow");
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let services = runtime.services();
        let _slow = services
            .register(
                &SLOW,
                Provider::future(|cx, n| async move {
                    cx.sleep(secs(n)).await;
                    n
                })
                .key(|_| 0),
            )
            .unwrap();
        let in_time = services.call(&SLOW, 3).within(secs(4)).start().unwrap();
        let runs = services.call(&SLOW, 10).within(secs(5)).start().unwrap();
        let waits = services.call(&SLOW, 1).within(secs(4)).start().unwrap();
        for _ in 0..6 {
            runtime.quiet().await;
            clock.advance(secs(1));
        }
        assert_eq!(in_time.await.unwrap(), 3);
        let late = runs.await.unwrap_err();
        assert!(matches!(late.cause, CallCause::Late(time) if time == secs(5)));
        assert_eq!(late.argument, None);
        let late = waits.await.unwrap_err();
        assert!(matches!(late.cause, CallCause::Late(time) if time == secs(4)));
        assert_eq!(late.argument, Some(1));
        runtime.idle().await;
        let status = &services.status().services[0];
        assert_eq!((status.done, status.failed), (1, 2));
    });
}

/// AO-07: an answer is delivered in the locality in which the call was made, also when it was made in a callback.
#[test]
fn callbacks_run_in_the_locality_of_their_caller() {
    limited(async || {
        static WHERE: Service<(), usize> = Service::new("where");
        static FROM: Service<usize, ()> = Service::new("from");
        let runtime = many(3, &TestClock::new()).build().unwrap();
        let services = runtime.services();
        let _where = services
            .register(
                &WHERE,
                Provider::function(|cx, ()| cx.locality()).place(Placement::Locality(2)),
            )
            .unwrap();
        let (tell, told) = mpsc::channel();
        let here = || std::thread::current().name().unwrap().to_owned();
        let _from = services
            .register(
                &FROM,
                Provider::function(move |cx, at| {
                    assert_eq!(cx.locality(), at);
                    let services = cx.runtime().services();
                    let tell = tell.clone();
                    services.clone().call(&WHERE, ()).then(move |ran| {
                        let first = here();
                        services.call(&WHERE, ()).then(move |_| {
                            tell.send((ran.unwrap(), first, here())).unwrap();
                        });
                    });
                })
                .place(Placement::Locality(1)),
            )
            .unwrap();
        services.call(&FROM, 1).await.unwrap();
        let (ran, first, second) = told.recv().unwrap();
        assert_eq!(ran, 2);
        let own = runtime.call(1, move |_| here()).await.unwrap();
        assert_eq!((first, second), (own.clone(), own));
    });
}

/// AO-07: callbacks of one strand run in the order of their answers and never overlap, from any threads and services.
#[test]
fn callbacks_of_a_strand_never_overlap() {
    limited(async || {
        let runtime = many(3, &TestClock::new()).build().unwrap();
        let services = runtime.services();
        let _echo = services
            .register(&ECHO, echo().place(Placement::RoundRobin))
            .unwrap();
        let inside = Arc::new(AtomicUsize::new(0));
        let done = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (services, inside, done) = (services.clone(), inside.clone(), done.clone());
                std::thread::spawn(move || {
                    for _ in 0..200 {
                        let (inside, done) = (inside.clone(), done.clone());
                        services
                            .call(&ECHO, "four".into())
                            .strand("a strand")
                            .then(move |_| {
                                assert_eq!(inside.fetch_add(1, SeqCst), 0, "two at once");
                                std::thread::yield_now();
                                inside.fetch_sub(1, SeqCst);
                                done.fetch_add(1, SeqCst);
                            });
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        runtime.idle().await;
        runtime.quiet().await;
        assert_eq!(done.load(SeqCst), 800);
        assert_eq!(runtime.operations().incidents, []);
    });
}

/// KY-01: calls of one key run one after the other in order, and so do those of one strand, over services; others do
/// not wait.
#[test]
fn calls_of_one_key_or_strand_keep_their_order() {
    limited(async || {
        static KEYED: Service<(char, u32), ()> = Service::new("keyed");
        static ONE: Service<u32, ()> = Service::new("one");
        static OTHER: Service<u32, ()> = Service::new("other");
        let clock = TestClock::new();
        let runtime = many(2, &clock).build().unwrap();
        let services = runtime.services();
        let log = Log::default();
        let work = |name: &'static str| {
            let log = log.clone();
            move |cx: fom_patterns::service::CallCx, n: u32| {
                let log = log.clone();
                async move {
                    log.put(format_args!("{name} {n} begins"));
                    cx.sleep(secs(1)).await;
                    log.put(format_args!("{name} {n} ends"));
                }
            }
        };
        let of = work("keyed");
        let _keyed = services
            .register(
                &KEYED,
                Provider::future(move |cx, (_, n): (char, u32)| of(cx, n))
                    .key(|call: &(char, u32)| call.0.to_string()),
            )
            .unwrap();
        let _one = services.register(&ONE, Provider::future(work("one")).in_strand());
        let _other = services.register(&OTHER, Provider::future(work("other")).in_strand());
        for n in 0..3 {
            services.call(&KEYED, ('a', n)).detach().unwrap();
        }
        for _ in 0..4 {
            runtime.quiet().await;
            clock.advance(secs(1));
        }
        let in_order = |name: &[&str]| -> Vec<String> {
            let of = |(n, name): (usize, &&str)| {
                [format!("{name} {n} begins"), format!("{name} {n} ends")]
            };
            name.iter().enumerate().flat_map(of).collect()
        };
        assert_eq!(log.take(), in_order(&["keyed"; 3]));
        services.call(&ONE, 0).strand(7).detach().unwrap();
        services.call(&OTHER, 1).strand(7).detach().unwrap();
        services.call(&ONE, 2).strand(7).detach().unwrap();
        services.call(&ONE, 99).strand(8).detach().unwrap();
        runtime.quiet().await;
        let mut begun = log.take();
        begun.sort();
        assert_eq!(
            begun,
            ["one 0 begins", "one 99 begins"],
            "strands do not wait for each other"
        );
        for _ in 0..4 {
            clock.advance(secs(1));
            runtime.quiet().await;
        }
        let rest: Vec<_> = log
            .take()
            .into_iter()
            .filter(|line| !line.contains("99"))
            .collect();
        assert_eq!(rest, in_order(&["one", "other", "one"])[1..]);
    });
}

/// SV-07: an operation may stand behind a service: its fom is listed, and a cancel of the call ends it.
#[test]
fn calls_of_an_operation_are_foms() {
    struct Sum {
        of: Vec<u64>,
    }

    #[fom(operation(Sum), transient)]
    enum Adding {
        #[phase(start, to(Added), within = "10s")]
        Add,
        #[phase(end)]
        Added { sum: u64 },
    }

    impl AddingTransitions for Sum {
        async fn add(&mut self, cx: &mut Cx<'_>) -> Result<AddingAfterAdd, BoxError> {
            if self.of.is_empty() {
                cx.sleep(secs(3600)).await;
            }
            let sum = self.of.iter().sum();
            Ok(AddingAfterAdd::Added { sum })
        }
    }

    limited(async || {
        static SUM: Service<Vec<u64>, Result<u64, String>> = Service::new("sum");
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let services = runtime.services();
        let _sum = services
            .register(
                &SUM,
                Provider::operation(
                    |runtime, of| runtime.submit(Sum { of }),
                    |outcome| match outcome {
                        Ok(Ended {
                            end: AddingEnd::Added { sum },
                            ..
                        }) => Ok(sum),
                        Err(failure) => Err(failure.to_string()),
                    },
                ),
            )
            .unwrap();
        assert_eq!(services.call(&SUM, vec![1, 2, 3]).await.unwrap(), Ok(6));
        let late = services.call(&SUM, vec![]).start().unwrap();
        runtime.quiet().await;
        clock.advance(secs(10));
        assert_eq!(
            late.await.unwrap(),
            Err("Sum failed in phase `Add`: the deadline of `Add` passed".into())
        );
        let cancelled = services.call(&SUM, vec![]).start().unwrap();
        runtime.quiet().await;
        let listed = runtime.operations().foms;
        let names: Vec<_> = listed.iter().map(|fom| fom.operation).collect();
        assert_eq!(names, ["ServiceCall", "Sum"]);
        cancelled.cancel();
        assert!(cancelled.await.is_err());
        runtime.idle().await;
    });
}

/// KY-05: as many calls wait as the runtime has room for; one more is refused with its argument, and leaves nothing.
#[test]
fn a_full_runtime_refuses_calls() {
    limited(async || {
        let runtime = one(&TestClock::new()).capacity(2).build().unwrap();
        let services = runtime.services();
        let _echo = services.register(&ECHO, echo()).unwrap();
        let gate = Gate::close(&runtime, 0);
        let first = services.call(&ECHO, "1".into()).start().unwrap();
        let second = services.call(&ECHO, "22".into()).start().unwrap();
        let refused = services.call(&ECHO, "333".into()).start().unwrap_err();
        assert!(matches!(refused.refusal(), Some(Refusal::NoRoom { .. })));
        assert_eq!(refused.argument.as_deref(), Some("333"));
        let status = &services.status().services[0];
        assert_eq!((status.waiting, status.refused), (2, 1));
        gate.open();
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (1, 2));
    });
}
