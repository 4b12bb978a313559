//! Services that are unregistered while they are called: each call gets one answer, and no call runs in a service that
//! is gone.

use fom_patterns::service::{
    CallCause, CallFailure, CancelledBy, DomainState, Happened, Provider, Refusal, Running,
    Service, ServiceState,
};

use shuttle::rand::{Rng, thread_rng};

use super::*;

static DOUBLE: Service<u32, u32> = Service::new("double");

/// Whether the service is there, and how often it ran.
#[derive(Clone, Default)]
struct Life {
    gone: Arc<AtomicBool>,
    ran: Arc<AtomicUsize>,
}

impl Life {
    fn provider(&self) -> Provider<u32, u32> {
        let life = self.clone();
        Provider::function(move |_, number| {
            thread::yield_now();
            assert!(!life.gone.load(Ordering::Acquire), "it is gone");
            life.ran.fetch_add(1, Ordering::AcqRel);
            2 * number
        })
    }
}

/// Returns the number of results; a call without a result has its argument back.
fn answered(answer: Result<u32, CallFailure<u32>>, number: u32) -> usize {
    match answer {
        Ok(result) => {
            assert_eq!(result, 2 * number);
            1
        }
        Err(failure) => {
            assert!(
                matches!(
                    failure.cause,
                    CallCause::Refused(Refusal::NotRegistered { .. })
                        | CallCause::Cancelled(
                            CancelledBy::Unregistered { .. } | CancelledBy::Caller
                        )
                        | CallCause::Shutdown
                ),
                "{failure:?}"
            );
            assert_eq!(failure.argument, Some(number), "{failure:?}");
            0
        }
    }
}

/// A service is unregistered, and registered again under its name, while it is called and a call is cancelled.
///
/// Seeded: a call that is admitted after its service has gone: the call got the error of a stopping service. An end
/// that does not wait for calls: a call ran of a service that was gone.
fn unregistered(running: Running) {
    check(1000, move || {
        let bench = Bench::new(2, MOST);
        let services = bench.runtime.services();
        let (first, second) = (Life::default(), Life::default());
        let registration = services.register(&DOUBLE, first.provider()).unwrap();
        let calls = [1, 2].map(|number| {
            let services = services.clone();
            thread::spawn(move || answered(services.call(&DOUBLE, number).wait(), number))
        });
        let cancels = {
            let services = services.clone();
            thread::spawn(move || match services.call(&DOUBLE, 3).start() {
                Ok(calling) => {
                    calling.cancel();
                    answered(block_on(calling), 3)
                }
                Err(failure) => answered(Err(failure), 3),
            })
        };
        block_on(registration.unregister(running));
        first.gone.store(true, Ordering::Release);
        let registration = services.register(&DOUBLE, second.provider()).unwrap();
        assert_eq!(answered(services.call(&DOUBLE, 4).wait(), 4), 1);
        let calls = calls.map(|call| call.join().unwrap());
        let results = calls.iter().sum::<usize>() + cancels.join().unwrap() + 1;
        let ran = [first, second].map(|life| life.ran.load(Ordering::Acquire));
        assert_eq!(results, ran.iter().sum::<usize>());
        drop((registration, services));
        bench.end(Some(Shutdown::Drain));
    });
}

#[test]
fn unregistered_while_calls_finish() {
    unregistered(Running::Finish);
}

#[test]
fn unregistered_while_calls_are_stopped() {
    unregistered(Running::Stop);
}

/// The owner goes without waiting, and the runtime ends: the call is answered, and every thread ends.
#[test]
fn the_owner_and_the_runtime_go() {
    check(1000, || {
        let bench = Bench::new(1, MOST);
        let services = bench.runtime.services();
        let life = Life::default();
        let registration = services.register(&DOUBLE, life.provider()).unwrap();
        let call = {
            let services = services.clone();
            thread::spawn(move || services.call(&DOUBLE, 1).wait())
        };
        let owner = thread::spawn(move || drop(registration));
        bench.runtime.shutdown_blocking(Shutdown::Now, NEVER);
        let answer = call.join().unwrap();
        owner.join().unwrap();
        if answer.is_ok() {
            assert_eq!(life.ran.load(Ordering::Acquire), 1);
        }
        drop(services);
        bench.end(None);
    });
}

