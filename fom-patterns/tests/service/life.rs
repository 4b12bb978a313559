//! The life cycle of services: what each state admits, starts and stops by level, and draining.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

use fom_patterns::service::{
    Admits, CallFailure, DomainState, LifeError, Provider, Refusal, Registration, Service,
    ServiceState, Services, ServicesExt, ServicesStatus,
};
use fom_runtime::{Runtime, config::Shutdown, error::BoxError, time::TestClock};
use tokio::sync::Notify;

use crate::kit::{self, Gate, Log, limited, many, one, secs};

static ECHO: Service<u32, u32> = Service::new("echo");
static MISSING: Service<u32, u32> = Service::new("missing");
static OTHER_TYPES: Service<u64, u64> = Service::new("echo");

/// SV-01: the table, cell by cell, as Motr has it. There, by columns: STARTING, STARTED, STOPPING, and all others.
#[test]
fn the_table_is_that_of_motr() {
    use Admits::{Admit, Ask, Refuse, Retry};
    use DomainState::{Drain, Init, Normal, Stopped, Stopping};
    let table = [
        (Init, [Retry, Retry, Retry, Retry]),
        (Normal, [Retry, Admit, Ask, Refuse]),
        (Drain, [Refuse, Ask, Ask, Refuse]),
        (Stopping, [Refuse, Refuse, Refuse, Refuse]),
        (Stopped, [Refuse, Refuse, Refuse, Refuse]),
    ];
    assert_eq!(table.map(|row| row.0), DomainState::ALL);
    for (domain, [starting, started, stopping, other]) in table {
        for state in ServiceState::ALL {
            let expected = match state {
                ServiceState::Starting => starting,
                ServiceState::Started => started,
                ServiceState::Stopping => stopping,
                ServiceState::Registered | ServiceState::Stopped | ServiceState::Failed => other,
            };
            assert_eq!(domain.admits(state), expected, "{domain} x {state}");
        }
    }
}

/// Services. One of them is brought into a given state and held there.
struct Bench {
    runtime: Runtime,
    services: Services,
    echo: Registration,
    /// The start and the stop of the service wait for these.
    start: Arc<Notify>,
    stop: Arc<Notify>,
    /// A running call, which holds up the stop of its service.
    release: Arc<Notify>,
    asked: Arc<AtomicUsize>,
    accepts: Arc<AtomicBool>,
}

/// The argument of the held call.
const HOLD: u32 = u32::MAX;

impl Bench {
    fn new() -> Self {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let services = runtime.services();
        let [start, stop, release] = std::array::from_fn(|_| Arc::new(Notify::new()));
        let asked = Arc::new(AtomicUsize::new(0));
        let accepts = Arc::new(AtomicBool::new(false));
        let of = Arc::clone(&release);
        let (count, says) = (Arc::clone(&asked), Arc::clone(&accepts));
        let (starts, stops) = (Arc::clone(&start), Arc::clone(&stop));
        let provider = Provider::future(move |_, n: u32| {
            let of = Arc::clone(&of);
            async move {
                if n == HOLD {
                    of.notified().await;
                }
                n
            }
        })
        .owner("tests")
        .accepts(move |_, _| {
            count.fetch_add(1, SeqCst);
            says.load(SeqCst)
        })
        .on_start(move |_| {
            let starts = Arc::clone(&starts);
            async move {
                starts.notified().await;
                Ok::<_, BoxError>(())
            }
        })
        .on_stop(move |_| {
            let stops = Arc::clone(&stops);
            async move {
                stops.notified().await;
                Ok::<_, BoxError>(())
            }
        });
        let echo = services.register(&ECHO, provider).unwrap();
        Self {
            runtime,
            services,
            echo,
            start,
            stop,
            release,
            asked,
            accepts,
        }
    }

    /// Starts a call that runs until it is released.
    async fn held(&self) {
        self.services.call(&ECHO, HOLD).detach().unwrap();
        self.runtime.quiet().await;
    }

