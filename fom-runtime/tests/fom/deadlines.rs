//! Deadlines of one visit, deadlines kept over several phases, and their clock.

use std::{future::pending, sync::mpsc, time::Duration};

use fom_runtime::{
    error::BoxError,
    machine::FomState,
    observe::TransitionCause,
    prelude::*,
    time::{Clock, Instant, TestClock},
};

use crate::kit::{Log, limited, millis, one, secs};

#[derive(Debug, PartialEq)]
enum News {
    Ping(u32),
}

/// WK-10: a deadline is absolute and belongs to one visit of a phase. It fires as soon as it has passed and not before,
/// and never after the phase was left.
/// WK-12: the fom learns that it is late through its late function, or fails with a cause that names the phase.
/// Listeners get a cause, too.
#[test]
fn a_deadline_belongs_to_one_visit() {
    struct Visits(Log);
    #[fom(operation(Visits), event(News), transient)]
    enum Visiting {
        #[phase(start, to(Second), within = "5s", late, on(Ping))]
        First,
        #[phase(to(Third), within = "5s", on(Ping), sync)]
        Second,
        #[phase(to(Done), on(Ping), within = "1m")]
        Third,
        #[phase(end)]
        Done,
    }
    impl VisitingTransitions for Visits {
        async fn first(&mut self, cx: &mut Cx<'_, News>) -> Result<(), BoxError> {
            self.0.put(format_args!("first, due {:?}", cx.deadline()));
            cx.event().await;
            Ok(())
        }
        async fn first_late(&mut self, cx: &mut Cx<'_, News>) -> Result<(), BoxError> {
            self.0.put(format_args!(
                "late at {:?}, due {:?}",
                cx.now(),
                cx.deadline()
            ));
            Ok(())
        }
        fn second(
            &mut self,
            _: &mut Cx<'_, News>,
            _: News,
        ) -> Result<VisitingAfterSecond, BoxError> {
            Ok(VisitingAfterSecond::Third)
        }
        async fn third(&mut self, cx: &mut Cx<'_, News>) -> Result<(), BoxError> {
            self.0.put("third");
            cx.event().await;
            Ok(())
        }
    }
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let causes = log.clone();
        runtime
            .listen(move |step| match step.cause() {
                TransitionCause::Late | TransitionCause::Failed(_) => causes.put(step.cause()),
                _ => {}
            })
            .forever();
        // Not a nanosecond too early.
        clock.advance(secs(1));
        let fom = runtime.submit(Visits(log.clone())).start().unwrap();
        runtime.quiet().await;
        clock.advance(secs(5) - Duration::from_nanos(1));
        runtime.quiet().await;
        assert_eq!(log.take(), ["first, due Some(6s)"]);
        clock.advance(Duration::from_nanos(1));
        runtime.quiet().await;
        assert_eq!(log.take(), ["late at 6s, due None", "late"]);
        // The next visit has its own deadline, and no late function.
        clock.advance(secs(4));
        runtime.quiet().await;
        assert_eq!(log.take(), [""; 0]);
        clock.advance(secs(1));
        let failure = fom.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Late { armed_in: "Second" }));
        assert_eq!(
            (failure.phase_name(), failure.operation.is_some()),
            ("Second", true)
        );
        assert_eq!(log.take(), ["late"]);
        // Left in time: the armed deadline is gone.
        let fom = runtime.submit(Visits(log.clone())).start().unwrap();
        runtime.quiet().await;
        clock.advance(secs(4));
        fom.send(News::Ping(1)).unwrap();
        fom.send(News::Ping(2)).unwrap();
        runtime.quiet().await;
        clock.advance(secs(30));
        runtime.quiet().await;
        assert_eq!(fom.state(), FomState::Waiting);
        assert_eq!(log.take(), ["first, due Some(16s)", "third"]);
        // A deadline that passed long ago fires as soon as the locality looks at it.
        clock.advance(secs(3600));
        let failure = fom.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Late { armed_in: "Third" }));
    });
}

