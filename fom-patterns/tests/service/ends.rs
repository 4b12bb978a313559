//! Services at the end of a runtime. Whatever their starts, stops and calls do, the end of the runtime leaves all of
//! them stopped and every waiting caller with an answer. The report names the unfinished stops.

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

use fom_patterns::service::{
    CallCause, CallFailure, DomainState, Happened, LifeError, Provider, Registration, Running,
    Service, ServiceState, Services, ServicesExt, Subscription,
};
use fom_runtime::{Runtime, config::Shutdown, error::BoxError, time::TestClock};

use crate::kit::{self, Log, hush_localities, limited, many, one, secs};

static ECHO: Service<u32, u32> = Service::new("echo");
static MISSING: Service<u32, u32> = Service::new("missing");

/// Enough time for a stop that ends. A stop that hangs costs little with it.
const SHORT: Duration = Duration::from_millis(50);

fn echo() -> Provider<u32, u32> {
    Provider::function(|_, n| n)
}

/// Reports its begin, and never ends.
fn hangs(entered: &mpsc::Sender<()>) -> impl Future<Output = Result<(), BoxError>> + use<> {
    entered.send(()).unwrap();
    pending()
}

fn stop_hangs(provider: Provider<u32, u32>) -> (Provider<u32, u32>, mpsc::Receiver<()>) {
    let (enter, entered) = mpsc::channel();
    (provider.on_stop(move |_| hangs(&enter)), entered)
}

/// Asserts that everything is stopped.
fn assert_stopped(services: &Services) {
    let status = services.status();
    assert_eq!(status.domain, DomainState::Stopped);
    for service in &status.services {
        assert_eq!(service.state, ServiceState::Stopped, "{status}");
    }
}

/// The remaining events of a subscription.
async fn rest(mut subscription: Subscription) -> Vec<Happened> {
    let mut heard = Vec::new();
    while let Some(event) = subscription.next().await {
        heard.push(event.happened);
    }
    heard
}

/// The unfinished stops that a shutdown reports: the service, and whether its stop began.
async fn unfinished(runtime: &Runtime, how: Shutdown, within: Duration) -> Vec<(String, bool)> {
    let report = runtime.shutdown(how, within).await;
    let stops = report.unfinished_stops.into_iter();
    stops.map(|stop| (stop.name, stop.begun)).collect()
}

fn named(stops: &[(&str, bool)]) -> Vec<(String, bool)> {
    let stops = stops.iter();
    stops
        .map(|(service, begun)| ((*service).to_owned(), *begun))
        .collect()
}

/// SV-09: a stop that hangs ends with the runtime. A caller that waits for the end of the service gets it, and the
/// report names the stop.
#[test]
fn a_stop_that_hangs_is_named_and_its_service_is_stopped() {
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let (provider, _entered) = stop_hangs(echo());
        let hangs = services.register(&ECHO, provider.owner("tests")).unwrap();
        let other = services
            .register(&Service::<u32, u32>::new("other"), echo().level(1))
            .unwrap();
        let heard = services.subscribe("echo");
        let mut waits = Box::pin(services.stop_all());
        assert!(kit::poll_once(waits.as_mut()).await.is_pending());
        let report = runtime.shutdown(Shutdown::Drain, SHORT).await;
        let said: Vec<_> = report.unfinished_stops.iter().collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(
            said[0].to_string(),
            "the stop of service `echo` of tests did not come to its end"
        );
        assert_eq!([hangs.state(), other.state()], [ServiceState::Stopped; 2]);
        assert_stopped(&services);
        let stopped = [Happened::Registered, Happened::Started, Happened::Stopped];
        assert_eq!(rest(heard).await, stopped);
        assert_eq!(waits.await, Err(LifeError::ShuttingDown));
        assert_eq!(
            services.status().services[0].reason.as_deref(),
            Some("its stop did not finish")
        );
        // The service does not start again.
        assert_eq!(hangs.start().await, Err(LifeError::ShuttingDown));
        drop((hangs, other));
        assert_stopped(&services);
    });
}