    /// Returns the result of a call, made twice: the second must end like the first.
    async fn try_call(&self) -> Result<u32, Refusal> {
        let mut seen: Vec<Result<u32, Refusal>> = Vec::new();
        for _ in 0..2 {
            seen.push(self.services.call(&ECHO, 7).await.map_err(|failure| {
                assert_eq!(failure.argument, Some(7), "{failure}");
                failure.refusal().expect("refused").clone()
            }));
        }
        assert_eq!(seen[0], seen[1]);
        // A missing service, or one with other types, is refused alike in every state.
        let missing = self.services.call(&MISSING, 7).await.unwrap_err();
        assert!(matches!(
            missing.refusal(),
            Some(Refusal::NotRegistered { .. })
        ));
        let wrong = self.services.call(&OTHER_TYPES, 7).await.unwrap_err();
        assert!(matches!(
            wrong.refusal(),
            Some(Refusal::WrongSignature { .. })
        ));
        seen.pop().unwrap()
    }

    fn retry(&self, domain: DomainState, state: ServiceState) -> Refusal {
        assert_eq!((self.services.domain(), self.echo.state()), (domain, state));
        let service = "echo".into();
        Refusal::Retry {
            service,
            state,
            domain,
        }
    }

    fn not_serving(&self, domain: DomainState, state: ServiceState) -> Refusal {
        assert_eq!((self.services.domain(), self.echo.state()), (domain, state));
        let service = "echo".into();
        Refusal::NotServing {
            service,
            state,
            domain,
        }
    }

    /// Checks a cell in which the service is asked, once for each call, and its answer holds.
    async fn asks(&self, domain: DomainState, state: ServiceState) {
        let refusal = self.not_serving(domain, state);
        assert_eq!(self.asked.swap(0, SeqCst), 0, "asked in another cell");
        assert_eq!(self.try_call().await, Err(refusal));
        self.accepts.store(true, SeqCst);
        assert_eq!(self.try_call().await, Ok(7));
        self.accepts.store(false, SeqCst);
        assert_eq!(self.asked.swap(0, SeqCst), 4);
    }
}

/// SV-01, SV-02, SV-03: calls in the cells of the table, with the reasons that are given. A refused call leaves
/// nothing, and a second one is refused like the first. The service is asked in the cells of the table and in no other.
#[test]
fn calls_are_admitted_as_the_table_says() {
    use DomainState::{Drain, Init, Normal, Stopped, Stopping};
    use ServiceState as S;
    limited(async || {
        let bench = Bench::new();
        let refused = |refusal| Err(refusal);
        // Normal: not started, starting, started, stopping, stopped.
        let expected = bench.not_serving(Normal, S::Registered);
        assert_eq!(bench.try_call().await, refused(expected));
        let (services, runtime) = (bench.services.clone(), &bench.runtime);
        {
            let mut starts = std::pin::pin!(bench.echo.start());
            assert!(kit::poll_once(starts.as_mut()).await.is_pending());
            runtime.quiet().await;
            let expected = bench.retry(Normal, S::Starting);
            assert_eq!(bench.try_call().await, refused(expected));
            bench.start.notify_one();
            starts.await.unwrap();
        }
        assert_eq!(bench.echo.state(), S::Started);
        assert_eq!(bench.try_call().await, Ok(7));
        bench.held().await;
        {
            let mut stops = std::pin::pin!(bench.echo.stop());
            assert!(kit::poll_once(stops.as_mut()).await.is_pending());
            runtime.quiet().await;
            bench.asks(Normal, S::Stopping).await;
            bench.release.notify_one();
            bench.stop.notify_one();
            stops.await.unwrap();
        }
        let expected = bench.not_serving(Normal, S::Stopped);
        assert_eq!(bench.try_call().await, refused(expected));
        // Init, while all are started.
        {
            let mut starts = std::pin::pin!(services.start_all());
            assert!(kit::poll_once(starts.as_mut()).await.is_pending());
            runtime.quiet().await;
            let expected = bench.retry(Init, S::Starting);
            assert_eq!(bench.try_call().await, refused(expected));
            bench.start.notify_one();
            starts.await.unwrap();
        }
        assert_eq!(services.domain(), Normal);
        // Drain, while a call runs; then Stopping, while its stop runs; then Stopped.
        bench.held().await;
        {
            let mut stops = std::pin::pin!(services.stop_all());
            assert!(kit::poll_once(stops.as_mut()).await.is_pending());
            runtime.quiet().await;
            bench.asks(Drain, S::Stopping).await;
            bench.release.notify_one();
            runtime.quiet().await;
            let expected = bench.not_serving(Stopping, S::Stopping);
            assert_eq!(bench.try_call().await, refused(expected));
            bench.stop.notify_one();
            stops.await.unwrap();
        }
        let expected = bench.not_serving(Stopped, S::Stopped);
        assert_eq!(bench.try_call().await, refused(expected));
        assert_eq!(bench.asked.load(SeqCst), 0);
        // Nothing is left of the refused calls.
        let status = &services.status().services[0];
        assert_eq!((status.waiting, status.running), (0, 0));
        runtime.idle().await;
        // All can be started again.
        bench.start.notify_one();
        services.start_all().await.unwrap();
        assert_eq!(bench.try_call().await, Ok(7));
    });
}