/// A shutdown meets a stop that never ends, a stop that ends, and an owner that goes. Its time limit may pass at any
/// moment. When it returns, all services are stopped and stay stopped, and each watcher has heard of it. The report
/// names the stops that did not finish, and no other.
fn ended_by_a_shutdown(how: Shutdown) {
    check(1000, move || {
        let bench = Bench::new(1, MOST);
        let services = bench.runtime.services();
        let stopped = Arc::new(AtomicUsize::new(0));
        let register = |name, ends: bool| {
            let count = Arc::clone(&stopped);
            let provider = Life::default().provider().on_stop(move |_| {
                let count = Arc::clone(&count);
                async move {
                    if !ends {
                        std::future::pending::<()>().await;
                    }
                    count.fetch_add(1, Ordering::AcqRel);
                    Ok::<_, BoxError>(())
                }
            });
            services
                .register(&Service::<u32, u32>::new(name), provider)
                .unwrap()
        };
        // The service with a stop that ends is stopped first.
        let (hangs, gone) = (register("hangs", false), register("gone", false));
        let ends = register("ends", true);
        let mut heard = services.subscribe("hangs");
        let watcher = thread::spawn(move || {
            let mut last = None;
            while let Some(event) = block_on(heard.next()) {
                last = Some(event.happened);
            }
            last
        });
        let owner = thread::spawn(move || drop(gone));
        let runtime = &bench.runtime;
        let report = runtime.shutdown_blocking(how, Duration::from_millis(1));
        let ended = stopped.load(Ordering::Acquire);
        let assert_stopped = || {
            assert_eq!(services.domain(), DomainState::Stopped);
            assert_eq!([hangs.state(), ends.state()], [ServiceState::Stopped; 2]);
        };
        assert_stopped();
        let said = report.unfinished_stops.iter();
        let said: Vec<_> = said.map(|stop| stop.name.as_str()).collect();
        assert!(said.contains(&"hangs"), "{said:?}");
        assert!(said.contains(&"ends") || ended == 1, "{said:?}");
        assert_eq!(watcher.join().unwrap(), Some(Happened::Stopped));
        owner.join().unwrap();
        assert!(ended == 0 || stopped.load(Ordering::Acquire) == 1);
        assert_stopped();
        drop((hangs, ends, services));
        bench.end(None);
    });
}

/// Seeded: an end that leaves a service as it is (`stop-outlasts-shutdown`).
#[test]
fn stops_that_outlast_a_drain() {
    ended_by_a_shutdown(Shutdown::Drain);
}

#[test]
fn stops_that_are_not_run() {
    ended_by_a_shutdown(Shutdown::Now);
}

static CROSS: Service<(u32, u32), bool> = Service::new("cross");

/// Two calls have a key each, and call the key of the other at the same time. At least one of them sees the cycle.
///
/// Seeded: a look for the cycle before the own wait is known (`cycle-before-own-wait`, a deadlock).
#[test]
fn calls_that_close_a_cycle_at_once() {
    check(1000, || {
        let bench = Bench::new(2, MOST);
        let services = bench.runtime.services();
        let met = Arc::new(tokio::sync::Barrier::new(2));
        let cross = Provider::future(move |cx, (own, other): (u32, u32)| {
            let met = Arc::clone(&met);
            async move {
                if own == other {
                    return true;
                }
                met.wait().await;
                let services = cx.runtime().services();
                match services.call(&CROSS, (other, other)).await {
                    Ok(answer) => answer,
                    Err(failure) => {
                        let cause = &failure.cause;
                        assert!(matches!(cause, CallCause::InsideItself { .. }), "{cause}");
                        false
                    }
                }
            }
        });
        let cross = cross.key(|(own, _)| *own);
        let registration = services.register(&CROSS, cross).unwrap();
        // Some of them have their home in the other locality.
        let other = thread_rng().gen_range(2..20);
        let calls = [(1, other), (other, 1)].map(|keys| services.call(&CROSS, keys));
        let calls = calls.map(|call| call.start().unwrap());
        let entered = calls.map(|call| block_on(call).unwrap());
        assert_ne!(entered, [true; 2], "no call was in a cycle");
        drop((registration, services));
        bench.end(Some(Shutdown::Drain));
    });
}
