//! Foms that are resumed from snapshots.

use std::sync::{Arc, Mutex};

use fom_runtime::{observe::TransitionCause, prelude::*, snapshot::RestoreError, time::TestClock};

use crate::kit::{Log, limited, one, secs};
use crate::record::Record;
use crate::shop::{News, Oops, Order, Shop, ShopEnd, each_phase, order};

/// Every snapshot of a run, resumed in a new runtime, reaches the same end. The function of the saved phase is entered
/// again, with the phase's data; no earlier function is.
#[test]
fn a_resumed_fom_goes_on_where_it_was() {
    type Saved = Arc<Mutex<Vec<Snapshot>>>;

    async fn to_the_end(
        runtime: &Runtime,
        clock: &TestClock,
        handle: Handle<Order>,
    ) -> (ShopEnd, Order) {
        while !handle.state().eq(&fom_runtime::machine::FomState::Finished) {
            runtime.quiet().await;
            match handle.phase() {
                "Reserved" => clock.advance(secs(3)),
                // An error: the fom has ended meanwhile.
                _ => drop(handle.send(News::Paid)),
            }
            runtime.quiet().await;
        }
        let ended = handle.await.unwrap();
        (ended.end, ended.operation)
    }

    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let saved = Saved::default();
        let all = Arc::clone(&saved);
        runtime
            .listen_to::<Order>(move |step| all.lock().unwrap().push(step.snapshot().unwrap()))
            .forever();
        let first = order();
        let log = first.log.0.clone();
        let handle = runtime.submit(first).start().unwrap();
        let (end, _) = to_the_end(&runtime, &clock, handle).await;
        assert_eq!(end, ShopEnd::Delivered { at: "noon".into() });
        let lines = log.take();
        let names = ["received", "reserved", "paying", "packing", "shipping"];
        assert_eq!(lines.len(), names.len());
        let saved = std::mem::take(&mut *saved.lock().unwrap());
        assert_eq!(saved.len(), names.len() + 1);

        for (done, snapshot) in saved.iter().enumerate() {
            let clock = TestClock::new();
            let runtime = one(&clock).build().unwrap();
            clock.advance(secs(1_000));
            let causes = Log::default();
            let seen = causes.clone();
            runtime
                .listen(move |step| {
                    seen.put(format_args!("{:?} {}", step.to().unwrap(), step.cause()))
                })
                .forever();
            // Through bytes, as after a restart. The order gets its log again on the way in.
            let snapshot = Snapshot::from_bytes(snapshot.as_bytes()).unwrap();
            let (_, phase) = Order::restore(&snapshot).unwrap();
            let relog = runtime.interpose::<Order>(Relog(log.clone()));
            let handle = runtime.resume::<Order>(&snapshot).unwrap().start().unwrap();
            let (end, operation) = to_the_end(&runtime, &clock, handle).await;
            assert_eq!(
                (end, &operation),
                (ShopEnd::Delivered { at: "noon".into() }, &order())
            );
            relog.remove().unwrap();
            let again: Vec<_> = log
                .take()
                .iter()
                .map(|line| line.split(' ').next().unwrap().to_owned())
                .collect();
            assert_eq!(again, names[done.min(names.len())..]);
            let first = format!(
                "{:?} {}",
                format!("{:?}", Order::kind(&phase)),
                TransitionCause::Resumed
            );
            let causes = causes.take();
            assert_eq!(causes[0], first);
            assert_eq!(causes.len(), saved.len() - done);
        }
    });
}

/// Gives a restored order its log back.
struct Relog(Log);

impl fom_runtime::observe::Interpose<Order> for Relog {
    fn before(&self, operation: &mut Order, _: &mut Shop) -> Option<Result<Shop, Oops>> {
        operation.log.0 = self.0.clone();
        None
    }
}

/// A resumed deadline has as much time left as when it was saved, also a deadline that an earlier phase keeps. Saved
/// outside of a runtime, a phase has its whole deadline.
#[test]
fn a_resumed_fom_has_what_was_left_of_its_deadline() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let saved = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&saved);
        runtime
            .listen_to::<Order>(move |step| all.lock().unwrap().push(step.snapshot().unwrap()))
            .forever();
        let handle = runtime.submit(order()).start().unwrap();
        runtime.quiet().await;
        clock.advance(secs(3));
        runtime.quiet().await;
        assert_eq!(handle.phase(), "Paying");
        drop(handle);
        let saved = std::mem::take(&mut *saved.lock().unwrap());
        let left: Vec<_> = saved
            .iter()
            .map(|saved| Record::of(saved).meta.left)
            .collect();
        assert_eq!(left, [None, Some(10_000_000_000), Some(7_000_000_000)]);

        let reserved = order().snapshot(&each_phase()[1]).unwrap();
        for (snapshot, due) in [(&saved[2], 7), (&reserved, 10)] {
            let clock = TestClock::new();
            clock.advance(secs(1_000));
            let runtime = one(&clock).build().unwrap();
            let handle = runtime.resume::<Order>(snapshot).unwrap().start().unwrap();
            runtime.quiet().await;
            let listed = runtime.operation(handle.id()).unwrap();
            assert_eq!(listed.times.deadline_in, Some(secs(due)));
            if due == 7 {
                clock.advance(secs(7) - std::time::Duration::from_nanos(1));
                runtime.quiet().await;
                assert_eq!(handle.phase(), "Paying");
                clock.advance(std::time::Duration::from_nanos(1));
                let failure = handle.await.unwrap_err();
                assert_eq!(
                    (failure.cause.name(), failure.phase_name()),
                    ("late", "Paying")
                );
            }
        }
    });
}

/// A fom saved in an end phase ends there at once. A fom with bytes that do not fit is not submitted at all.
#[test]
fn resume_at_the_end_and_resume_of_nothing() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let refused = Shop::Refused { why: Ok(4) };
        let snapshot = order().snapshot(&refused).unwrap();
        let ended = runtime.resume::<Order>(&snapshot).unwrap().await.unwrap();
        assert_eq!(ended.end, ShopEnd::Refused { why: Ok(4) });
        assert_eq!(ended.operation, order());
        let mut record = Record::of(&snapshot);
        record.phase = "Gone".into();
        let snapshot = Snapshot::from_bytes(record.second(1)).unwrap();
        assert!(matches!(
            runtime.resume::<Order>(&snapshot).unwrap_err(),
            RestoreError::UnknownPhase { .. }
        ));
        runtime.idle().await;
        assert_eq!(runtime.operations().types[0].started, 1);
    });
}