/// SV-09: the runtime leaves a stop behind that blocks its thread. Its late return changes nothing, and no further stop
/// runs.
#[test]
fn a_stop_that_blocks_comes_back_to_a_runtime_that_has_ended() {
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let log = Log::default();
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let (stops, dropped) = (log.clone(), mpsc::channel::<()>());
        let (held, gone) = dropped;
        let _blocks = services
            .register(
                &ECHO,
                echo().level(1).on_stop(move |_| {
                    let _held = held.clone();
                    // The drop of the sender releases it, too.
                    let _ = released.lock().unwrap().recv();
                    stops.put("echo");
                    async { Ok::<_, BoxError>(()) }
                }),
            )
            .unwrap();
        let stops = log.clone();
        let low = echo().on_stop(move |_| {
            stops.put("low");
            async { Ok::<_, BoxError>(()) }
        });
        let _low = services
            .register(&Service::<u32, u32>::new("low"), low)
            .unwrap();
        let said = unfinished(&runtime, Shutdown::Drain, SHORT).await;
        assert_eq!(said, named(&[("echo", true), ("low", false)]));
        assert_stopped(&services);
        release.send(()).unwrap();
        // The runtime drops the function after its late return.
        assert!(gone.recv().is_err());
        while runtime.in_flight() > 0 {
            std::thread::yield_now();
        }
        assert_stopped(&services);
        assert_eq!(log.take(), ["echo"]);
    });
}

/// SV-09: a start that hangs ends with the runtime, too. The report names the services that started before it.
#[test]
fn a_start_that_hangs_ends_with_the_runtime() {
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let (enter, entered) = mpsc::channel();
        let _first = services.register(&ECHO, stop_hangs(echo()).0).unwrap();
        let starts = echo().level(1).on_start(move |_| hangs(&enter));
        let starts = services
            .register(&Service::<u32, u32>::new("starts"), starts)
            .unwrap();
        let never = echo()
            .level(2)
            .on_start(|_| async { Ok::<_, BoxError>(()) });
        let never = services
            .register(&Service::<u32, u32>::new("never"), never)
            .unwrap();
        let waits = tokio::spawn({
            let services = services.clone();
            async move { services.start_all().await }
        });
        runtime.quiet().await;
        tokio::task::yield_now().await;
        while entered.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        let said = unfinished(&runtime, Shutdown::Drain, SHORT).await;
        assert_eq!(said, named(&[("echo", false)]));
        assert_stopped(&services);
        assert_eq!(waits.await.unwrap(), Err(LifeError::ShuttingDown));
        assert_eq!([starts.state(), never.state()], [ServiceState::Stopped; 2]);
    });
}

/// SV-09: a start that blocks its thread returns after the end of the runtime, and starts nothing.
#[test]
fn a_start_that_blocks_starts_nothing_after_the_end() {
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let (release, released) = mpsc::channel::<()>();
        let (enter, entered) = mpsc::channel();
        let released = Mutex::new(released);
        let blocks = echo().on_start(move |_| {
            enter.send(()).unwrap();
            // The drop of the sender releases it, too.
            let _ = released.lock().unwrap().recv();
            async { Ok::<_, BoxError>(()) }
        });
        let first = services.register(&ECHO, blocks).unwrap();
        let second = echo().on_start(|_| async { Ok::<_, BoxError>(()) });
        let second = services
            .register(&Service::<u32, u32>::new("second"), second)
            .unwrap();
        let waits = tokio::spawn({
            let services = services.clone();
            async move { services.start_all().await }
        });
        while entered.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        assert_eq!(unfinished(&runtime, Shutdown::Now, secs(0)).await, []);
        assert_stopped(&services);
        release.send(()).unwrap();
        while runtime.in_flight() > 0 {
            std::thread::yield_now();
        }
        assert_stopped(&services);
        assert_eq!([first.state(), second.state()], [ServiceState::Stopped; 2]);
        drop(waits.await);
    });
}