/// WK-10: a deadline that passes while its fom runs or is queued takes nothing from the fom: a result that is there
/// counts. An event is lost only if it comes after the deadline was seen.
#[test]
fn a_result_beats_a_deadline_that_passed_meanwhile() {
    struct Slow(mpsc::Sender<()>, mpsc::Receiver<()>);
    #[fom(operation(Slow), transient)]
    enum Slowly {
        #[phase(start, to(Done), within = "1s", blocking)]
        Work,
        #[phase(end)]
        Done,
    }
    impl SlowlyTransitions for Slow {
        fn work(&mut self, _: &mut BlockingCx<'_>) -> Result<(), BoxError> {
            self.0.send(()).unwrap();
            self.1.recv().unwrap();
            Ok(())
        }
    }
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let (stands, standing) = mpsc::channel();
        let (go, gone) = mpsc::channel();
        let fom = runtime.submit(Slow(stands, gone)).start().unwrap();
        standing.recv().unwrap();
        clock.advance(secs(2));
        // The locality has looked at its timers meanwhile.
        assert_eq!(runtime.call(0, |local| local.index()).await, Ok(0));
        go.send(()).unwrap();
        assert!(matches!(fom.await.unwrap().end, SlowlyEnd::Done));
    });
}

/// Goes through phases, some of which keep the deadline of the first phase.
struct Keeps {
    stop: &'static str,
    log: Log,
}

#[fom(operation(Keeps), event(News), transient)]
enum Keeping {
    #[phase(
        start,
        to(Inner),
        within = "10s",
        keep(Inner, Own, Lates, Last),
        on(Ping)
    )]
    Outer,
    #[phase(to(Own, Outside), on(Ping))]
    Inner,
    #[phase(to(Lates), on(Ping), within = "20s")]
    Own,
    #[phase(to(Last), on(Ping), within = "1s", late)]
    Lates,
    #[phase(to(Outside, Outer), on(Ping))]
    Last,
    #[phase(to(Done), on(Ping))]
    Outside,
    #[phase(end)]
    Done,
}

impl Keeps {
    async fn wait(&self, name: &str, cx: &Cx<'_, News>) {
        self.log.put(format_args!("{name} due {:?}", cx.deadline()));
        cx.event().await;
    }
}

impl KeepingTransitions for Keeps {
    async fn outer(&mut self, cx: &mut Cx<'_, News>) -> Result<(), BoxError> {
        self.wait("Outer", cx).await;
        Ok(())
    }
    async fn inner(&mut self, cx: &mut Cx<'_, News>) -> Result<KeepingAfterInner, BoxError> {
        self.wait("Inner", cx).await;
        Ok(if self.stop == "Inner" {
            KeepingAfterInner::Outside
        } else {
            KeepingAfterInner::Own
        })
    }
    async fn own(&mut self, cx: &mut Cx<'_, News>) -> Result<(), BoxError> {
        self.wait("Own", cx).await;
        Ok(())
    }
    async fn lates(&mut self, cx: &mut Cx<'_, News>) -> Result<(), BoxError> {
        self.wait("Lates", cx).await;
        Ok(())
    }
    async fn lates_late(&mut self, cx: &mut Cx<'_, News>) -> Result<(), BoxError> {
        self.log.put(format_args!("Lates late at {:?}", cx.now()));
        Ok(())
    }
    async fn last(&mut self, cx: &mut Cx<'_, News>) -> Result<KeepingAfterLast, BoxError> {
        self.wait("Last", cx).await;
        Ok(if self.stop == "again" {
            KeepingAfterLast::Outer
        } else {
            KeepingAfterLast::Outside
        })
    }
    async fn outside(&mut self, cx: &mut Cx<'_, News>) -> Result<(), BoxError> {
        self.wait("Outside", cx).await;
        Ok(())
    }
}

async fn keeps(runtime: &Runtime, clock: &TestClock, fom: &FomRef<Keeps>, seconds: &[u64]) {
    for second in seconds {
        runtime.quiet().await;
        clock.advance(secs(*second));
        runtime.quiet().await;
        // An error means that the fom ended.
        let _ = fom.send(News::Ping(0));
    }
    runtime.quiet().await;
}

