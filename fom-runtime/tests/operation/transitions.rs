//! One transition, and many in a row: their order, their causes, and the effect of an error.

use fom_runtime::{observe::TransitionCause, prelude::*, time::TestClock};

use crate::kit::{Log, limited, one, secs};
use crate::trip::{LegEnd, Oops, Trip};

/// SM-05: one transition has this order: the old phase's function returns and its data is dropped; the phase is stored;
/// listeners hear of it and see the new phase; the new phase's function is entered. The exit and entry of a phase are
/// its function's end and beginning. A phase has no actions beside its function.
#[test]
fn the_order_of_one_transition() {
    struct Noisy(Log, &'static str);
    impl Drop for Noisy {
        fn drop(&mut self) {
            self.0.put(format_args!("{} dropped", self.1));
        }
    }
    struct Pass(Log);
    #[fom(operation(Pass), transient)]
    enum Passing {
        #[phase(start, to(First))]
        Begin,
        #[phase(to(Second))]
        First { held: Noisy },
        #[phase(to(Done))]
        Second { held: Noisy },
        #[phase(end)]
        Done,
    }
    impl PassingTransitions for Pass {
        async fn begin(
            &mut self,
            _: &mut Cx<'_>,
        ) -> Result<PassingAfterBegin, fom_runtime::error::BoxError> {
            self.0.put("begin returns");
            Ok(PassingAfterBegin::First {
                held: Noisy(self.0.clone(), "data of First"),
            })
        }
        async fn first(
            &mut self,
            _: &mut Cx<'_>,
            _: &mut Noisy,
        ) -> Result<PassingAfterFirst, fom_runtime::error::BoxError> {
            self.0.put("first entered");
            let _local = Noisy(self.0.clone(), "local of first");
            Ok(PassingAfterFirst::Second {
                held: Noisy(self.0.clone(), "data of Second"),
            })
        }
        async fn second(
            &mut self,
            _: &mut Cx<'_>,
            _: &mut Noisy,
        ) -> Result<(), fom_runtime::error::BoxError> {
            self.0.put("second entered");
            Ok(())
        }
    }
    limited(|| async {
        let log = Log::default();
        let runtime = one(&TestClock::new()).build().unwrap();
        let (seen, lookup) = (log.clone(), runtime.clone());
        let listening = runtime.listen(move |step| {
            // The listing already shows the new phase, and shows nothing else in the end.
            let now = lookup.operation(step.id()).map(|fom| fom.phase);
            seen.put(format_args!("{step} seen in {}", now.unwrap_or("none")));
        });
        runtime.submit(Pass(log.clone())).await.unwrap();
        drop(listening);
        let id = 1;
        assert_eq!(
            log.take(),
            [
                format!("Pass {id}: Begin (started) seen in Begin"),
                "begin returns".into(),
                format!("Pass {id}: Begin -> First (returned) seen in First"),
                "first entered".into(),
                "local of first dropped".into(),
                "data of First dropped".into(),
                format!("Pass {id}: First -> Second (returned) seen in Second"),
                "second entered".into(),
                "data of Second dropped".into(),
                format!("Pass {id}: Second -> Done (returned) seen in Done"),
            ]
        );
    });
}

/// SM-05: the invariant of a phase is checked at each transition into it, also into an end. It sees the data of the
/// phase. It runs after the function of the old phase, and before anything else sees the new one: a phase with a broken
/// invariant is never entered, and never stored. A release build does not check.
#[test]
fn the_invariant_of_a_phase_is_checked_before_it_is_entered() {
    struct Order {
        log: Log,
        pay: u32,
        paid: u32,
    }
    #[fom(operation(Order), error(Oops), transient)]
    enum Ordering {
        #[phase(start, to(Paid))]
        Open,
        #[phase(invariant, to(Shipped), failed(Refunded))]
        Paid { price: u32 },
        #[phase(end, invariant)]
        Shipped,
        #[phase(end, failure)]
        Refunded,
    }
    impl OrderingTransitions for Order {
        async fn open(&mut self, _: &mut Cx<'_>) -> Result<OrderingAfterOpen, Oops> {
            self.paid = self.pay;
            self.log.put("open returns");
            Ok(OrderingAfterOpen::Paid { price: 5 })
        }
        async fn paid(&mut self, _: &mut Cx<'_>, price: &mut u32) -> Result<(), Oops> {
            self.log.put("paid entered");
            self.paid -= *price;
            Ok(())
        }
        async fn paid_failed(
            &mut self,
            _: &mut Cx<'_>,
            _: &mut u32,
            cause: Cause<Oops>,
        ) -> Result<(), Oops> {
            self.log.put(format_args!("{cause:?}"));
            Ok(())
        }
        fn paid_invariant(&self, price: &u32) -> bool {
            self.log.put("check Paid");
            self.paid >= *price
        }
        fn shipped_invariant(&self) -> bool {
            self.log.put("check Shipped");
            self.paid == 0
        }
    }
    limited(|| async {
        let log = Log::default();
        let runtime = one(&TestClock::new()).build().unwrap();
        let heard = log.clone();
        let _listening = runtime.listen(move |step| heard.put(step.to().unwrap_or("failed")));
        let order = |pay| Order {
            log: log.clone(),
            pay,
            paid: 0,
        };
        let checked = |entry: &'static str| cfg!(debug_assertions).then_some(entry);

        runtime.submit(order(5)).await.unwrap();
        let good = [
            Some("Open"),
            Some("open returns"),
            checked("check Paid"),
            Some("Paid"),
            Some("paid entered"),
            checked("check Shipped"),
            Some("Shipped"),
        ];
        assert_eq!(log.take(), good.into_iter().flatten().collect::<Vec<_>>());
        if cfg!(not(debug_assertions)) {
            return;
        }

        let failure = runtime.submit(order(4)).await.unwrap_err();
        assert_eq!(failure.phase_name(), "Open");
        assert!(
            matches!(&failure.cause, Cause::Panicked(text)
                if text == "the invariant of phase `Paid` does not hold"),
            "{failure:?}"
        );
        assert_eq!(log.take(), ["Open", "open returns", "check Paid", "failed"]);

        let ended = runtime.submit(order(6)).await.unwrap();
        assert_eq!(ended.kind(), OrderingKind::Refunded);
        let log = log.take();
        assert_eq!(log[5], "check Shipped");
        assert!(log[6].contains("`Shipped` does not hold"), "{}", log[6]);
        assert_eq!(log[7..], ["Refunded"]);
    });
}

mod chain {
    use super::*;

    pub(super) struct Count {
        pub(super) left: u32,
        pub(super) least_stack: usize,
    }

    #[fom(operation(Count), transient)]
    pub(super) enum Counting {
        #[phase(start, to(Link, Done), sync)]
        Link,
        #[phase(end)]
        Done,
    }

    impl CountingTransitions for Count {
        fn link(
            &mut self,
            _: &mut Cx<'_>,
        ) -> Result<CountingAfterLink, fom_runtime::error::BoxError> {
            let here = 0u8;
            self.least_stack = self.least_stack.min(std::ptr::from_ref(&here).addr());
            self.left -= 1;
            Ok(if self.left == 0 {
                CountingAfterLink::Done
            } else {
                CountingAfterLink::Link
            })
        }
    }

    pub(super) struct AsyncCount(pub(super) u32);

    #[fom(operation(AsyncCount), transient)]
    pub(super) enum AsyncCounting {
        #[phase(start, to(Even, Done))]
        Odd,
        #[phase(to(Odd, Done))]
        Even,
        #[phase(end)]
        Done,
    }

    impl AsyncCountingTransitions for AsyncCount {
        async fn odd(
            &mut self,
            _: &mut Cx<'_>,
        ) -> Result<AsyncCountingAfterOdd, fom_runtime::error::BoxError> {
            self.0 -= 1;
            Ok(if self.0 == 0 {
                AsyncCountingAfterOdd::Done
            } else {
                AsyncCountingAfterOdd::Even
            })
        }
        async fn even(
            &mut self,
            _: &mut Cx<'_>,
        ) -> Result<AsyncCountingAfterEven, fom_runtime::error::BoxError> {
            self.0 -= 1;
            Ok(if self.0 == 0 {
                AsyncCountingAfterEven::Done
            } else {
                AsyncCountingAfterEven::Odd
            })
        }
    }
}

const LINKS: u32 = 100_000;

/// SM-06: a chain of 100,000 links, each checked, counted and told to listeners, does not recurse. The phase function
/// never lies deeper in the stack than in its first runs.
#[test]
fn a_chain_of_any_length_does_not_recurse() {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let told = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&told);
        runtime
            .listen(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            })
            .forever();
        let short = chain::Count {
            left: 10,
            least_stack: usize::MAX,
        };
        let short = runtime.submit(short).await.unwrap().operation;
        assert_eq!(
            told.swap(0, Ordering::Relaxed),
            11,
            "the start and ten exits"
        );
        let long = chain::Count {
            left: LINKS,
            least_stack: usize::MAX,
        };
        let long = runtime.submit(long).await.unwrap().operation;
        assert_eq!(told.swap(0, Ordering::Relaxed), LINKS + 1);
        // Another thread of the locality may have run it; but each has its own stack, far away.
        let deeper = short.least_stack.saturating_sub(long.least_stack);
        assert!(!(4096..1 << 20).contains(&deeper), "{deeper} bytes deeper");
        runtime.submit(chain::AsyncCount(LINKS)).await.unwrap();
        assert_eq!(told.swap(0, Ordering::Relaxed), LINKS + 1);
    });
}

