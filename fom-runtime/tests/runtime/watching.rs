//! Listeners: they hear of every transition, and are added and removed at any time.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use fom_runtime::{observe::Listening, prelude::*, time::TestClock};

use crate::kit::{Gate, Log, limited, many, millis, one, secs};

#[derive(Debug)]
struct Oops;

/// Goes through a sync, a retried and a blocking phase; `fails` attempts of the second one fail.
struct Walk {
    fails: u32,
    log: Log,
}

#[fom(operation(Walk), error(Oops), transient)]
enum Step {
    #[phase(start, to(Tries), sync)]
    One,
    #[allow(dead_code)]
    #[phase(to(Rests, Lost), retry = "2, 10ms..10ms")]
    Tries { base: u32 },
    #[phase(to(Rests, Done), blocking)]
    Rests { times: u32 },
    #[phase(end)]
    Done,
    #[phase(end, failure)]
    Lost,
}

impl StepTransitions for Walk {
    fn one(&mut self, _: &mut Cx<'_>) -> Result<StepAfterOne, Oops> {
        self.log.put("one");
        Ok(StepAfterOne::Tries { base: 40 })
    }
    async fn tries(&mut self, cx: &mut Cx<'_>, base: &mut u32) -> Result<StepAfterTries, Oops> {
        self.log.put("tries");
        cx.sleep(millis(5)).await;
        if self.fails > 0 {
            self.fails -= 1;
            return Err(Oops);
        }
        Ok(StepAfterTries::Rests { times: *base - 38 })
    }
    fn rests(&mut self, _: &mut BlockingCx<'_>, times: &mut u32) -> Result<StepAfterRests, Oops> {
        self.log.put("rests");
        Ok(match *times {
            1 => StepAfterRests::Done,
            times => StepAfterRests::Rests { times: times - 1 },
        })
    }
}

fn walk(fails: u32) -> Walk {
    Walk {
        fails,
        log: Log::default(),
    }
}

async fn run_for(runtime: &Runtime, clock: &TestClock, steps: u32) {
    for _ in 0..steps {
        runtime.quiet().await;
        clock.advance(millis(5));
    }
    runtime.quiet().await;
}

/// PR-01: a listener hears of every edge, chained ones too, in order, before the new phase runs. It gets the fom and
/// its key, the old and the new phase, the cause, the time, the duration of the visit, the locality, and the number of
/// failed attempts.
#[test]
fn a_listener_hears_of_every_transition() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let seen = log.clone();
        runtime
            .listen(move |step| {
                seen.put(format_args!(
                    "{} {}/{} {:?}: {} -> {} {} at {:?} after {:?} in {}, {} failed",
                    step.id(),
                    step.machine(),
                    step.operation_type(),
                    step.key().map(ToString::to_string),
                    step.from().unwrap_or("-"),
                    step.to().unwrap_or("-"),
                    step.cause(),
                    step.at(),
                    step.stayed(),
                    step.locality(),
                    step.attempt(),
                ));
            })
            .forever();
        clock.advance(secs(1));
        let gate = Gate::close(&runtime, 0);
        let fom = runtime
            .submit(Walk {
                log: log.clone(),
                ..walk(2)
            })
            .key("k")
            .start()
            .unwrap();
        let id = fom.id();
        clock.advance(millis(5));
        gate.open();
        run_for(&runtime, &clock, 8).await;
        fom.await.unwrap();
        let head = format!(r#"{id} Step/Walk Some("k")"#);
        assert_eq!(
            log.take(),
            [
                format!("{head}: - -> One started at 1.005s after 5ms in 0, 0 failed"),
                "one".into(),
                format!("{head}: One -> Tries returned at 1.005s after 0ns in 0, 0 failed"),
                "tries".into(),
                "tries".into(),
                "tries".into(),
                format!("{head}: Tries -> Rests returned at 1.04s after 35ms in 0, 2 failed"),
                "rests".into(),
                format!("{head}: Rests -> Rests returned at 1.04s after 0ns in 0, 0 failed"),
                "rests".into(),
                format!("{head}: Rests -> Done returned at 1.04s after 0ns in 0, 0 failed"),
            ]
        );
        // Into the failed outcome, with the attempts; and cancelled in the queue, before it began.
        let fom = runtime.submit(walk(3)).start().unwrap();
        run_for(&runtime, &clock, 8).await;
        assert!(fom.await.is_err());
        let last = log.take().pop().unwrap();
        assert!(
            last.contains(": Tries -> - error at ") && last.ends_with(", 2 failed"),
            "{last}"
        );
        let gate = Gate::close(&runtime, 0);
        let fom = runtime.submit(walk(0)).start().unwrap();
        fom.cancel();
        gate.open();
        assert!(fom.await.is_err());
        let lines = log.take();
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains(": One -> - cancelled at "), "{lines:?}");
    });
}