/// WK-11: a kept deadline goes on in the phases of its set, beside their own deadlines; the nearer deadline counts.
/// Leaving the set cancels the kept deadline. (The macro checks that its exits fit all of those phases: tests/ui.)
#[test]
fn a_kept_deadline_goes_on_in_its_set_and_ends_outside() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        // Through two phases of the set and out: nothing fires later.
        let fom = runtime
            .submit(Keeps {
                stop: "Inner",
                log: log.clone(),
            })
            .start()
            .unwrap();
        keeps(&runtime, &clock, &fom, &[3, 3]).await;
        assert_eq!(
            log.take(),
            [
                "Outer due Some(10s)",
                "Inner due Some(10s)",
                "Outside due None"
            ]
        );
        keeps(&runtime, &clock, &fom, &[1000]).await;
        assert!(matches!(fom.await.unwrap().end, KeepingEnd::Done));

        // The deadline passes in a phase with a farther deadline of its own: the cause names the phase that armed it.
        let start = runtime.now();
        let fom = runtime
            .submit(Keeps {
                stop: "",
                log: log.clone(),
            })
            .start()
            .unwrap();
        keeps(&runtime, &clock, &fom, &[3, 3, 4]).await;
        let due = start + secs(10);
        assert_eq!(
            log.take(),
            [
                format!("Outer due Some({due:?})"),
                format!("Inner due Some({due:?})"),
                format!("Own due Some({due:?})")
            ]
        );
        let failure = fom.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Late { armed_in: "Outer" }));
        assert_eq!(failure.phase_name(), "Own");
    });
}

/// WK-11: a phase of the set that misses its own, nearer deadline runs its late function, and the kept deadline goes
/// on. The kept deadline counts in the next phase of the set. A new visit of the phase that arms it starts it anew.
#[test]
fn a_kept_deadline_outlives_a_nearer_one_that_was_missed() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let fom = runtime
            .submit(Keeps {
                stop: "again",
                log: log.clone(),
            })
            .start()
            .unwrap();
        keeps(&runtime, &clock, &fom, &[1, 1, 1]).await;
        runtime.quiet().await;
        clock.advance(secs(1));
        runtime.quiet().await;
        assert_eq!(
            log.take(),
            [
                "Outer due Some(10s)",
                "Inner due Some(10s)",
                "Own due Some(10s)",
                "Lates due Some(4s)",
                "Lates late at 4s",
                "Last due Some(10s)",
            ]
        );
        keeps(&runtime, &clock, &fom, &[1]).await;
        assert_eq!(log.take(), ["Outer due Some(15s)"]);
        clock.advance(secs(10));
        let failure = fom.await.unwrap_err();
        assert_eq!(
            (failure.cause.name(), failure.phase_name()),
            ("late", "Outer")
        );

        // Kept, and missed in the next phase.
        let start = runtime.now();
        let fom = runtime
            .submit(Keeps {
                stop: "",
                log: log.clone(),
            })
            .start()
            .unwrap();
        keeps(&runtime, &clock, &fom, &[1, 1, 1]).await;
        clock.advance(secs(1));
        runtime.quiet().await;
        assert_eq!(fom.phase(), "Last");
        clock.advance(start + secs(10) - runtime.now());
        let failure = fom.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Late { armed_in: "Outer" }));
        assert_eq!(failure.phase_name(), "Last");
    });
}

/// Waits forever, with a deadline of a few milliseconds.
struct Real;

#[fom(operation(Real), transient)]
enum Really {
    #[phase(start, to(Sleep), within = "5ms", late)]
    Hang,
    #[phase(to(Done))]
    Sleep,
    #[phase(end)]
    Done,
}

impl ReallyTransitions for Real {
    async fn hang(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        pending().await
    }
    async fn hang_late(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    async fn sleep(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.sleep(millis(5)).await;
        Ok(())
    }
}

/// WK-16: all times come from one clock: the clock of a test, which moves when the test moves it, or the machine's
/// monotonic clock. On a clock that stands still, nothing is ever late. `durable::identity` of fom-durable tests the
/// steps of the machine's date.
/// Trap 12: an idle locality without any posts still serves its deadlines and its sleeps.
#[test]
fn time_comes_from_the_clock_and_passes_while_idle() {
    limited(|| async {
        let real = Runtime::builder()
            .localities(1)
            .pin(false)
            .clock(Clock::system())
            .build()
            .unwrap();
        let before = real.now();
        assert!(matches!(
            real.submit(Real).await.unwrap().end,
            ReallyEnd::Done
        ));
        assert!(real.now() - before >= millis(10), "both took their time");

        let clock = TestClock::new();
        let test = one(&clock).build().unwrap();
        let fom = test.submit(Real).start().unwrap();
        test.quiet().await;
        assert_eq!((test.now(), fom.phase()), (Instant::START, "Hang"));
        clock.advance(millis(5));
        test.quiet().await;
        assert_eq!(fom.phase(), "Sleep");
        clock.advance(millis(5));
        fom.await.unwrap();
        assert_eq!(test.now(), Instant::START + millis(10));
    });
}