/// SV-01: services of a lower level are still STARTED while the levels above drain: in that cell they are asked. SV-03:
/// a service without an answer refuses, and so does one that panics.
#[test]
fn a_lower_level_serves_the_upper_one_to_its_end() {
    limited(async || {
        static UPPER: Service<(), Vec<Result<u32, bool>>> = Service::new("upper");
        static LOWER: Service<u32, u32> = Service::new("lower");
        static SILENT: Service<u32, u32> = Service::new("silent");
        static PANICS: Service<u32, u32> = Service::new("panics");
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let services = runtime.services();
        let same = || Provider::function(|_, n: u32| n);
        let _lower = services.register(
            &LOWER,
            same().accepts(|n, domain| *n == 1 && domain == DomainState::Drain),
        );
        let _silent = services.register(&SILENT, same());
        let _panics = services.register(&PANICS, same().accepts(|_, _| panic!("no idea")));
        let go = Arc::new(Notify::new());
        let of = Arc::clone(&go);
        let _upper = services.register(
            &UPPER,
            Provider::future(move |cx, ()| {
                let of = Arc::clone(&of);
                async move {
                    of.notified().await;
                    let services = cx.runtime().services();
                    let mut seen = Vec::new();
                    for (service, n) in [(&LOWER, 1), (&LOWER, 2), (&SILENT, 1), (&PANICS, 1)] {
                        let answer = services.call(service, n).await;
                        let started = |failure: CallFailure<u32>| {
                            let state = ServiceState::Started;
                            matches!(failure.refusal(), Some(Refusal::NotServing { state: s, .. }) if *s == state)
                        };
                        seen.push(answer.map_err(started));
                    }
                    seen
                }
            })
            .level(1),
        );
        let upper = services.call(&UPPER, ()).start().unwrap();
        runtime.quiet().await;
        let mut stops = std::pin::pin!(services.stop_all());
        assert!(kit::poll_once(stops.as_mut()).await.is_pending());
        runtime.quiet().await;
        go.notify_one();
        assert_eq!(
            upper.await.unwrap(),
            [Ok(1), Err(true), Err(true), Err(true)]
        );
        stops.await.unwrap();
    });
}

/// SV-01: a service for the start of others takes calls while all are started, whatever its own state.
#[test]
fn a_bootstrap_service_serves_starts() {
    limited(async || {
        static CONFIG: Service<u32, u32> = Service::new("config");
        static NEEDS: Service<(), u32> = Service::new("needs");
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let got = Arc::new(AtomicUsize::new(0));
        let (of, seen) = (services.clone(), Arc::clone(&got));
        let _needs = services.register(
            &NEEDS,
            Provider::function(|_, ()| 1).on_start(move |_| {
                let (of, seen) = (of.clone(), Arc::clone(&seen));
                async move {
                    let refused = of.call(&ECHO, 1).await.unwrap_err();
                    assert!(matches!(refused.refusal(), Some(Refusal::Retry { .. })));
                    let config = of.call(&CONFIG, 20).await.map_err(|e| e.to_string())?;
                    seen.store(config as usize, SeqCst);
                    Ok::<_, BoxError>(())
                }
            }),
        );
        let config = services
            .register(
                &CONFIG,
                Provider::function(|_, n: u32| 2 * n)
                    .bootstrap()
                    .on_start(|_| async { Ok::<_, BoxError>(()) }),
            )
            .unwrap();
        let _echo = services.register(&ECHO, Provider::function(|_, n| n));
        assert_eq!(config.state(), ServiceState::Registered);
        services.start_all().await.unwrap();
        assert_eq!(got.load(SeqCst), 40);
        assert_eq!(config.state(), ServiceState::Started);
    });
}

