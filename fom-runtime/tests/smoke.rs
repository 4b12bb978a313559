//! The design's example, for real.
use std::time::Duration;

use fom_runtime::{FomState, Reached, RefusedReason, TestClock, prelude::*};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct RouteCall {
    callee: String,
    log: Vec<String>,
}

#[derive(Debug, PartialEq)]
enum CallEvent {
    Ack,
    Bye,
}

#[fom(operation(RouteCall), event(CallEvent))]
enum Route {
    #[phase(start, to(Ring, Rejected), within = "2s")]
    Locate,
    #[phase(to(Answered, Rejected), within = "32s", late, on(Ack, Bye))]
    Ring { endpoint: String },
    #[phase(end)]
    Answered { session: u32 },
    #[phase(end, failure)]
    Rejected { status: u16 },
}

struct Locator;

impl Locator {
    fn find(&self, who: &str, reply: Reply<Option<String>>) {
        let found = (who != "nobody").then(|| format!("{who}@here"));
        std::thread::spawn(move || reply.send(found));
    }
}

impl RouteTransitions for RouteCall {
    async fn locate(
        &mut self,
        cx: &mut Cx<'_, CallEvent>,
    ) -> Result<RouteAfterLocate, fom_runtime::BoxError> {
        self.log.push("locate".into());
        let found = cx
            .call(|locator: &Locator, reply| locator.find(&self.callee, reply))
            .await?;
        Ok(match found {
            Some(endpoint) => RouteAfterLocate::Ring { endpoint },
            None => RouteAfterLocate::Rejected { status: 404 },
        })
    }

    async fn ring(
        &mut self,
        cx: &mut Cx<'_, CallEvent>,
        endpoint: &mut String,
    ) -> Result<RouteAfterRing, fom_runtime::BoxError> {
        self.log.push(format!("ring {endpoint}"));
        Ok(match cx.event().await {
            CallEvent::Ack => RouteAfterRing::Answered { session: 7 },
            CallEvent::Bye => RouteAfterRing::Rejected { status: 487 },
        })
    }

    async fn ring_late(
        &mut self,
        _: &mut Cx<'_, CallEvent>,
        _: &mut String,
    ) -> Result<RouteAfterRing, fom_runtime::BoxError> {
        Ok(RouteAfterRing::Rejected { status: 408 })
    }
}

fn call(callee: &str) -> RouteCall {
    RouteCall {
        callee: callee.into(),
        log: vec![],
    }
}

#[tokio::test]
async fn routes() {
    let clock = TestClock::new();
    let runtime = Runtime::builder()
        .localities(2)
        .resource(Locator)
        .clock(&clock)
        .build()
        .unwrap();
    let ended = runtime.submit(call("nobody")).await.unwrap();
    assert!(matches!(ended.phase, Route::Rejected { status: 404 }));
    let handle = runtime.submit(call("ada")).key("a").start().unwrap();
    assert_eq!(
        handle.reached([RouteKind::Ring]).await,
        Reached::Phase(RouteKind::Ring)
    );
    let again = runtime.submit(call("ada")).key("a").start().unwrap_err();
    assert_eq!(again.reason(), RefusedReason::KeyInUse);
    runtime
        .find::<RouteCall>("a")
        .unwrap()
        .send(CallEvent::Ack)
        .unwrap();
    let ended = handle.await.unwrap();
    assert!(matches!(ended.phase, Route::Answered { session: 7 }));
    assert_eq!(ended.operation.log, ["locate", "ring ada@here"]);
    assert!(runtime.find::<RouteCall>("a").is_none());

    let late = runtime.submit(call("bob")).start().unwrap();
    late.reached([RouteKind::Ring]).await;
    runtime.quiet().await;
    println!("{}", runtime.operations());
    assert_eq!(late.state(), FomState::Waiting);
    clock.advance(Duration::from_secs(32));
    let ended = late.await.unwrap();
    assert!(matches!(ended.phase, Route::Rejected { status: 408 }));

    let cancelled = runtime.submit(call("bob")).start().unwrap();
    cancelled.reached([RouteKind::Ring]).await;
    cancelled.cancel();
    let failure = cancelled.await.unwrap_err();
    assert!(matches!(failure.cause, Cause::Cancelled), "{failure:?}");
    println!("{}", runtime.operations());
    let report = runtime
        .shutdown(Shutdown::Drain, Duration::from_secs(1))
        .await;
    assert!(report.remained.is_empty());
}
