//! Calls that would wait for themselves, alone or through other waits.

use std::sync::{Arc, mpsc};

use fom_patterns::{
    lock::LongLock,
    prelude::*,
    service::{Provider, Service, ServiceCall},
};
use fom_runtime::time::TestClock;

use crate::kit::{Log, limited, many, one};

/// Trap 18: a call that would stand behind the call that waits for it is an error, also over others. Without a wait the
/// call is no error.
#[test]
fn a_call_never_waits_for_itself() {
    limited(async || {
        static AGAIN: Service<u8, String> = Service::new("again");
        static VIA: Service<u8, String> = Service::new("via");
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let services = runtime.services();
        let log = Log::default();
        let seen = log.clone();
        let _again = services
            .register(
                &AGAIN,
                Provider::future(move |cx, depth| {
                    let seen = seen.clone();
                    async move {
                        seen.put(depth);
                        let services = cx.runtime().services();
                        match depth {
                            // Directly, over another service, and without waiting.
                            0 => match services.call(&AGAIN, 7).await {
                                Err(failure) => {
                                    assert_eq!(failure.argument, Some(7));
                                    failure.cause.to_string()
                                }
                                Ok(said) => said,
                            },
                            1 => services.call(&VIA, 8).await.unwrap(),
                            2 => {
                                services.call(&AGAIN, 9).detach().unwrap();
                                "started".into()
                            }
                            _ => "entered".into(),
                        }
                    }
                })
                .key(|_| "same"),
            )
            .unwrap();
        let _via = services
            .register(
                &VIA,
                Provider::future(|cx, depth| async move {
                    let services = cx.runtime().services();
                    match services.call(&AGAIN, depth).await {
                        Err(failure) => failure.cause.to_string(),
                        Ok(said) => said,
                    }
                }),
            )
            .unwrap();
        for depth in [0, 1] {
            assert_eq!(
                services.call(&AGAIN, depth).await.unwrap(),
                "it would wait for itself: a fom in front of it in the queue of `service/again/same` waits for its answer; \
                 start it without waiting, or call another key"
            );
        }
        assert_eq!(services.call(&AGAIN, 2).await.unwrap(), "started");
        runtime.idle().await;
        assert_eq!(log.take(), ["0", "1", "2", "9"]);
    });
}

/// Trap 18: two chains of calls that wait for each other are one cycle, and a call that would close it is an error.
#[test]
fn calls_never_wait_for_each_other() {
    limited(async || {
        static CROSS: Service<(u32, u32), Result<u32, String>> = Service::new("cross");
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let services = runtime.services();
        let met = Arc::new(tokio::sync::Barrier::new(2));
        let cross = Provider::future(move |cx, (own, other): (u32, u32)| {
            let met = Arc::clone(&met);
            async move {
                if own == other {
                    return Ok(own);
                }
                // Each of the two has its key now, and calls the key of the other.
                met.wait().await;
                let services = cx.runtime().services();
                let called = services.call(&CROSS, (other, other)).await;
                called.unwrap_or_else(|failure| Err(failure.cause.to_string()))
            }
        });
        let _cross = services
            .register(&CROSS, cross.key(|(own, _)| *own))
            .unwrap();
        let calls = [(1, 2), (2, 1)].map(|keys| services.call(&CROSS, keys).start().unwrap());
        let mut refused = 0;
        for (call, other) in calls.into_iter().zip([2, 1]) {
            match call.await.unwrap() {
                Ok(answer) => assert_eq!(answer, other),
                Err(cause) => {
                    assert!(cause.starts_with("it would wait for itself"), "{cause}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0, "no call was in a cycle");
        assert_eq!(runtime.inspect().deadlocks().len(), 0);
    });
}

/// Trap 18: a cycle of a call and a lock. No wait can be refused, because the function of the call has begun. The
/// search for deadlocks finds the cycle.
#[test]
fn a_cycle_of_a_call_and_a_lock_is_found() {
    limited(async || {
        static TAKE: Service<(), ()> = Service::new("take");
        let runtime = one(&TestClock::new()).build().unwrap();
        let services = runtime.services();
        let lock = LongLock::new("it");
        let (of, (tell, told)) = (lock.clone(), mpsc::channel());
        let take = Provider::blocking(move |cx, ()| {
            let mut take = std::pin::pin!(of.write(cx));
            let taken = futures::executor::block_on(std::future::poll_fn(|waker| {
                let taken = take.as_mut().poll(waker);
                if taken.is_pending() {
                    tell.send(()).unwrap();
                }
                taken
            }));
            drop(taken.unwrap());
        });
        let _take = services.register(&TAKE, take).unwrap();
        let holder = runtime
            .submit(Holder(lock, Some(services.call(&TAKE, ()))))
            .start()
            .unwrap();
        told.recv().unwrap();
        let [found] = &runtime.inspect().deadlocks()[..] else {
            panic!("one cycle")
        };
        let (first, second) = (holder.id(), found.waits[1].fom);
        assert_eq!(
            found.to_string(),
            format!(
                "Holder {first} in Calls waits for the answer of service `take`, held by ServiceCall {second} in Serve, \
                 which waits for the lock `it`, held by Holder {first} in Calls"
            )
        );
        holder.cancel();
        holder.await.unwrap_err();
        runtime.idle().await;
        assert!(runtime.inspect().deadlocks().is_empty());
        assert_eq!(services.status().services[0].done, 1);
    });
}

/// Holds a lock while it waits for the answer of a call.
struct Holder(LongLock, Option<ServiceCall<(), ()>>);

#[fom(operation(Holder), transient)]
enum Holding {
    #[phase(start, to(Held))]
    Calls,
    #[phase(end)]
    Held,
}

impl HoldingTransitions for Holder {
    async fn calls(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let _held = self.0.write(cx).await?;
        match self.1.take() {
            Some(call) => Ok(call.await?),
            None => Ok(()),
        }
    }
}