/// SM-07: a transition of a phase to itself is a transition. The phase's function is entered again with new data,
/// listeners hear of it, and the deadline begins anew.
#[test]
fn a_phase_that_goes_to_itself_is_entered_again() {
    struct Again(u32, Log);
    #[fom(operation(Again), transient)]
    enum Looping {
        #[phase(start, to(Turn))]
        Begin,
        #[phase(to(Turn, Done), within = "10s")]
        Turn { number: u32 },
        #[phase(end)]
        Done,
    }
    impl LoopingTransitions for Again {
        async fn begin(
            &mut self,
            _: &mut Cx<'_>,
        ) -> Result<LoopingAfterBegin, fom_runtime::error::BoxError> {
            Ok(LoopingAfterBegin::Turn { number: 1 })
        }
        async fn turn(
            &mut self,
            cx: &mut Cx<'_>,
            number: &mut u32,
        ) -> Result<LoopingAfterTurn, fom_runtime::error::BoxError> {
            self.1.put(format_args!(
                "turn {number} due {:?}",
                cx.deadline().unwrap()
            ));
            cx.sleep(secs(7)).await;
            Ok(if *number == self.0 {
                LoopingAfterTurn::Done
            } else {
                LoopingAfterTurn::Turn {
                    number: *number + 1,
                }
            })
        }
    }
    limited(|| async {
        let clock = TestClock::new();
        let log = Log::default();
        let runtime = one(&clock).build().unwrap();
        let seen = log.clone();
        runtime
            .listen(move |step| seen.put(format_args!("{:?} to {:?}", step.from(), step.to())))
            .forever();
        let handle = runtime.submit(Again(3, log.clone())).start().unwrap();
        for _ in 0..3 {
            runtime.quiet().await;
            clock.advance(secs(7));
        }
        handle.await.unwrap();
        assert_eq!(
            log.take(),
            [
                r#"None to Some("Begin")"#,
                r#"Some("Begin") to Some("Turn")"#,
                "turn 1 due 10s",
                r#"Some("Turn") to Some("Turn")"#,
                "turn 2 due 17s",
                r#"Some("Turn") to Some("Turn")"#,
                "turn 3 due 24s",
                r#"Some("Turn") to Some("Done")"#,
            ]
        );
    });
}