/// A service that logs its start and its stop.
fn logged(log: &Log, name: &'static str, level: u32, fails: bool) -> Provider<u32, u32> {
    let (started, stopped) = (log.clone(), log.clone());
    Provider::function(|_, n: u32| n)
        .level(level)
        .on_start(move |cx| {
            let log = started.clone();
            async move {
                // A start may wait.
                cx.runtime().call(0, |_| ()).await.unwrap();
                log.put(format_args!("{name} starts"));
                if fails { Err("no disk") } else { Ok(()) }
            }
        })
        .on_stop(move |_| {
            stopped.put(format_args!("{name} stops"));
            async { Ok::<_, BoxError>(()) }
        })
}

/// SV-06: services are started by level, within a level in the order of registration, and stopped in reverse order.
#[test]
fn starts_go_by_level_and_stops_the_other_way() {
    limited(async || {
        static NAMES: [&str; 4] = ["store", "cache", "api", "log"];
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let services = runtime.services();
        let log = Log::default();
        let levels = [1, 1, 2, 0];
        let _all: Vec<_> = (0..4)
            .map(|n| {
                let service = Service::named(NAMES[n]);
                services
                    .register(&service, logged(&log, NAMES[n], levels[n], false))
                    .unwrap()
            })
            .collect();
        services.start_all().await.unwrap();
        assert_eq!(
            log.take(),
            ["log starts", "store starts", "cache starts", "api starts"]
        );
        services.start_all().await.unwrap();
        assert_eq!(log.take(), [""; 0], "all are started already");
        services.stop_all().await.unwrap();
        assert_eq!(
            log.take(),
            ["api stops", "cache stops", "store stops", "log stops"]
        );
    });
}

/// SV-06: the error names the service that failed to start, and the reason. The services started before are stopped
/// again in reverse order, and the others are never started.
#[test]
fn a_start_that_fails_rolls_back() {
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let log = Log::default();
        let register = |name: &'static str, level, fails| {
            services
                .register(&Service::named(name), logged(&log, name, level, fails))
                .unwrap()
        };
        let all = [
            register("a", 0, false),
            register("b", 0, false),
            register("c", 1, true),
            register("d", 2, false),
        ];
        assert_eq!(
            services.start_all().await,
            Err(LifeError::Failed {
                service: "c".into(),
                reason: "no disk".into()
            })
        );
        assert_eq!(
            log.take(),
            ["a starts", "b starts", "c starts", "b stops", "a stops"]
        );
        use ServiceState as S;
        assert_eq!(
            all.each_ref().map(Registration::state),
            [S::Stopped, S::Stopped, S::Failed, S::Registered]
        );
        let status = services.status();
        assert_eq!(status.domain, DomainState::Init);
        assert_eq!(status.services[2].reason.as_deref(), Some("no disk"));
        let panics = services.register(
            &Service::named("e"),
            logged(&log, "e", 0, false).on_start(|_| async {
                if true {
                    panic!("worse");
                }
                Ok::<_, BoxError>(())
            }),
        );
        let failed = panics.unwrap().start().await.unwrap_err();
        assert_eq!(
            failed.to_string(),
            "service `e` could not be started: it panicked: worse"
        );
    });
}

/// SV-06: while a caller starts or stops all services, no other caller can start or stop them. The work continues even
/// if no caller waits for it any more.
#[test]
fn one_start_at_a_time_and_it_goes_on_alone() {
    limited(async || {
        let bench = Bench::new();
        let services = &bench.services;
        {
            let mut starts = Box::pin(services.start_all());
            assert!(kit::poll_once(starts.as_mut()).await.is_pending());
            assert_eq!(services.start_all().await, Err(LifeError::Busy));
            assert_eq!(services.stop_all().await, Err(LifeError::Busy));
        }
        bench.start.notify_one();
        services.wait_for(&ECHO).await.unwrap();
        bench.runtime.quiet().await;
        assert_eq!(services.domain(), DomainState::Normal);
    });
}

/// SV-04: calls that are admitted but not begun are counted: a stop waits for them, and later calls fail cleanly.
/// SV-05.
#[test]
fn a_stop_waits_for_what_is_queued() {
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let echo = services
            .register(&ECHO, Provider::function(|_, n| n))
            .unwrap();
        let gate = Gate::close(&runtime, 0);
        let queued = services.call(&ECHO, 1).start().unwrap();
        let mut idle = Box::pin(echo.idle());
        assert!(kit::poll_once(idle.as_mut()).await.is_pending());
        let stop = {
            let services = services.clone();
            tokio::spawn(async move { services.stop_all().await })
        };
        gate.open();
        stop.await.unwrap().unwrap();
        assert_eq!(queued.await.unwrap(), 1);
        idle.await;
        let late = services.call(&ECHO, 2).await.unwrap_err();
        assert!(matches!(late.refusal(), Some(Refusal::NotServing { .. })));
        let status = &services.status().services[0];
        assert_eq!((status.done, status.refused, status.waiting), (1, 1, 0));
    });
}

