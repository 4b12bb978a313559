//! Active objects: how an object ends, and that every call is answered.
#![allow(
    unreachable_pub,
    reason = "the proxy has what is `pub`, here as in a library"
)]

use std::time::{Duration, Instant};

use fom_patterns::{active::ActiveCallError, prelude::*};
use fom_runtime::time::TestClock;

use crate::kit::{Gate, Log, limited, many, one, secs};

struct Shop {
    log: Log,
    stock: u64,
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.log.put("closed");
    }
}

/// Panics when it is dropped.
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        panic!("a mine");
    }
}

#[active]
impl Shop {
    pub fn stock(&mut self, more: u64) -> u64 {
        self.stock += more;
        self.log.put(format!("stocked {more}"));
        self.stock
    }

    #[when(self.stock >= wanted)]
    pub fn buy(&mut self, wanted: u64) -> u64 {
        self.stock -= wanted;
        self.log.put(format!("sold {wanted}"));
        self.stock
    }

    pub fn take_mine(&mut self, mine: Box<Mine>) {
        drop(mine);
    }

    pub fn give_mine(&mut self) -> Mine {
        Mine
    }
}

fn shop(log: &Log) -> Shop {
    Shop {
        log: log.clone(),
        stock: 0,
    }
}

/// Trap 36: when the last proxy goes, queued requests still run. A request that can never run is answered; then the
/// object is dropped.
#[test]
fn what_is_queued_runs_after_the_last_proxy() {
    limited(|| async {
        let (runtime, log) = (one(&TestClock::new()).build().unwrap(), Log::default());
        let shop = shop(&log).activate(&runtime).unwrap();
        let gate = Gate::close(&runtime, 0);
        let never = shop.buy(9);
        let sold = shop.buy(2);
        let stocked = shop.stock(3);
        let another = shop.clone();
        drop(shop);
        drop(another);
        gate.open();
        assert_eq!(stocked.await.unwrap(), 3);
        assert_eq!(sold.await.unwrap(), 1);
        assert!(matches!(never.await, Err(ActiveCallError::Ended)));
        runtime.idle().await;
        assert_eq!(log.lines(), ["stocked 3", "sold 2", "closed"]);
    });
}

/// Trap 36: an object without proxies and without requests ends at once.
#[test]
fn an_object_ends_with_its_last_proxy() {
    limited(|| async {
        let (runtime, log) = (one(&TestClock::new()).build().unwrap(), Log::default());
        let shop = shop(&log).activate(&runtime).unwrap();
        assert_eq!(shop.stock(1).await.unwrap(), 1);
        assert!(!shop.has_ended());
        drop(shop);
        runtime.idle().await;
        assert_eq!(log.lines(), ["stocked 1", "closed"]);
    });
}

/// A shutdown at once answers every call, also later calls.
#[test]
fn a_shutdown_answers_every_call() {
    limited(|| async {
        let (runtime, log) = (one(&TestClock::new()).build().unwrap(), Log::default());
        let shop = shop(&log).activate(&runtime).unwrap();
        let gate = Gate::close(&runtime, 0);
        let calls = [shop.buy(1), shop.stock(1), shop.buy(7)];
        let ending = tokio::spawn({
            let runtime = runtime.clone();
            async move { runtime.shutdown(Shutdown::Now, secs(10)).await }
        });
        gate.open();
        assert!(ending.await.unwrap().remained.is_empty());
        for call in calls {
            // A call may have run before the shutdown began.
            assert!(matches!(
                call.await,
                Ok(1 | 0) | Err(ActiveCallError::Ended)
            ));
        }
        assert!(shop.has_ended());
        assert!(matches!(shop.stock(1).await, Err(ActiveCallError::Ended)));
        assert_eq!(log.lines().last().unwrap(), "closed");
    });
}

/// A dropped runtime answers the waiting callers.
#[test]
fn a_runtime_that_is_dropped_answers_every_call() {
    limited(|| async {
        let (runtime, log) = (one(&TestClock::new()).build().unwrap(), Log::default());
        let shop = shop(&log).activate(&runtime).unwrap();
        let call = shop.buy(1);
        runtime.quiet().await;
        drop(runtime);
        assert!(matches!(call.await, Err(ActiveCallError::Ended)));
    });
}

/// Calls an object while the runtime drains, and gets its answer.
struct Errand {
    shop: ShopProxy,
    go: tokio::sync::oneshot::Receiver<()>,
}

#[fom(operation(Errand), transient)]
enum Running {
    #[phase(start, to(Home))]
    Out,
    #[phase(end)]
    Home { stock: u64 },
}

impl RunningTransitions for Errand {
    async fn out(&mut self, _: &mut Cx<'_>) -> Result<RunningAfterOut, BoxError> {
        (&mut self.go).await?;
        let stock = self.shop.stock(5).await?;
        Ok(RunningAfterOut::Home { stock })
    }
}