/// SM-08: a failure carries its error and its phase, and is final: a failed fom takes no transition, so none can clear
/// the failure. The failed outcome is told to listeners once, as the last event. A transition without an error may
/// enter a phase marked `failure`, too. Trap 4: a state set after the failure, which would lose the error, cannot be
/// written.
#[test]
fn the_first_error_stays() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let told = Log::default();
        let log = told.clone();
        runtime.listen(move |step| log.put(step)).forever();
        let handle = runtime
            .submit(Trip::new(&["Walk", "first", "There"]))
            .start()
            .unwrap();
        let fom = handle.fom().clone();
        let failure = handle.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Error(Oops("first"))));
        assert_eq!(
            (failure.phase_name(), failure.cause.name()),
            ("Walk", "error")
        );
        let operation = failure.operation.expect("it is given back").into_inner();
        assert_eq!(operation.way, ["There"], "nothing ran after the failure");
        fom.wake();
        fom.cancel();
        runtime.quiet().await;
        assert_eq!(
            told.take(),
            [
                "Trip 1: Home (started)",
                "Trip 1: Home -> Walk (returned)",
                "Trip 1: Walk -> failed (error): Oops(\"first\")"
            ]
        );
    });
}

/// SM-09: `Ok` goes to the exit, `Err` to the failed outcome with the error, in every kind of phase; `?` does both.
#[test]
fn ok_moves_on_and_an_error_fails() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        for (way, phase) in [
            (&["oh"][..], "Home"),
            (&["Walk", "oh"], "Walk"),
            (&["Ride", "oh"], "Ride"),
        ] {
            let failure = runtime.submit(Trip::new(way)).await.unwrap_err();
            assert!(matches!(failure.cause, Cause::Error(Oops("oh"))));
            assert_eq!(failure.phase_name(), phase);
        }
        // An end phase that is a failure is an outcome like any other, with its data; only the totals count it
        // separately.
        let ended = runtime.submit(Trip::new(&["Ride", "Lost"])).await.unwrap();
        assert!(matches!(ended.end, LegEnd::Lost));
        runtime.submit(Trip::new(&["Ride", "There"])).await.unwrap();
        runtime.idle().await;
        let totals = &runtime.operations().types[0];
        assert_eq!((totals.ended, totals.failed), (5, 4));
    });
}

/// Every transition gives its cause: started, returned, late, or the failure's name.
#[test]
fn transitions_say_their_cause() {
    struct Slow;
    #[fom(operation(Slow), error(Oops), transient)]
    enum Slowly {
        #[phase(start, to(Second), within = "1s", late)]
        First,
        #[phase(to(Never), within = "1s")]
        Second,
        #[phase(end)]
        Never,
    }
    impl SlowlyTransitions for Slow {
        async fn first(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
            std::future::pending().await
        }
        async fn first_late(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
            Ok(())
        }
        async fn second(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
            std::future::pending().await
        }
    }
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let causes = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = std::sync::Arc::clone(&causes);
        runtime
            .listen(move |step| seen.lock().unwrap().push(step.cause()))
            .forever();
        let fom = runtime.submit(Slow).start().unwrap();
        for _ in 0..2 {
            runtime.quiet().await;
            clock.advance(secs(1));
        }
        let failure = fom.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Late { armed_in: "Second" }));
        assert_eq!(
            *causes.lock().unwrap(),
            [
                TransitionCause::Started,
                TransitionCause::Late,
                TransitionCause::Failed("late")
            ]
        );
    });
}