/// SV-04, under load: calls from many threads meet a stop. Each is answered, an admitted call with its result, and
/// nothing runs when the stop is over.
#[test]
fn calls_meet_a_stop() {
    limited(async || {
        for round in 0..20 {
            let runtime = many(2, &TestClock::new()).build().unwrap();
            let services = runtime.services();
            let inside = Arc::new(AtomicUsize::new(0));
            let of = Arc::clone(&inside);
            let _echo = services
                .register(
                    &ECHO,
                    Provider::future(move |cx, n| {
                        let of = Arc::clone(&of);
                        async move {
                            of.fetch_add(1, SeqCst);
                            cx.runtime().call(0, |_| ()).await.unwrap();
                            of.fetch_sub(1, SeqCst);
                            n
                        }
                    }),
                )
                .unwrap();
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let services = services.clone();
                    std::thread::spawn(move || {
                        let mut done = 0;
                        loop {
                            match services.call(&ECHO, 7).wait() {
                                Ok(_) => done += 1,
                                Err(failure) => {
                                    assert!(failure.refusal().is_some(), "{failure}");
                                    return done;
                                }
                            }
                        }
                    })
                })
                .collect();
            // Each round stops a little later.
            while services.status().services[0].done < 10 * round {
                std::thread::yield_now();
            }
            services.stop_all().await.unwrap();
            assert_eq!(inside.load(SeqCst), 0);
            let done: u64 = threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum();
            assert_eq!(services.status().services[0].done, done);
        }
    });
}

/// SV-09: a draining runtime stops its services first, the highest level first; their queued calls run. Trap 36.
#[test]
fn a_drain_of_the_runtime_stops_services() {
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let log = Log::default();
        let _low = services.register(&Service::named("low"), logged(&log, "low", 0, false));
        let _high = services.register(&Service::named("high"), logged(&log, "high", 1, false));
        services.start_all().await.unwrap();
        log.take();
        let gate = Gate::close(&runtime, 0);
        let queued = services.call(&services.lookup::<u32, u32>("low").unwrap(), 5);
        let queued = queued.start().unwrap();
        let ends = runtime.clone();
        let report = tokio::spawn(async move { ends.shutdown(Shutdown::Drain, secs(20)).await });
        gate.open();
        assert_eq!(report.await.unwrap().remained.len(), 0);
        assert_eq!(queued.await.unwrap(), 5);
        assert_eq!(log.take(), ["high stops", "low stops"]);
        assert_eq!(services.domain(), DomainState::Stopped);
    });
}

/// SV-11: the status is a value that can be shown, written, sent and read, and counts how the calls ended.
#[test]
fn the_status_is_shown_and_sent() {
    limited(async || {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let services = runtime.services();
        let _echo = services.register(
            &ECHO,
            Provider::future(|cx, n: u32| async move {
                assert!(n != 13, "bad luck");
                cx.sleep(secs(n.into())).await;
                n
            })
            .owner("tests")
            .key(|_: &u32| 0),
        );
        let (runs, waits) = (services.call(&ECHO, 60), services.call(&ECHO, 60));
        services.call(&ECHO, 0).await.unwrap();
        services.call(&ECHO, 13).await.unwrap_err();
        services.call(&MISSING, 1).await.unwrap_err();
        let runs = runs.start().unwrap();
        waits.detach().unwrap();
        runtime.quiet().await;
        clock.advance(secs(5));
        let status = services.status();
        let json = serde_json::to_string(&status).unwrap();
        assert_eq!(
            serde_json::from_str::<ServicesStatus>(&json).unwrap(),
            status
        );
        assert!(json.contains(r#""domain":"Normal""#), "{json}");
        let lines: Vec<String> = status.to_string().lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "the services are in normal");
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>().join(" "),
            "echo started 5.0s 1 1 1 1 1 0 0 fn(u32) -> u32, tests"
        );
        assert_eq!(
            lines[3],
            "1 calls to services that do not exist, or have other types"
        );
        runs.cancel();
    });
}