/// A future with a destructor that panics.
struct PanicsWhenDropped;

impl Future for PanicsWhenDropped {
    type Output = Result<(), BoxError>;

    fn poll(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::task::Poll::Ready(Ok(()))
    }
}

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("it cannot be dropped");
    }
}

/// SV-09: a stop may panic when it runs or when it is dropped. The other services run their stops nevertheless.
#[test]
fn a_stop_that_panics_keeps_no_other_from_its_stop() {
    hush_localities();
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let register = |name: &'static str, provider| {
            let service = Service::<u32, u32>::new(name);
            services.register(&service, provider).unwrap()
        };
        let log = Log::default();
        let stops = log.clone();
        let _all = [
            register(
                "last",
                echo().on_stop(move |_| {
                    stops.put("last");
                    async { Ok::<_, BoxError>(()) }
                }),
            ),
            register("dropped", echo().level(1).on_stop(|_| PanicsWhenDropped)),
            register(
                "made",
                echo()
                    .level(2)
                    .on_stop(|_| -> PanicsWhenDropped { panic!("no stop") }),
            ),
        ];
        assert_eq!(unfinished(&runtime, Shutdown::Drain, secs(20)).await, []);
        assert_stopped(&services);
        assert_eq!(log.take(), ["last"]);
    });
}

/// SV-09: calls that do not end delay the stop of their service too long. The stop does not run, and a caller that
/// waits for the calls continues.
#[test]
fn calls_that_hang_end_with_the_runtime() {
    limited(async || {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let services = runtime.services();
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let (enter, entered) = mpsc::channel();
        let blocks = Provider::blocking(move |_, n| {
            enter.send(()).unwrap();
            // The drop of the sender releases it, too.
            let _ = released.lock().unwrap().recv();
            n
        });
        let (blocks, _entered) = stop_hangs(blocks);
        let echo = services.register(&ECHO, blocks).unwrap();
        let call = services.call(&ECHO, 1).start().unwrap();
        entered.recv().unwrap();
        let mut idle = Box::pin(echo.idle());
        assert!(kit::poll_once(idle.as_mut()).await.is_pending());
        let said = unfinished(&runtime, Shutdown::Drain, SHORT).await;
        assert_eq!(said, named(&[("echo", false)]));
        assert_stopped(&services);
        idle.await;
        let cause = call.await.unwrap_err().cause;
        assert!(matches!(cause, CallCause::Shutdown));
        release.send(()).unwrap();
    });
}

/// SV-09: the owner drops its registration while the stop hangs. The report names the stop nevertheless, and a pending
/// unregistration returns.
#[test]
fn a_registration_that_is_dropped_hides_no_stop_that_hangs() {
    limited(async || {
        for waits in [false, true] {
            let runtime = one(&TestClock::new()).build().unwrap();
            let services = runtime.services();
            let (provider, entered) = stop_hangs(echo());
            let echo: Registration = services.register(&ECHO, provider).unwrap();
            let mut stop = Box::pin(echo.stop());
            assert!(kit::poll_once(stop.as_mut()).await.is_pending());
            while entered.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
            drop(stop);
            let unregistered = if waits {
                Some(tokio::spawn(echo.unregister(Running::Finish)))
            } else {
                drop(echo);
                None
            };
            tokio::task::yield_now().await;
            let said = unfinished(&runtime, Shutdown::Drain, SHORT).await;
            assert_eq!(said, named(&[("echo", true)]));
            assert_stopped(&services);
            if let Some(unregistered) = unregistered {
                unregistered.await.unwrap();
            }
        }
    });
}

