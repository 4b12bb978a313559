//! What is left of a fom, however it ended or was refused: nothing, and an answer for each waiting caller.

use std::{future::pending, pin::pin};

use fom_runtime::{error::RefusedReason, prelude::*, submission::Reached, time::TestClock};

use crate::kit::foms::{Drops, Held, Oops, WalkKind, Walker, Word, walker};
use crate::kit::{Gate, Log, limited, many, one, poll_once, secs};

/// FL-05: an operation is dropped exactly once, in whatever way its fom ended, and before `idle` returns. Nothing
/// touches the fom after that.
#[test]
fn an_operation_is_dropped_once_on_every_way_out() {
    limited(|| async {
        let drops = Drops::default();
        let log = Log::default();
        let op = || Walker {
            log: log.clone(),
            name: "a",
            _held: Held(Some(drops.clone())),
        };
        let clock = TestClock::new();
        let runtime = one(&clock).capacity(1).build().unwrap();

        // Ended; the operation is given back.
        let fom = runtime.submit(op()).start().unwrap();
        fom.send(Word::Stop).unwrap();
        let ended = fom.await.unwrap();
        runtime.idle().await;
        assert_eq!(drops.count(), 0, "it is ours now");
        drop(ended);
        assert_eq!(drops.count(), 1);

        // No caller wants the outcome: the operation is dropped before the runtime is idle.
        let fom = runtime.submit(op()).start().unwrap();
        fom.send(Word::Stop).unwrap();
        drop(fom);
        runtime.idle().await;
        assert_eq!(drops.count(), 2);

        // Failed, or cancelled while it waits.
        for word in [Some(Word::Fail), None] {
            let before = drops.count();
            let fom = runtime.submit(op()).start().unwrap();
            let address = fom.fom().clone();
            runtime.quiet().await;
            match word {
                Some(word) => fom.send(word).unwrap(),
                None => fom.cancel(),
            }
            drop(fom);
            runtime.idle().await;
            assert_eq!(drops.count(), before + 1, "also while an address is kept");
            drop(address);
            assert_eq!(drops.count(), before + 1);
        }

        // Cancelled in the queue.
        let gate = Gate::close(&runtime, 0);
        let fom = runtime.submit(op()).start().unwrap();
        fom.cancel();
        drop(fom);
        gate.open();
        runtime.idle().await;
        assert_eq!(drops.count(), 5);

        // Refused, and given back.
        let fom = runtime.submit(op()).start().unwrap();
        let refused = runtime.submit(op()).start().unwrap_err();
        assert_eq!(drops.count(), 5);
        drop(refused.into_operation());
        assert_eq!(drops.count(), 6);

        // Shut down.
        runtime.shutdown(Shutdown::Now, secs(10)).await;
        let failure = fom.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Shutdown));
        assert_eq!(drops.count(), 6);
        drop(failure);
        assert_eq!(drops.count(), 7);
    });
}

/// When a fom ends, the locals of its function and the data of its phase are dropped before the caller that awaits the
/// fom gets the outcome.
#[test]
fn locals_and_data_go_before_the_outcome_is_told() {
    struct Holder(Drops);
    #[fom(operation(Holder), error(Oops), transient)]
    enum Holding {
        #[phase(start, to(Hold), sync)]
        Begin,
        #[phase(to(Never))]
        Hold { data: Held },
        #[phase(end)]
        Never,
    }
    impl HoldingTransitions for Holder {
        fn begin(&mut self, _: &mut Cx<'_>) -> Result<HoldingAfterBegin, Oops> {
            Ok(HoldingAfterBegin::Hold {
                data: Held(Some(self.0.clone())),
            })
        }
        async fn hold(&mut self, _: &mut Cx<'_>, _: &mut Held) -> Result<(), Oops> {
            let _local = Held(Some(self.0.clone()));
            pending().await
        }
    }
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let drops = Drops::default();
        let fom = runtime.submit(Holder(drops.clone())).start().unwrap();
        fom.reached([HoldingKind::Hold]).await;
        runtime.quiet().await;
        assert_eq!(drops.count(), 0);
        fom.cancel();
        let failure = fom.await.unwrap_err();
        assert_eq!((failure.phase_name(), drops.count()), ("Hold", 2));
        assert!(failure.operation.is_some());
    });
}

