//! Times and retries of a phase that come from constants.

use std::time::Duration;

use fom_runtime::{
    error::BoxError,
    machine::Retry,
    prelude::*,
    time::{Instant, TestClock},
};

use crate::kit::{Log, limited, millis, one, secs};

mod limits {
    use super::*;

    pub(super) const RING: Duration = Duration::from_secs(5);
}

struct Call(Log);

impl Call {
    const PATIENT: Retry = Retry::new(2, Duration::from_millis(50), Duration::from_millis(50));
}

#[fom(operation(Call), transient)]
enum Calling {
    #[phase(start, sync, to(Ring), retry(Call::PATIENT), exhausted)]
    Look,
    #[phase(to(Missed), within(limits::RING), late)]
    Ring,
    #[phase(end)]
    Missed,
}

impl CallingTransitions for Call {
    fn look(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.0.put(format_args!("look at {}", cx.now()));
        Err("nobody there".into())
    }
    fn look_exhausted(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    async fn ring(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let left = cx.deadline().ok_or("no deadline")? - cx.now();
        self.0.put(format_args!("ring for {left:?}"));
        std::future::pending().await
    }
    async fn ring_late(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.0.put(format_args!("late at {}", cx.now()));
        Ok(())
    }
}

#[test]
fn a_phase_takes_its_times_from_constants() {
    limited(|| async {
        let (log, clock) = (Log::default(), TestClock::new());
        let runtime = one(&clock).build().unwrap();
        let call = runtime.submit(Call(log.clone())).start().unwrap();
        for _ in 0..2 {
            runtime.quiet().await;
            clock.advance(millis(50));
        }
        runtime.quiet().await;
        clock.advance(secs(5));
        call.await.unwrap();
        assert_eq!(
            log.take(),
            [
                "look at 0ns",
                "look at 50ms",
                "look at 100ms",
                "ring for 5s",
                "late at 5.1s"
            ]
        );
        assert_eq!(runtime.now() - Instant::START, millis(5100));
    });
}

#[test]
fn drawings_show_the_names_of_constants() {
    let [look, ring, _] = Call::GRAPH.phases() else {
        panic!("three phases");
    };
    let retry = look.retries().unwrap();
    assert_eq!((retry.times, retry.name), (2, Some("Call::PATIENT")));
    assert!(retry.exhausted);
    let deadline = ring.deadline();
    assert_eq!(deadline.within(), Some(limits::RING));
    assert_eq!(deadline.name(), Some("limits::RING"));
    let table = Call::GRAPH.table();
    assert!(
        table.contains("within limits::RING (5s), else late"),
        "{table}"
    );
    assert!(
        table.contains("retry Call::PATIENT (2, 50ms..50ms)"),
        "{table}"
    );
}