/// SV-09: `Shutdown::Now` runs no stop, and reports that. A dropped runtime has no caller to report to. Both leave all
/// services stopped.
#[test]
fn an_end_at_once_stops_all_without_their_stops() {
    limited(async || {
        for dropped in [false, true] {
            let runtime = one(&TestClock::new()).build().unwrap();
            let services = runtime.services();
            let (provider, entered) = stop_hangs(echo());
            let _started = services.register(&ECHO, provider).unwrap();
            let waits = echo().on_start(|_| async { Ok::<_, BoxError>(()) });
            let _registered = services
                .register(&Service::<u32, u32>::new("registered"), waits)
                .unwrap();
            let fails = echo().on_start(|_| async { Err::<(), _>("no disk") });
            let failed = services
                .register(&Service::<u32, u32>::new("failed"), fails)
                .unwrap();
            failed.start().await.unwrap_err();
            let heard = services.subscribe("echo");
            if dropped {
                drop(runtime);
            } else {
                let said = unfinished(&runtime, Shutdown::Now, secs(20)).await;
                assert_eq!(said, named(&[("echo", false)]));
            }
            assert_stopped(&services);
            let reason = services.status().services[2].reason.clone();
            assert_eq!(reason.as_deref(), Some("no disk"), "why it failed stays");
            let stopped = [Happened::Registered, Happened::Started, Happened::Stopped];
            assert_eq!(rest(heard).await, stopped);
            assert!(entered.try_recv().is_err(), "its stop was run");
        }
    });
}

/// SV-09: a callback that watches a service gets its end, too.
#[test]
fn a_callback_hears_of_the_end() {
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let (provider, _entered) = stop_hangs(echo());
        let _echo = services.register(&ECHO, provider).unwrap();
        let (tell, told) = mpsc::channel();
        let _watching = services
            .subscribe_in(0, "echo", move |_, event| {
                tell.send(event.happened).unwrap()
            })
            .unwrap();
        unfinished(&runtime, Shutdown::Drain, SHORT).await;
        let heard: Vec<_> = (0..3).map(|_| told.recv().unwrap()).collect();
        assert_eq!(
            heard,
            [Happened::Registered, Happened::Started, Happened::Stopped]
        );
    });
}

/// SV-09: a full runtime stops its services nevertheless. The foms that fill it may wait for just that.
#[test]
fn a_full_runtime_stops_its_services() {
    limited(async || {
        let runtime = one(&TestClock::new()).capacity(1).build().unwrap();
        let services = runtime.services();
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let stop = Arc::new(stop);
        let waits = Provider::future(move |_, n: u32| {
            let mut stopped = stopped.clone();
            async move {
                stopped.wait_for(|stopped| *stopped).await.unwrap();
                n
            }
        });
        let _waits = services.register(&ECHO, waits).unwrap();
        let starts = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&starts);
        let other = echo()
            .level(1)
            .on_start(move |_| {
                count.fetch_add(1, SeqCst);
                async { Ok::<_, BoxError>(()) }
            })
            .on_stop(move |_| {
                stop.send(true).unwrap();
                async { Ok::<_, BoxError>(()) }
            });
        let other = services
            .register(&Service::<u32, u32>::new("other"), other)
            .unwrap();
        let call = services.call(&ECHO, 7).start().unwrap();
        runtime.quiet().await;
        other.start().await.unwrap();
        assert_eq!(starts.load(SeqCst), 1);
        other.stop().await.unwrap();
        assert_eq!(call.await.unwrap(), 7);
        assert_eq!(unfinished(&runtime, Shutdown::Drain, secs(20)).await, []);
        assert_stopped(&services);
    });
}

/// SV-09: the first call of `services()` after the end returns stopped services, too.
#[test]
fn services_of_a_runtime_that_has_ended_are_stopped() {
    limited(async || {
        for how in [Shutdown::Drain, Shutdown::Now] {
            let runtime = one(&TestClock::new()).build().unwrap();
            assert_eq!(unfinished(&runtime, how, secs(20)).await, []);
            let services = runtime.services();
            assert_stopped(&services);
            assert_eq!(rest(services.subscribe("echo")).await, []);
            assert!(services.register(&ECHO, echo()).is_err());
        }
    });
}