/// SV-02: for each reason, a refused submission gives the operation back and leaves nothing behind. A second submission
/// is refused in the same way.
#[test]
fn a_refusal_leaves_nothing_behind() {
    limited(|| async {
        let runtime = one(&TestClock::new()).capacity(2).build().unwrap();
        let log = Log::default();
        let holder = runtime
            .submit(walker(&log, "holder"))
            .key("k")
            .start()
            .unwrap();
        runtime.quiet().await;
        log.take();
        let state = |runtime: &Runtime| {
            let all = runtime.operations();
            let types: Vec<_> = all
                .types
                .iter()
                .map(|t| (t.started, t.ended, t.failed, t.in_flight))
                .collect();
            (
                runtime.in_flight(),
                all.foms.len(),
                all.localities[0].foms,
                types,
            )
        };
        let before = state(&runtime);
        let refuse = |name: &'static str, key: Option<&str>, place: Option<Placement>| {
            let mut submission = runtime.submit(walker(&log, name));
            if let Some(key) = key {
                submission = submission.key(key);
            }
            if let Some(place) = place {
                submission = submission.place(place);
            }
            let refused = submission.start().unwrap_err();
            let told = (
                refused.reason(),
                refused.to_string(),
                refused.live().map(|fom| fom.id()),
            );
            assert_eq!(refused.into_operation().name, name);
            told
        };
        let in_use = refuse("a", Some("k"), None);
        assert_eq!(
            (in_use.0, in_use.2),
            (RefusedReason::KeyInUse, Some(holder.id()))
        );
        assert_eq!(refuse("b", Some("k"), None), in_use);
        let nowhere = refuse("a", Some("l"), Some(Placement::Locality(1)));
        assert_eq!(
            (nowhere.0, nowhere.2),
            (RefusedReason::NoSuchLocality, None)
        );
        assert_eq!(
            refuse("b", Some("l"), Some(Placement::Locality(1))),
            nowhere
        );
        assert!(runtime.find::<Walker>("l").is_none());
        assert_eq!(state(&runtime), before);

        let second = runtime.submit(walker(&log, "second")).start().unwrap();
        runtime.quiet().await;
        log.take();
        let before = state(&runtime);
        let full = refuse("a", None, None);
        assert_eq!(full.0, RefusedReason::Full);
        assert_eq!(refuse("b", Some("m"), None), full);
        assert!(runtime.find::<Walker>("m").is_none());
        assert_eq!(state(&runtime), before);
        // When awaited, the refusal is the failure, with the operation.
        let failure = runtime.submit(walker(&log, "c")).await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Refused(RefusedReason::Full)));
        assert_eq!(failure.operation.map(|op| op.into_inner().name), Some("c"));
        // After an end there is room again.
        second.cancel();
        assert!(second.await.is_err());
        while runtime.in_flight() > 1 {
            tokio::task::yield_now().await;
        }
        let third = runtime.submit(walker(&log, "third")).start().unwrap();
        drop(third);

        runtime.shutdown(Shutdown::Now, secs(10)).await;
        let closed = refuse("a", None, None);
        assert_eq!(closed.0, RefusedReason::ShuttingDown);
        assert_eq!(refuse("b", Some("k"), None), closed);
        assert!(holder.await.is_err());
        assert_eq!(
            log.lines()
                .iter()
                .filter(|line| !line.starts_with("third"))
                .count(),
            0,
            "no refused one ran"
        );
    });
}

/// SV-05: `idle` returns only when no fom is in flight, wherever the foms end. Nothing of the foms is left then.
#[test]
fn idle_waits_for_every_fom() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        runtime.idle().await;
        let drops = Drops::default();
        for round in 0..20 {
            let foms: Vec<_> = (0..10)
                .map(|_| {
                    let op = Walker {
                        log: Log::default(),
                        name: "a",
                        _held: Held(Some(drops.clone())),
                    };
                    runtime.submit(op).start().unwrap().fom().clone()
                })
                .collect();
            let mut idle = pin!(runtime.idle());
            assert!(poll_once(idle.as_mut()).await.is_pending());
            let threads: Vec<_> = foms
                .chunks(5)
                .map(|foms| {
                    let foms = foms.to_vec();
                    std::thread::spawn(move || {
                        foms.iter().for_each(|fom| fom.send(Word::Stop).unwrap())
                    })
                })
                .collect();
            idle.await;
            assert_eq!(runtime.in_flight(), 0);
            assert_eq!(drops.count(), (round + 1) * 10);
            assert!(runtime.operations().foms.is_empty());
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        }
    });
}

/// Dropping the runtime gives an answer to each caller of a fom, whether the fom waits, is queued or sleeps.
#[test]
fn dropping_the_runtime_answers_everybody() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let waiting = runtime
            .submit(walker(&Log::default(), "a"))
            .start()
            .unwrap();
        runtime.quiet().await;
        let gate = Gate::close(&runtime, 0);
        let queued = runtime
            .submit(walker(&Log::default(), "b"))
            .start()
            .unwrap();
        let reached = waiting.reached([WalkKind::Stopped]);
        drop(runtime);
        gate.open();
        assert!(matches!(waiting.await.unwrap_err().cause, Cause::Shutdown));
        assert!(matches!(queued.await.unwrap_err().cause, Cause::Shutdown));
        assert_eq!(reached.await, Reached::Ended);
    });
}