/// PR-01: with a type, a listener sees the operation and the phase with its data, as they are between two functions. It
/// gets shared references, so it cannot change either. It sees nothing of other types.
#[test]
fn a_typed_listener_sees_the_operation_and_the_phase() {
    struct Other;
    #[fom(operation(Other), error(Oops), transient)]
    enum Others {
        #[phase(start, to(End), sync)]
        Begin,
        #[phase(end)]
        End,
    }
    impl OthersTransitions for Other {
        fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
            Ok(())
        }
    }
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let seen = log.clone();
        let listening = runtime.listen_to::<Walk>(move |step| {
            let data = match step.phase() {
                Some(Step::Tries { base }) => base.to_string(),
                Some(Step::Rests { times }) => times.to_string(),
                Some(_) => "no data".into(),
                None => "no phase".into(),
            };
            seen.put(format_args!(
                "{:?} {data}, {} to fail",
                step.to(),
                step.operation().fails
            ));
        });
        runtime.submit(Other).await.unwrap();
        let fom = runtime.submit(walk(1)).start().unwrap();
        run_for(&runtime, &clock, 5).await;
        fom.await.unwrap();
        assert_eq!(
            log.take(),
            [
                r#"Some("One") no data, 1 to fail"#,
                r#"Some("Tries") 40, 1 to fail"#,
                r#"Some("Rests") 2, 0 to fail"#,
                r#"Some("Rests") 1, 0 to fail"#,
                r#"Some("Done") no data, 0 to fail"#,
            ]
        );
        let fom = runtime.submit(walk(9)).start().unwrap();
        run_for(&runtime, &clock, 8).await;
        assert!(fom.await.is_err());
        assert_eq!(log.take().pop().unwrap(), "None no phase, 6 to fail");
        drop(listening);
        runtime.submit(Other).await.unwrap();
        assert_eq!(log.take(), [""; 0]);
    });
}

/// PR-01: the order for one fom is the order of its transitions, also when many foms run in several localities at once.
#[test]
fn the_order_of_one_fom_is_kept() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = many(2, &clock).build().unwrap();
        let seen = Arc::new(Mutex::new(
            std::collections::BTreeMap::<u64, Vec<&str>>::new(),
        ));
        let steps = Arc::clone(&seen);
        runtime
            .listen(move |step| {
                let to = step.to().unwrap_or("failed");
                steps
                    .lock()
                    .unwrap()
                    .entry(step.id().get())
                    .or_default()
                    .push(to);
            })
            .forever();
        let foms: Vec<_> = (0..40)
            .map(|_| runtime.submit(walk(0)).start().unwrap())
            .collect();
        run_for(&runtime, &clock, 2).await;
        for fom in foms {
            fom.await.unwrap();
        }
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(seen.len(), 40);
        assert!(
            seen.values()
                .all(|steps| *steps == ["One", "Tries", "Rests", "Rests", "Done"]),
            "{seen:?}"
        );
    });
}

/// PR-01: a listener that panics is removed and reported; the fom and the other listeners notice nothing.
#[test]
fn a_listener_that_panics_is_taken_off() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let (first, last) = (log.clone(), log.clone());
        let calls = Arc::new(AtomicUsize::new(0));
        let called = Arc::clone(&calls);
        let _first = runtime.listen(move |step| first.put(format_args!("first {:?}", step.to())));
        let panics = runtime.listen(move |_| {
            called.fetch_add(1, Ordering::SeqCst);
            panic!("in a listener");
        });
        let _typed =
            runtime.listen_to::<Walk>(|step| assert_ne!(step.to(), Some("Done"), "no end"));
        let _last = runtime.listen(move |step| last.put(format_args!("last {:?}", step.to())));
        let fom = runtime.submit(walk(0)).start().unwrap();
        run_for(&runtime, &clock, 2).await;
        assert!(matches!(fom.await.unwrap().end, StepEnd::Done));
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        let expected: Vec<_> = ["One", "Tries", "Rests", "Rests", "Done"]
            .into_iter()
            .flat_map(|to| {
                [
                    format!("first {:?}", Some(to)),
                    format!("last {:?}", Some(to)),
                ]
            })
            .collect();
        assert_eq!(log.take(), expected);
        let incidents = runtime.operations().incidents;
        assert_eq!(incidents.len(), 2, "{incidents:?}");
        assert!(
            incidents[0].text.contains("in a listener") && incidents[1].text.contains("no end"),
            "{incidents:?}"
        );
        // The guard has no effect now, and is harmless.
        drop(panics);
        let fom = runtime.submit(walk(0)).start().unwrap();
        run_for(&runtime, &clock, 2).await;
        fom.await.unwrap();
        assert_eq!(log.take().len(), 10);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    });
}