/// SV-06: after a caller cancels the fom of a stop, a second stop runs to its end.
#[test]
fn a_stop_that_was_cancelled_is_run_again() {
    limited(async || {
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let (enter, entered) = mpsc::channel();
        let ends = Arc::new(AtomicBool::new(false));
        let of = Arc::clone(&ends);
        let stops = echo().on_stop(move |_| {
            enter.send(()).unwrap();
            let of = Arc::clone(&of);
            async move {
                if !of.load(SeqCst) {
                    pending::<()>().await;
                }
                Ok::<_, BoxError>(())
            }
        });
        let echo = services.register(&ECHO, stops).unwrap();
        let mut stop = Box::pin(echo.stop());
        assert!(kit::poll_once(stop.as_mut()).await.is_pending());
        runtime.quiet().await;
        entered.recv().unwrap();
        let task = runtime.operations().foms[0].id;
        assert!(runtime.cancel(task));
        assert_eq!(stop.await, Err(LifeError::Cancelled));
        ends.store(true, SeqCst);
        echo.stop().await.unwrap();
        assert!(entered.try_recv().is_ok(), "its stop was not run again");
        assert_eq!(echo.state(), ServiceState::Stopped);
        assert_eq!(unfinished(&runtime, Shutdown::Drain, secs(20)).await, []);
    });
}

/// SV-09: at once: a running call is dropped, a waiting call is answered, and no caller waits forever. A plain function
/// that does not return holds nothing up. Trap 40.
#[test]
fn the_end_of_the_runtime_answers_every_call() {
    limited(async || {
        for dropped in [false, true] {
            let clock = TestClock::new();
            let runtime = many(2, &clock).build().unwrap();
            let services = runtime.services();
            let (hold, held) = mpsc::channel::<()>();
            let held = Mutex::new(held);
            let (enter, entered) = mpsc::channel();
            let _stuck = services
                .register(
                    &MISSING,
                    Provider::blocking(move |_, n| {
                        enter.send(()).unwrap();
                        // An error means that the other end is gone.
                        let _ = held.lock().unwrap().recv();
                        n
                    }),
                )
                .unwrap();
            let _echo = services
                .register(
                    &ECHO,
                    Provider::future(|cx, n| async move {
                        cx.sleep(secs(3600)).await;
                        n
                    })
                    .key(|_| 1),
                )
                .unwrap();
            let runs = services.call(&ECHO, 1).start().unwrap();
            let waits = services.call(&ECHO, 2).within(secs(99)).start().unwrap();
            let (tell, told) = mpsc::channel();
            services
                .call(&ECHO, 3)
                .then(move |answer| tell.send(answer).unwrap());
            let mut subscription = services.subscribe("never");
            runtime.quiet().await;
            let blocked = (!dropped).then(|| {
                let blocked = services.call(&MISSING, 4).start().unwrap();
                entered.recv().unwrap();
                blocked
            });
            if dropped {
                drop(runtime);
            } else {
                let report = runtime.shutdown(Shutdown::Now, secs(0)).await;
                assert_eq!(report.remained.len(), 1);
            }
            let is_shutdown =
                |failure: CallFailure<u32>| matches!(failure.cause, CallCause::Shutdown);
            assert!(is_shutdown(runs.await.unwrap_err()));
            let waits = waits.await.unwrap_err();
            assert_eq!(waits.argument, Some(2));
            assert!(is_shutdown(waits));
            assert!(is_shutdown(told.recv().unwrap().unwrap_err()));
            assert!(told.recv().is_err(), "told once");
            assert_eq!(subscription.next().await, None);
            assert!(
                services
                    .wait_for(&Service::<(), ()>::new("never"))
                    .await
                    .is_err()
            );
            if let Some(blocked) = blocked {
                assert!(is_shutdown(blocked.await.unwrap_err()));
            }
            drop(hold);
            let refused = services.call(&ECHO, 9).await.unwrap_err();
            assert_eq!(refused.argument, Some(9));
            assert!(
                services
                    .register(
                        &Service::<(), ()>::new("late"),
                        Provider::function(|_, ()| ())
                    )
                    .is_err()
            );
        }
    });
}
