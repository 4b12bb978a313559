//! A panic, in a phase function or in a drop, ends its fom and nothing else.

use std::future::pending;

use fom_runtime::{prelude::*, time::TestClock};

use crate::kit::foms::{Chain, Oops, Word};
use crate::kit::task::{self, quick};
use crate::kit::{Gate, Log, limited, one, secs};

/// Every kind of phase function; panics at one place.
struct Fuse {
    at: &'static str,
}

impl Fuse {
    fn pass(&self, place: &str) {
        assert!(self.at != place, "blown at {place}");
    }
}

#[fom(operation(Fuse), error(Oops), event(Word), transient)]
enum Fused {
    #[phase(start, to(Asyn), sync)]
    Plain,
    #[phase(to(Block))]
    Asyn,
    #[phase(to(Event), blocking)]
    Block,
    #[phase(to(Slow), sync, on(Go, Fail, Stop), within = "1s", late)]
    Event,
    #[phase(to(Done), within = "1s", late)]
    Slow,
    #[phase(end)]
    Done,
}

impl FusedTransitions for Fuse {
    fn plain(&mut self, _: &mut Cx<'_, Word>) -> Result<(), Oops> {
        self.pass("sync");
        Ok(())
    }
    async fn asyn(&mut self, _: &mut Cx<'_, Word>) -> Result<(), Oops> {
        self.pass("async");
        tokio::task::yield_now().await;
        self.pass("async, after a wait");
        Ok(())
    }
    fn block(&mut self, _: &mut BlockingCx<'_>) -> Result<(), Oops> {
        self.pass("blocking");
        Ok(())
    }
    fn event(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<FusedAfterEvent, Oops> {
        self.pass("event");
        Ok(FusedAfterEvent::Slow)
    }
    fn event_late(&mut self, _: &mut Cx<'_, Word>) -> Result<FusedAfterEvent, Oops> {
        self.pass("late of a sync phase");
        Ok(FusedAfterEvent::Slow)
    }
    async fn slow(&mut self, _: &mut Cx<'_, Word>) -> Result<(), Oops> {
        pending().await
    }
    async fn slow_late(&mut self, _: &mut Cx<'_, Word>) -> Result<(), Oops> {
        self.pass("late of an async phase");
        Ok(())
    }
}

/// FL-06: a panic in any phase function ends its fom in the failed outcome, with the message, the phase and the
/// operation. Listeners hear of it, and the locality goes on.
#[test]
fn a_panic_ends_its_fom_and_nothing_else() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let seen = log.clone();
        runtime
            .listen(move |step| {
                if step.to().is_none() {
                    seen.put(format_args!("{:?} {}", step.from(), step.cause()));
                }
            })
            .forever();
        for (at, phase) in [
            ("sync", "Plain"),
            ("async", "Asyn"),
            ("async, after a wait", "Asyn"),
            ("blocking", "Block"),
            ("event", "Event"),
            ("late of a sync phase", "Event"),
            ("late of an async phase", "Slow"),
        ] {
            let fom = runtime.submit(Fuse { at }).start().unwrap();
            runtime.quiet().await;
            if at == "event" {
                fom.send(Word::Go).unwrap();
                runtime.quiet().await;
            }
            for _ in 0..2 {
                clock.advance(secs(1));
                runtime.quiet().await;
            }
            let failure = fom.await.unwrap_err();
            let message = format!("blown at {at}");
            assert!(
                matches!(&failure.cause, Cause::Panicked(what) if *what == message),
                "{failure:?}"
            );
            assert_eq!(
                (
                    failure.phase_name(),
                    failure.operation.map(|fuse| fuse.into_inner().at)
                ),
                (phase, Some(at))
            );
            assert_eq!(log.take(), [format!("Some({phase:?}) panicked")]);
            // The same locality, the same threads.
            runtime
                .submit(Chain {
                    name: 'x',
                    links: 3,
                    log: Log::default(),
                })
                .await
                .unwrap();
        }
        runtime.idle().await;
        let locality = &runtime.operations().localities[0];
        assert_eq!((locality.foms, locality.blocked_threads), (0, 0));
    });
}

/// Panics when it is dropped.
struct Bomb(&'static str);

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("{}", self.0);
        }
    }
}