/// A drain runs the foms in flight, with the calls that they make. It does not wait for objects that get no more calls,
/// although proxies of them exist.
#[test]
fn a_drain_ends_objects_last() {
    limited(|| async {
        let (runtime, log) = (many(2, &TestClock::new()).build().unwrap(), Log::default());
        let shop_1 = shop(&log).activate(&runtime).unwrap();
        let shop_2 = shop(&log).activate(&runtime).unwrap();
        let stuck = shop_2.buy(1);
        let (go, goes) = tokio::sync::oneshot::channel();
        let errand = runtime.submit(Errand {
            shop: shop_1.clone(),
            go: goes,
        });
        let errand = errand.start().unwrap();
        runtime.quiet().await;
        let begun = Instant::now();
        let draining = tokio::spawn({
            let runtime = runtime.clone();
            async move { runtime.shutdown(Shutdown::Drain, secs(20)).await }
        });
        while !matches!(shop_1.stock(0).await, Err(ActiveCallError::Ended)) {
            // Until the drain begins: then nothing is taken from outside.
            tokio::task::yield_now().await;
        }
        assert!(!shop_1.has_ended());
        go.send(()).unwrap();
        let ended = errand.await.unwrap();
        assert!(matches!(ended.end, RunningEnd::Home { stock: 5 }));
        assert!(draining.await.unwrap().remained.is_empty());
        assert!(begun.elapsed() < Duration::from_secs(10), "it waited");
        assert!(matches!(stuck.await, Err(ActiveCallError::Ended)));
        assert!(shop_1.has_ended() && shop_2.has_ended());
    });
}

/// A kept proxy of an object that has ended does not count as an object that rests: a drain still waits for the foms
/// in flight, and ends the other objects after them.
#[test]
fn a_proxy_of_an_ended_object_ends_no_other() {
    limited(|| async {
        let (runtime, log) = (many(2, &TestClock::new()).build().unwrap(), Log::default());
        let ended = shop(&log).activate(&runtime).unwrap();
        let shop = shop(&log).activate(&runtime).unwrap();
        assert!(runtime.cancel(runtime.operations().foms[0].id));
        while !ended.has_ended() {
            tokio::task::yield_now().await;
        }
        let (go, goes) = tokio::sync::oneshot::channel();
        let errand = runtime.submit(Errand {
            shop: shop.clone(),
            go: goes,
        });
        let errand = errand.start().unwrap();
        runtime.quiet().await;
        let draining = tokio::spawn({
            let runtime = runtime.clone();
            async move { runtime.shutdown(Shutdown::Drain, secs(20)).await }
        });
        while !matches!(shop.stock(0).await, Err(ActiveCallError::Ended)) {
            // Until the drain begins: then nothing is taken from outside.
            tokio::task::yield_now().await;
        }
        runtime.quiet().await;
        assert!(!shop.has_ended(), "the errand has not called it yet");
        go.send(()).unwrap();
        let answered = errand.await.unwrap();
        assert!(matches!(answered.end, RunningEnd::Home { stock: 5 }));
        assert!(draining.await.unwrap().remained.is_empty());
        assert!(shop.has_ended());
        drop(ended);
    });
}

/// A value that panics when dropped (an argument, or an answer that no caller takes) harms nothing else.
#[test]
fn a_panicking_drop_harms_no_other_call() {
    limited(|| async {
        let (runtime, log) = (one(&TestClock::new()).build().unwrap(), Log::default());
        let shop = shop(&log).activate(&runtime).unwrap();
        let failed = shop.take_mine(Box::new(Mine));
        drop(shop.give_mine());
        let gate = Gate::close(&runtime, 0);
        let cancelled = shop.take_mine(Box::new(Mine));
        cancelled.cancel();
        gate.open();
        assert_eq!(shop.stock(2).await.unwrap(), 2);
        assert!(matches!(failed.await, Err(ActiveCallError::Panicked(text)) if text == "a mine"));
        assert!(matches!(cancelled.await, Err(ActiveCallError::Cancelled)));
        let incidents = runtime.operations().incidents;
        assert_eq!(incidents.len(), 2, "{incidents:?}");
    });
}

/// With `end_on_panic`, an object ends with the first panic of a method.
#[test]
fn an_object_may_end_with_a_panic() {
    limited(|| async {
        let (runtime, log) = (one(&TestClock::new()).build().unwrap(), Log::default());
        let shop = shop(&log).activation().end_on_panic();
        let shop = shop.start(&runtime).unwrap();
        let gate = Gate::close(&runtime, 0);
        let panics = shop.take_mine(Box::new(Mine));
        let after = shop.stock(1);
        gate.open();
        assert!(matches!(panics.await, Err(ActiveCallError::Panicked(_))));
        assert!(matches!(after.await, Err(ActiveCallError::Ended)));
        runtime.idle().await;
        assert_eq!(log.lines(), ["closed"]);
    });
}

/// A refused activation gives the object back.
#[test]
fn a_refused_activation_gives_the_object_back() {
    limited(|| async {
        let (runtime, log) = (one(&TestClock::new()).build().unwrap(), Log::default());
        let first = shop(&log)
            .activation()
            .key("corner")
            .start(&runtime)
            .unwrap();
        let Err(refused) = shop(&log).activation().key("corner").start(&runtime) else {
            panic!("two have the key")
        };
        assert_eq!(refused.reason, fom_runtime::error::RefusedReason::KeyInUse);
        assert_eq!(refused.object.stock, 0);
        assert_eq!(first.stock(1).await.unwrap(), 1);
    });
}