/// PR-02: listeners hear in the order in which they were added; a dropped one hears no more; `forever` stays.
#[test]
fn listeners_are_told_in_their_order_until_they_are_dropped() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let listen = |name: &'static str| {
            let log = log.clone();
            runtime.listen(move |step| {
                if step.to() == Some("One") {
                    log.put(name);
                }
            })
        };
        let (a, b) = (listen("a"), listen("b"));
        listen("c").forever();
        let run = async || {
            let fom = runtime.submit(walk(0)).start().unwrap();
            run_for(&runtime, &clock, 2).await;
            fom.await.unwrap();
        };
        run().await;
        assert_eq!(log.take(), ["a", "b", "c"]);
        drop(b);
        run().await;
        assert_eq!(log.take(), ["a", "c"]);
        let again = listen("b");
        drop(a);
        run().await;
        assert_eq!(log.take(), ["c", "b"]);
        drop(runtime);
        // After the runtime: there is no list to remove it from.
        drop(again);
    });
}

/// PR-02: a listener added while a transition is told hears of the next one. A listener removed meanwhile, by itself or
/// by one before it, hears of this one at most. No lock is held: a listener may do either.
#[test]
fn listeners_change_while_a_transition_is_told() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let slot = Arc::new(Mutex::new(Vec::<Listening>::new()));
        let (mine, seen, weak) = (Arc::clone(&slot), log.clone(), runtime.clone());
        let changer = runtime.listen(move |step| {
            seen.put(format_args!("changer {:?}", step.to().unwrap()));
            match step.to() {
                // Adds a listener.
                Some("One") => {
                    let late = seen.clone();
                    let added = weak.listen(move |step| {
                        late.put(format_args!("added {:?}", step.to().unwrap()))
                    });
                    mine.lock().unwrap().push(added);
                }
                // Removes all listeners in the list, itself among them.
                Some("Rests") => {
                    let all = std::mem::take(&mut *mine.lock().unwrap());
                    drop(all);
                }
                _ => {}
            }
        });
        slot.lock().unwrap().push(changer);
        let after = log.clone();
        let stays =
            runtime.listen(move |step| after.put(format_args!("stays {:?}", step.to().unwrap())));
        let fom = runtime.submit(walk(0)).start().unwrap();
        run_for(&runtime, &clock, 2).await;
        fom.await.unwrap();
        drop(stays);
        assert_eq!(
            log.take(),
            [
                r#"changer "One""#,
                r#"stays "One""#,
                r#"changer "Tries""#,
                r#"stays "Tries""#,
                r#"added "Tries""#,
                r#"changer "Rests""#,
                r#"stays "Rests""#,
                r#"added "Rests""#,
                r#"stays "Rests""#,
                r#"stays "Done""#,
            ]
        );
    });
}

/// A listener may look at the runtime, and send to, wake and cancel foms, also the fom that it hears of.
#[test]
fn a_listener_may_use_the_runtime() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let inside = runtime.clone();
        let log = Log::default();
        let seen = log.clone();
        let listening = runtime.listen(move |step| {
            let fom = inside.operation(step.id());
            seen.put(format_args!(
                "{:?} {}",
                fom.map(|fom| fom.phase),
                inside.in_flight()
            ));
            if step.to() == Some("Tries") {
                assert!(inside.wake(step.id()));
                assert!(inside.cancel(step.id()));
            }
        });
        let failure = runtime.submit(walk(0)).await.unwrap_err();
        assert_eq!(
            (failure.cause.name(), failure.phase_name()),
            ("cancelled", "Tries")
        );
        assert_eq!(
            log.take(),
            [
                r#"Some("One") 1"#,
                r#"Some("Tries") 1"#,
                r#"Some("Tries") 1"#
            ]
        );
        drop(listening);
    });
}