/// FL-06: a panic in the drop of what the fom holds does not end the worker either. The fom holds data of a left phase,
/// an operation with an unwanted outcome, an untaken event, and the locals of an async function.
#[test]
fn a_panic_in_a_drop_ends_nothing_else() {
    struct Armed {
        /// Held until the drop.
        _held: Option<Bomb>,
        data: bool,
        local: bool,
    }
    #[derive(Debug)]
    enum Ball {
        Roll(#[allow(dead_code)] BombEvent),
    }
    #[derive(Debug)]
    struct BombEvent;
    impl Drop for BombEvent {
        fn drop(&mut self) {
            drop(Bomb("the event"));
        }
    }
    #[fom(operation(Armed), error(Oops), event(Ball), transient)]
    enum Arming {
        #[phase(start, to(Holds), sync)]
        Begin,
        #[allow(dead_code)]
        #[phase(to(Waits, Done))]
        Holds { data: Option<Bomb> },
        #[phase(to(Done), on(Roll))]
        Waits,
        #[phase(end)]
        Done,
    }
    impl ArmingTransitions for Armed {
        fn begin(&mut self, _: &mut Cx<'_, Ball>) -> Result<ArmingAfterBegin, Oops> {
            Ok(ArmingAfterBegin::Holds {
                data: self.data.then(|| Bomb("the data")),
            })
        }
        async fn holds(
            &mut self,
            _: &mut Cx<'_, Ball>,
            _: &mut Option<Bomb>,
        ) -> Result<ArmingAfterHolds, Oops> {
            let _local = self.local.then(|| Bomb("the local"));
            if self.local {
                pending::<()>().await;
            }
            Ok(ArmingAfterHolds::Done)
        }
        async fn waits(&mut self, _: &mut Cx<'_, Ball>) -> Result<(), Oops> {
            pending().await
        }
    }
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let armed = || Armed {
            _held: None,
            data: false,
            local: false,
        };

        let failure = runtime
            .submit(Armed {
                data: true,
                ..armed()
            })
            .await
            .unwrap_err();
        assert!(
            matches!(&failure.cause, Cause::Panicked(what) if what == "the data"),
            "{failure:?}"
        );

        let fom = runtime
            .submit(Armed {
                local: true,
                ..armed()
            })
            .start()
            .unwrap();
        runtime.quiet().await;
        fom.cancel();
        let failure = fom.await.unwrap_err();
        assert!(
            matches!(&failure.cause, Cause::Panicked(what) if what == "the local"),
            "{failure:?}"
        );

        let gate = Gate::close(&runtime, 0);
        let _held = Some(Bomb("the operation"));
        drop(runtime.submit(Armed { _held, ..armed() }).start().unwrap());
        gate.open();
        runtime.idle().await;

        let gate = Gate::close(&runtime, 0);
        let fom = runtime.submit(armed()).start().unwrap();
        fom.send(Ball::Roll(BombEvent)).unwrap();
        // The outcome is unwanted, and with it the event that goes back.
        drop(fom);
        gate.open();
        runtime.idle().await;

        assert_eq!(
            runtime.call(0, |local| local.index()).await,
            Ok(0),
            "the locality lives"
        );
        let incidents = runtime.operations().incidents;
        assert!(
            incidents
                .iter()
                .any(|what| what.text.contains("the operation")),
            "{incidents:?}"
        );
        assert!(
            incidents.iter().any(|what| what.text.contains("the event")),
            "{incidents:?}"
        );
    });
}

/// FL-06: a panic payload that panics in its own drop does not end the worker either.
#[test]
fn a_payload_that_panics_in_its_drop() {
    struct Careless;
    #[fom(operation(Careless), transient)]
    enum Throwing {
        #[phase(start, to(Done), sync)]
        Throw,
        #[phase(end)]
        Done,
    }
    impl ThrowingTransitions for Careless {
        fn throw(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            std::panic::panic_any(Bomb("the payload"));
        }
    }
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let failure = runtime.submit(Careless).await.unwrap_err();
        assert!(
            matches!(&failure.cause, Cause::Panicked(what) if what.contains("without a message"))
        );
        assert_eq!(
            runtime.call(0, |local| local.index()).await,
            Ok(0),
            "the locality lives"
        );
    });
}

/// FL-06: an operation's `Drop` may panic when no caller takes the outcome: the locality survives.
#[test]
fn a_panic_in_the_drop_of_an_unwanted_outcome() {
    let _limit = task::limit();
    let runtime = task::one();
    // The handle goes before the fom runs: the outcome is dropped where the fom ends.
    let submits = quick(|cx| {
        let explodes = cx.submit(Explosive).place(Placement::Here);
        drop(explodes.start().unwrap());
    });
    runtime.submit(submits).start().unwrap().wait().unwrap();
    runtime
        .submit(quick(|_| {}))
        .start()
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(runtime.in_flight(), 0);
    let incidents = runtime.operations().incidents;
    assert!(
        incidents.len() == 1 && incidents[0].text.contains("dropped badly"),
        "{incidents:?}"
    );
    runtime.shutdown_blocking(Shutdown::Drain, task::LIMIT);
}

/// LO-11: a locality ends even if the `Drop` of its data or of a posted job panics.
#[test]
fn bad_drops_at_the_end() {
    let _limit = task::limit();
    let runtime = Runtime::builder()
        .localities(2)
        .pin(false)
        .locality_data(|_| Ok::<_, BoxError>(Explosive))
        .build()
        .unwrap();
    let begun = std::time::Instant::now();
    let report = runtime.shutdown_blocking(Shutdown::Drain, task::LIMIT);
    assert!(report.remained.is_empty());
    assert!(begun.elapsed() < task::LIMIT / 2);
    task::until("its threads end", || {
        runtime
            .operations()
            .localities
            .iter()
            .all(|home| home.threads == 0)
    });
    let incidents = runtime.operations().incidents;
    assert_eq!(incidents.len(), 2);
    assert!(
        incidents[0].text.contains("the data of locality"),
        "{incidents:?}"
    );
}

struct Explosive;

impl Drop for Explosive {
    fn drop(&mut self) {
        panic!("dropped badly");
    }
}

#[fom(operation(Explosive), transient)]
enum Exploding {
    #[phase(start, sync, to(Out))]
    Burn,
    #[phase(end)]
    Out,
}

impl ExplodingTransitions for Explosive {
    fn burn(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}
