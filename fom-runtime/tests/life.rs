//! The life of a fom: its states, who may run it, how it ends, and what is left of it: nothing.

mod kit;

use std::{
    future::{pending, poll_fn},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::Poll,
    time::Duration,
};

use fom_runtime::{
    Budget, FomId, FomState, Reached, RefusedReason, TestClock, TimedOut, prelude::*,
};
use kit::{Gate, Log, limited, many, one, poll_once, secs};

#[derive(Debug, PartialEq)]
struct Oops;

/// Waits for a word to go on, any number of times; says when it does what.
struct Walker {
    log: Log,
    name: &'static str,
    /// Dropped with the operation.
    _held: Held,
}

#[derive(Debug, PartialEq)]
enum Word {
    Go,
    Fail,
    Stop,
}

#[fom(operation(Walker), error(Oops), event(Word), transient)]
enum Walk {
    #[phase(start, to(Waits), sync)]
    Begin,
    #[phase(to(Passes, Stopped), on(Go, Fail, Stop))]
    Waits,
    #[phase(to(Waits), sync)]
    Passes,
    #[phase(end)]
    Stopped,
}

impl WalkTransitions for Walker {
    fn begin(&mut self, _: &mut Cx<'_, Word>) -> Result<(), Oops> {
        self.log.put(format_args!("{} begins", self.name));
        Ok(())
    }

    async fn waits(&mut self, cx: &mut Cx<'_, Word>) -> Result<WalkAfterWaits, Oops> {
        self.log.put(format_args!("{} waits", self.name));
        let word = cx.event().await;
        self.log.put(format_args!("{} {word:?}", self.name));
        match word {
            Word::Go => Ok(WalkAfterWaits::Passes),
            Word::Fail => Err(Oops),
            Word::Stop => Ok(WalkAfterWaits::Stopped),
        }
    }

    fn passes(&mut self, _: &mut Cx<'_, Word>) -> Result<(), Oops> {
        self.log.put(format_args!("{} passes", self.name));
        Ok(())
    }
}

/// Counts what was dropped.
#[derive(Clone, Default)]
struct Drops(Arc<AtomicUsize>);

impl Drops {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[derive(Default)]
struct Held(Option<Drops>);

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(drops) = self.0.take() {
            drops.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn walker(log: &Log, name: &'static str) -> Walker {
    Walker {
        log: log.clone(),
        name,
        _held: Held::default(),
    }
}

/// FL-01: a fom is in one of five states, readable from any thread: init until it is admitted, then ready, running and
/// waiting in turn, and finished for good. (Any other step is a panic of the token, which the models in tests/loom.rs
/// drive; from outside it cannot be asked for.)
#[test]
fn the_states_of_a_fom() {
    struct Looks {
        other: FomRefSlot,
        seen: Log,
    }
    type FomRefSlot = Arc<Mutex<Option<FomRef<Walker>>>>;
    #[fom(operation(Looks), error(Oops), transient)]
    enum Looking {
        #[phase(start, to(Done), sync)]
        Look,
        #[phase(end)]
        Done,
    }
    impl LookingTransitions for Looks {
        fn look(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
            let me = cx.runtime().operation(cx.id()).unwrap();
            let other = self.other.lock().unwrap().clone().unwrap();
            self.seen
                .put(format_args!("I am {}, it is {}", me.state, other.state()));
            Ok(())
        }
    }
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let gate = Gate::close(&runtime, 0);
        let other = FomRefSlot::default();
        let looks = Looks {
            other: Arc::clone(&other),
            seen: log.clone(),
        };
        let looks = runtime.submit(looks).start().unwrap();
        let fom = runtime
            .submit(walker(&Log::default(), "a"))
            .start()
            .unwrap();
        *other.lock().unwrap() = Some(fom.fom().clone());
        assert_eq!(fom.state(), FomState::Init);
        gate.open();
        looks.await.unwrap();
        runtime.quiet().await;
        assert_eq!(log.take(), ["I am running, it is ready"]);
        assert_eq!(fom.state(), FomState::Waiting);
        let gate = Gate::close(&runtime, 0);
        fom.wake();
        let state = {
            let fom = fom.fom().clone();
            std::thread::spawn(move || fom.state()).join().unwrap()
        };
        assert_eq!(state, FomState::Ready);
        gate.open();
        runtime.quiet().await;
        assert_eq!(fom.state(), FomState::Waiting);
        let address = fom.fom().clone();
        fom.send(Word::Stop).unwrap();
        fom.await.unwrap();
        assert_eq!(address.state(), FomState::Finished);
        address.wake();
        assert_eq!(address.state(), FomState::Finished);
    });
}

/// Counts its runs, and finds out when it is run twice at a time.
struct Serial {
    runs: Arc<AtomicUsize>,
    inside: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

#[fom(operation(Serial), error(Oops), transient)]
enum Serially {
    #[phase(start, to(Done))]
    Run,
    #[phase(end)]
    Done,
}

impl SeriallyTransitions for Serial {
    async fn run(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
        poll_fn(|_| {
            assert!(!self.inside.swap(true, Ordering::SeqCst), "two at a time");
            self.runs.fetch_add(1, Ordering::SeqCst);
            std::hint::spin_loop();
            self.inside.store(false, Ordering::SeqCst);
            if self.stop.load(Ordering::SeqCst) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        Ok(())
    }
}

/// FL-02: a fom is run by one thread at a time, however many wake it, and the last wake is seen.
#[test]
fn one_tick_of_a_fom_at_a_time() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let serial = Serial {
            runs: Arc::default(),
            inside: Arc::default(),
            stop: Arc::default(),
        };
        let (runs, stop) = (Arc::clone(&serial.runs), Arc::clone(&serial.stop));
        let handle = runtime.submit(serial).start().unwrap();
        let fom = handle.fom().clone();
        // It waits before the first wake: else all of them may be one with its first run.
        runtime.quiet().await;
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..2_000).for_each(|_| fom.wake()));
            }
        });
        stop.store(true, Ordering::SeqCst);
        fom.wake();
        handle.await.unwrap();
        let runs = runs.load(Ordering::SeqCst);
        assert!((2..=8_002).contains(&runs), "{runs} runs");
    });
}

/// FL-03: foms, posted work and timers of one locality run one at a time, so its data needs no lock: a plain counter,
/// raised in two steps with others between, counts right.
#[test]
fn a_locality_is_serial() {
    #[derive(Default)]
    struct Counter {
        value: u64,
        inside: bool,
    }
    impl Counter {
        fn raise(&mut self) {
            assert!(!std::mem::replace(&mut self.inside, true), "two at a time");
            let before = self.value;
            std::thread::yield_now();
            self.value = before + 1;
            self.inside = false;
        }
    }
    struct Raise(u32);
    #[fom(operation(Raise), error(Oops), transient)]
    enum Raising {
        #[phase(start, to(Raise, Done))]
        Raise,
        #[phase(end)]
        Done,
    }
    impl RaisingTransitions for Raise {
        async fn raise(&mut self, cx: &mut Cx<'_>) -> Result<RaisingAfterRaise, Oops> {
            cx.local(Counter::raise);
            tokio::task::yield_now().await;
            self.0 -= 1;
            Ok(if self.0 == 0 {
                RaisingAfterRaise::Done
            } else {
                RaisingAfterRaise::Raise
            })
        }
    }
    limited(|| async {
        let runtime = many(2, &TestClock::new())
            .locality_data(|_| Ok::<_, Oops2>(Counter::default()))
            .build()
            .unwrap();
        let foms: Vec<_> = (0..40)
            .map(|n| {
                runtime
                    .submit(Raise(25))
                    .place(Placement::Locality(n % 2))
                    .start()
                    .unwrap()
            })
            .collect();
        for n in 0..100 {
            runtime
                .post(n % 2, |local| local.data::<Counter>().raise())
                .unwrap();
        }
        for fom in foms {
            fom.await.unwrap();
        }
        let counts = runtime
            .each(|local| local.data::<Counter>().value)
            .await
            .unwrap();
        assert_eq!(counts, [20 * 25 + 50; 2]);
    });
}

/// An error that nobody makes.
#[derive(Debug)]
enum Oops2 {}

impl From<Oops2> for fom_runtime::BoxError {
    fn from(oops: Oops2) -> Self {
        match oops {}
    }
}

/// A chain of sync phases that says where it is.
struct Chain {
    name: char,
    links: usize,
    log: Log,
}

#[fom(operation(Chain), error(Oops), transient)]
enum Chaining {
    #[phase(start, to(Link, Done), sync)]
    Link,
    #[phase(end)]
    Done,
}

impl ChainingTransitions for Chain {
    fn link(&mut self, _: &mut Cx<'_>) -> Result<ChainingAfterLink, Oops> {
        self.log.put(self.name);
        self.links -= 1;
        Ok(if self.links == 0 {
            ChainingAfterLink::Done
        } else {
            ChainingAfterLink::Link
        })
    }
}

/// FL-04: an exit goes on at once, a wait parks, an end frees; and who goes on and on must let others run when its budget
/// is used up, at the tail of the queue.
#[test]
fn a_budget_bounds_how_long_a_fom_runs_on() {
    limited(|| async {
        let log = Log::default();
        let chain = |name| Chain {
            name,
            links: 10,
            log: log.clone(),
        };
        let budget = Budget {
            phases: 4,
            time: Duration::MAX,
        };
        let runtime = one(&TestClock::new()).budget(budget).build().unwrap();
        let gate = Gate::close(&runtime, 0);
        let foms = ['a', 'b'].map(|name| runtime.submit(chain(name)).start().unwrap());
        gate.open();
        for fom in foms {
            fom.await.unwrap();
        }
        assert_eq!(log.take().concat(), "aaaabbbbaaaabbbbaabb");

        // By time, too. The test's clock stands still, so any run is within a budget that has not passed.
        let budget = Budget {
            phases: u32::MAX,
            time: Duration::ZERO,
        };
        let runtime = one(&TestClock::new()).budget(budget).build().unwrap();
        let gate = Gate::close(&runtime, 0);
        let foms = ['a', 'b'].map(|name| runtime.submit(chain(name)).start().unwrap());
        gate.open();
        for fom in foms {
            fom.await.unwrap();
        }
        let log = log.take().concat();
        assert!(log.starts_with("abab"), "{log}");
    });
}

/// Trap 11: a fom that goes on for ever starves neither posted work nor other foms, nor its own deadline or cancel.
#[test]
fn a_fom_without_end_starves_nobody() {
    struct Endless;
    #[fom(operation(Endless), error(Oops), transient)]
    enum Endlessly {
        #[phase(start, to(Round, Never), within = "5s", keep(Round), sync)]
        Begin,
        #[phase(to(Round, Never), sync)]
        Round,
        #[phase(end)]
        Never,
    }
    impl EndlesslyTransitions for Endless {
        fn begin(&mut self, _: &mut Cx<'_>) -> Result<EndlesslyAfterBegin, Oops> {
            Ok(EndlesslyAfterBegin::Round)
        }
        fn round(&mut self, _: &mut Cx<'_>) -> Result<EndlesslyAfterRound, Oops> {
            Ok(EndlesslyAfterRound::Round)
        }
    }
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let late = runtime.submit(Endless).start().unwrap();
        let cancelled = runtime.submit(Endless).start().unwrap();
        late.reached([EndlesslyKind::Round]).await;
        cancelled.reached([EndlesslyKind::Round]).await;
        for _ in 0..10 {
            assert_eq!(runtime.call(0, |local| local.index()).await, Ok(0));
            let chain = Chain {
                name: 'x',
                links: 3,
                log: Log::default(),
            };
            runtime.submit(chain).await.unwrap();
        }
        cancelled.cancel();
        assert!(matches!(
            cancelled.await.unwrap_err().cause,
            Cause::Cancelled
        ));
        clock.advance(secs(5));
        assert!(matches!(
            late.await.unwrap_err().cause,
            Cause::Late { armed_in: "Begin" }
        ));
    });
}

/// FL-05: an operation is dropped exactly once, whatever way its fom ended, and before `idle` returns; nothing of the fom
/// is touched after.
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

        // Ended, and the operation given back.
        let fom = runtime.submit(op()).start().unwrap();
        fom.send(Word::Stop).unwrap();
        let ended = fom.await.unwrap();
        runtime.idle().await;
        assert_eq!(drops.count(), 0, "it is ours now");
        drop(ended);
        assert_eq!(drops.count(), 1);

        // Nobody wants the outcome: gone before the runtime is idle.
        let fom = runtime.submit(op()).start().unwrap();
        fom.send(Word::Stop).unwrap();
        drop(fom);
        runtime.idle().await;
        assert_eq!(drops.count(), 2);

        // Failed, and cancelled while it waits.
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

/// What a fom lends or leaves is not lost either: locals of its function, and data of its phase, go when it ends, before
/// whoever awaits it hears of it.
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
        assert_eq!((failure.phase, drops.count()), ("Hold", 2));
        assert!(failure.operation.is_some());
    });
}

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
/// operation; listeners hear of it, and the locality goes on.
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
                (failure.phase, failure.operation.map(|fuse| fuse.at)),
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

/// FL-06: a panic of what the fom holds, while that is dropped, does not take the worker along either: data of a phase
/// that is left, an operation whose outcome nobody wants, an event that nobody took, what an async function held.
#[test]
fn a_panic_in_a_drop_ends_nothing_else() {
    struct Armed {
        operation: Option<Bomb>,
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
            operation: None,
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
        let operation = Some(Bomb("the operation"));
        drop(
            runtime
                .submit(Armed {
                    operation,
                    ..armed()
                })
                .start()
                .unwrap(),
        );
        gate.open();
        runtime.idle().await;

        let gate = Gate::close(&runtime, 0);
        let fom = runtime.submit(armed()).start().unwrap();
        fom.send(Ball::Roll(BombEvent)).unwrap();
        gate.open();
        let ended = fom.await.unwrap();
        assert!(matches!(ended.phase, Arming::Done));
        assert!(ended.operation.operation.is_none());
        runtime.idle().await;

        assert_eq!(
            runtime.call(0, |local| local.index()).await,
            Ok(0),
            "the locality lives"
        );
        let incidents = runtime.operations().incidents;
        assert!(
            incidents.iter().any(|what| what.contains("the operation")),
            "{incidents:?}"
        );
        assert!(
            incidents.iter().any(|what| what.contains("the event")),
            "{incidents:?}"
        );
    });
}

/// Says where it lives, before and after a wait.
struct Native;

#[fom(operation(Native), error(Oops), event(Word), transient)]
enum Living {
    #[phase(start, to(Waits), sync)]
    Here,
    #[phase(to(Told), on(Go, Fail, Stop))]
    Waits { before: usize },
    #[phase(end)]
    Told { before: usize, after: usize },
}

impl LivingTransitions for Native {
    fn here(&mut self, cx: &mut Cx<'_, Word>) -> Result<LivingAfterHere, Oops> {
        Ok(LivingAfterHere::Waits {
            before: cx.locality(),
        })
    }
    async fn waits(
        &mut self,
        cx: &mut Cx<'_, Word>,
        before: &mut usize,
    ) -> Result<LivingAfterWaits, Oops> {
        cx.event().await;
        // Where it really runs: the locality whose data this thread holds.
        let after = cx.local(|index: &mut usize| *index);
        Ok(LivingAfterWaits::Told {
            before: *before,
            after,
        })
    }
}

fn three() -> Runtime {
    many(3, &TestClock::new())
        .locality_data(Ok::<usize, Oops2>)
        .build()
        .unwrap()
}

/// FL-07: a fom's home is chosen once, when it is submitted, and it is run there alone, whoever wakes it.
#[test]
fn a_fom_never_moves() {
    limited(|| async {
        let runtime = three();
        let foms: Vec<_> = (0..12)
            .map(|_| {
                runtime
                    .submit(Native)
                    .place(Placement::RoundRobin)
                    .start()
                    .unwrap()
            })
            .collect();
        let homes: Vec<_> = foms.iter().map(|fom| fom.locality()).collect();
        assert_eq!(
            homes,
            [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2],
            "one choice for each submission"
        );
        for fom in &foms {
            let fom = fom.fom().clone();
            std::thread::spawn(move || fom.send(Word::Go).unwrap())
                .join()
                .unwrap();
        }
        for (fom, home) in foms.into_iter().zip(homes) {
            let Living::Told { before, after } = fom.await.unwrap().phase else {
                unreachable!()
            };
            assert_eq!((before, after), (home, home));
        }
    });
}

/// FL-08: homes by round-robin, least load, a number, a key, the caller's own, or this one; one that does not exist is
/// refused.
#[test]
fn placements() {
    limited(|| async {
        let runtime = three();
        let place = |placement| runtime.submit(Native).place(placement).start().unwrap();
        // Pinned.
        let mut foms: Vec<_> = [2, 2, 2, 0].map(|n| place(Placement::Locality(n))).into();
        assert_eq!(
            foms.iter().map(|fom| fom.locality()).collect::<Vec<_>>(),
            [2, 2, 2, 0]
        );
        // Least loaded: 1 has none, then 0 and 1 have one each, ...
        for _ in 0..5 {
            foms.push(place(Placement::LeastLoaded));
        }
        let mut load = [0; 3];
        foms.iter().for_each(|fom| load[fom.locality()] += 1);
        assert_eq!(load, [3, 3, 3]);
        // The same number, the same home; many numbers, all homes.
        for n in 0..50 {
            assert_eq!(
                place(Placement::Key(n)).locality(),
                place(Placement::Key(n)).locality()
            );
        }
        let mut homes: Vec<_> = (0..100)
            .map(|n| place(Placement::Key(n)).locality())
            .collect();
        homes.sort_unstable();
        homes.dedup();
        assert_eq!(homes, [0, 1, 2]);
        // The same key, the same home, one fom after the other.
        let home = |key: &str| {
            let fom = runtime.submit(Native).key(key).start().unwrap();
            fom.send(Word::Go).unwrap();
            let home = fom.locality();
            fom.wait().unwrap();
            home
        };
        for key in ["a", "b", "c", "d"] {
            assert_eq!(home(key), home(key));
        }
        let refused = runtime
            .submit(Native)
            .place(Placement::Locality(3))
            .start()
            .unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::NoSuchLocality);
        runtime.shutdown(Shutdown::Now, secs(10)).await;
    });
}

/// FL-08: what a fom submits lives with it, unless it is placed elsewhere.
/// WK-15: a follow-up lands in the locality of the one that it follows: by `Placement::Here` inside, by its number from
/// outside.
#[test]
fn what_a_fom_submits_lives_with_it() {
    struct Parent(Option<Placement>);
    #[fom(operation(Parent), error(Oops), transient)]
    enum Parenting {
        #[phase(start, to(Done), sync)]
        Submit,
        #[phase(end)]
        Done { homes: (usize, usize) },
    }
    impl ParentingTransitions for Parent {
        fn submit(&mut self, cx: &mut Cx<'_>) -> Result<ParentingAfterSubmit, Oops> {
            let child = cx.runtime().submit(Native);
            let child = match self.0 {
                Some(placement) => child.place(placement),
                None => child,
            };
            let child = child.start().unwrap();
            Ok(ParentingAfterSubmit::Done {
                homes: (cx.locality(), child.locality()),
            })
        }
    }
    limited(|| async {
        let runtime = three();
        for placement in [None, Some(Placement::Here)] {
            for n in 0..3 {
                let parent = runtime
                    .submit(Parent(placement))
                    .place(Placement::Locality(n));
                let Parenting::Done { homes } = parent.await.unwrap().phase else {
                    unreachable!()
                };
                assert_eq!(homes, (n, n));
            }
        }
        let elsewhere = Parent(Some(Placement::Locality(1)));
        let Parenting::Done { homes } = runtime
            .submit(elsewhere)
            .place(Placement::Locality(0))
            .await
            .unwrap()
            .phase
        else {
            unreachable!()
        };
        assert_eq!(homes, (0, 1));
        let first = runtime.submit(Native).start().unwrap();
        let follow_up = runtime
            .submit(Native)
            .place(Placement::Locality(first.locality()))
            .start()
            .unwrap();
        assert_eq!(first.locality(), follow_up.locality());
        runtime.shutdown(Shutdown::Now, secs(10)).await;
    });
}

/// FL-11: the last phases of a fom with their times are kept in a ring as long as asked for, and can be read while the
/// fom hangs in a phase.
#[test]
fn the_last_phases_of_a_fom_are_kept() {
    struct Hangs(mpsc::Receiver<()>);
    #[fom(operation(Hangs), error(Oops), transient)]
    enum Hanging {
        #[phase(start, to(One))]
        Zero,
        #[phase(to(Two))]
        One,
        #[phase(to(Three))]
        Two,
        #[phase(to(Done), blocking)]
        Three,
        #[phase(end)]
        Done,
    }
    impl HangingTransitions for Hangs {
        async fn zero(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
            cx.sleep(secs(1)).await;
            Ok(())
        }
        async fn one(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
            cx.sleep(secs(1)).await;
            Ok(())
        }
        async fn two(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
            cx.sleep(secs(1)).await;
            Ok(())
        }
        fn three(&mut self, _: &mut BlockingCx<'_>) -> Result<(), Oops> {
            let _ = self.0.recv();
            Ok(())
        }
    }
    limited(|| async {
        for (kept, expected) in [
            (0, vec![]),
            (2, vec![("Two", secs(2)), ("Three", secs(3))]),
            (
                32,
                vec![
                    ("Zero", secs(0)),
                    ("One", secs(1)),
                    ("Two", secs(2)),
                    ("Three", secs(3)),
                ],
            ),
        ] {
            let clock = TestClock::new();
            let runtime = one(&clock).history(kept).build().unwrap();
            let (go, hangs) = mpsc::channel();
            let fom = runtime.submit(Hangs(hangs)).start().unwrap();
            for _ in 0..3 {
                runtime.quiet().await;
                clock.advance(secs(1));
            }
            fom.reached([HangingKind::Three]).await;
            let history = runtime.operation(fom.id()).unwrap().history;
            let history: Vec<_> = history.iter().map(|seen| (seen.phase, seen.at)).collect();
            assert_eq!(history, expected);
            go.send(()).unwrap();
            fom.await.unwrap();
        }
    });
}

/// FL-12: who waits for a phase hears of it also when the fom only passes through.
/// Trap 5: a wait that looks at the current phase would miss it.
#[test]
fn a_phase_that_is_only_passed_through_is_reached() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let fom = runtime
            .submit(walker(&Log::default(), "a"))
            .start()
            .unwrap();
        runtime.quiet().await;
        let passes = fom.reached([WalkKind::Passes]);
        let either = fom.reached([WalkKind::Stopped, WalkKind::Passes]);
        let stopped = fom.reached([WalkKind::Stopped]);
        fom.send(Word::Go).unwrap();
        runtime.quiet().await;
        assert_eq!(fom.phase(), "Waits", "it has passed through long ago");
        assert_eq!(passes.await, Reached::Phase(WalkKind::Passes));
        assert_eq!(either.await, Reached::Phase(WalkKind::Passes));
        fom.send(Word::Stop).unwrap();
        assert_eq!(stopped.await, Reached::Phase(WalkKind::Stopped));
        fom.await.unwrap();
    });
}

/// FL-12: where it is already is reached at once; a fom that ended elsewhere is an answer, before and after the end.
/// Trap 6: the end phase itself, waited for before or after the end, is reached and not gone.
#[test]
fn the_answers_of_a_wait_for_a_phase() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let fom = runtime
            .submit(walker(&Log::default(), "a"))
            .start()
            .unwrap();
        runtime.quiet().await;
        assert_eq!(
            fom.reached([WalkKind::Waits]).await,
            Reached::Phase(WalkKind::Waits)
        );
        let before = (
            fom.reached([WalkKind::Stopped]),
            fom.reached([WalkKind::Passes]),
        );
        let address = fom.fom().clone();
        fom.send(Word::Stop).unwrap();
        fom.await.unwrap();
        assert_eq!(before.0.await, Reached::Phase(WalkKind::Stopped));
        assert_eq!(before.1.await, Reached::Ended);
        assert_eq!(
            address.reached([WalkKind::Stopped]).await,
            Reached::Phase(WalkKind::Stopped)
        );
        assert_eq!(address.reached([WalkKind::Passes]).await, Reached::Ended);
        assert_eq!(
            address.reached([WalkKind::Waits]).await,
            Reached::Ended,
            "it was, but is not"
        );
        // In a plain thread, and for a fom that failed.
        let fom = runtime
            .submit(walker(&Log::default(), "b"))
            .start()
            .unwrap();
        let waits = fom.reached([WalkKind::Stopped]);
        let thread = std::thread::spawn(move || waits.wait());
        fom.send(Word::Fail).unwrap();
        assert_eq!(thread.join().unwrap(), Reached::Ended);
        assert!(fom.await.is_err());
    });
}

/// FL-12: a wait may have a limit, on the runtime's clock; then it is `TimedOut`, and the fom goes on.
#[test]
fn a_wait_for_a_phase_with_a_limit() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let fom = runtime
            .submit(walker(&Log::default(), "a"))
            .start()
            .unwrap();
        runtime.quiet().await;
        let mut wait = pin!(fom.reached([WalkKind::Passes]).within(secs(5)));
        assert!(poll_once(wait.as_mut()).await.is_pending());
        let mut longer = pin!(fom.reached([WalkKind::Passes]).within(secs(7)));
        assert!(poll_once(longer.as_mut()).await.is_pending());
        runtime.quiet().await;
        clock.advance(secs(5) - Duration::from_nanos(1));
        runtime.quiet().await;
        assert!(poll_once(wait.as_mut()).await.is_pending());
        clock.advance(Duration::from_nanos(1));
        runtime.quiet().await;
        assert_eq!(wait.await, Err(TimedOut(secs(5))));
        fom.send(Word::Go).unwrap();
        assert_eq!(longer.await, Ok(Reached::Phase(WalkKind::Passes)));
        runtime.quiet().await;
        assert_eq!(fom.state(), FomState::Waiting);
        fom.cancel();
        assert!(fom.await.is_err());
    });
}

/// Cancelled in the queue: it never runs. Waiting: it ends at once. Twice: the same. After the end: nothing.
#[test]
fn cancel_in_the_queue_while_waiting_and_after_the_end() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let gate = Gate::close(&runtime, 0);
        let queued = runtime.submit(walker(&log, "queued")).start().unwrap();
        queued.cancel();
        queued.cancel();
        gate.open();
        let failure = queued.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Cancelled));
        assert_eq!(
            (failure.phase, failure.operation.is_some()),
            ("Begin", true)
        );
        assert_eq!(log.take(), [""; 0]);

        let waiting = runtime.submit(walker(&log, "waiting")).start().unwrap();
        let address = waiting.fom().clone();
        runtime.quiet().await;
        assert_eq!(log.take(), ["waiting begins", "waiting waits"]);
        // An event that is there already does not come first: what it would do is dropped.
        let gate = Gate::close(&runtime, 0);
        waiting.send(Word::Go).unwrap();
        assert!(runtime.cancel(waiting.id()));
        gate.open();
        let failure = waiting.await.unwrap_err();
        assert_eq!(
            (failure.cause.name(), failure.phase),
            ("cancelled", "Waits")
        );
        assert_eq!(log.take(), [""; 0]);
        address.cancel();
        assert!(!runtime.cancel(address.id()));
        assert_eq!(
            address.send(Word::Go),
            Err(fom_runtime::SendError::Ended(Word::Go))
        );
        runtime.quiet().await;
        assert_eq!(runtime.in_flight(), 0);
    });
}

/// Cancelled while it runs, blocked or not: it is told, goes on to its next wait, and is dropped there. When it ends
/// before, it has ended.
#[test]
fn cancel_while_it_runs() {
    struct Busy {
        blocking: bool,
        waits: bool,
        running: mpsc::Sender<()>,
        go: mpsc::Receiver<()>,
        log: Log,
    }
    impl Busy {
        fn run(&self, is_cancelled: impl Fn() -> bool) {
            self.log.put(format_args!("cancelled: {}", is_cancelled()));
            self.running.send(()).unwrap();
            self.go.recv().unwrap();
            self.log.put(format_args!("cancelled: {}", is_cancelled()));
        }
    }
    #[fom(operation(Busy), error(Oops), transient)]
    enum Being {
        #[phase(start, to(Plain, Block), sync)]
        Choose,
        #[phase(to(Next), sync)]
        Plain,
        #[phase(to(Next), blocking)]
        Block,
        #[phase(to(Done))]
        Next,
        #[phase(end)]
        Done,
    }
    impl BeingTransitions for Busy {
        fn choose(&mut self, _: &mut Cx<'_>) -> Result<BeingAfterChoose, Oops> {
            Ok(if self.blocking {
                BeingAfterChoose::Block
            } else {
                BeingAfterChoose::Plain
            })
        }
        fn plain(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
            self.run(|| cx.is_cancelled());
            Ok(())
        }
        fn block(&mut self, cx: &mut BlockingCx<'_>) -> Result<(), Oops> {
            self.run(|| cx.is_cancelled());
            Ok(())
        }
        async fn next(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
            self.log.put("next");
            if self.waits {
                tokio::task::yield_now().await;
                self.log.put("after the wait");
            }
            Ok(())
        }
    }
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        for (blocking, waits) in [(false, false), (false, true), (true, false), (true, true)] {
            let (running, runs) = mpsc::channel();
            let (go, gone) = mpsc::channel();
            let busy = Busy {
                blocking,
                waits,
                running,
                go: gone,
                log: log.clone(),
            };
            let fom = runtime.submit(busy).start().unwrap();
            runs.recv().unwrap();
            assert_eq!(fom.state(), FomState::Running);
            assert_eq!(runtime.operation(fom.id()).unwrap().blocked, blocking);
            fom.cancel();
            go.send(()).unwrap();
            match fom.await {
                Ok(ended) => assert!(!waits && matches!(ended.phase, Being::Done)),
                Err(failure) => {
                    assert!(waits);
                    assert_eq!((failure.cause.name(), failure.phase), ("cancelled", "Next"));
                    assert!(failure.operation.is_some());
                }
            }
            assert_eq!(log.take(), ["cancelled: false", "cancelled: true", "next"]);
        }
    });
}

/// SV-02: a refused submission gives the operation back, leaves nothing behind, and a second one is refused the same way,
/// for each reason.
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
        // Awaited, the refusal is the failure, with the operation.
        let failure = runtime.submit(walker(&log, "c")).await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Refused(RefusedReason::Full)));
        assert_eq!(failure.operation.map(|op| op.name), Some("c"));
        // When there is room again, there is room.
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

/// SV-05: `idle` returns only when no fom is in flight, from wherever they end, and then nothing of them is left.
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

/// SV-10: what is in flight can be listed, counted, found by id and by key, and told to look again by id; each operation
/// type has totals and times, on the runtime's clock.
#[test]
fn operations_are_listed_counted_and_found() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let foms: Vec<_> = ["a", "b", "c"]
            .map(|name| {
                runtime
                    .submit(walker(&log, name))
                    .key(name)
                    .start()
                    .unwrap()
            })
            .into();
        runtime.quiet().await;
        let ids: Vec<FomId> = foms.iter().map(|fom| fom.id()).collect();
        let listed: Vec<_> = runtime.operations().foms.iter().map(|fom| fom.id).collect();
        assert_eq!(listed, ids, "in the order of submission");
        assert_eq!(runtime.in_flight(), 3);
        let found = runtime.operation(ids[1]).unwrap();
        assert_eq!(found.key.map(|key| key.to_string()), Some("b".into()));
        assert_eq!(runtime.find::<Walker>("b").unwrap().id(), ids[1]);
        assert!(
            runtime.find::<Chain>("b").is_none(),
            "keys belong to operation types"
        );
        assert!(runtime.wake(ids[1]));

        for (fom, (word, age)) in
            foms.iter()
                .zip([(Word::Stop, 2), (Word::Fail, 4), (Word::Stop, 4)])
        {
            let target = secs(age);
            clock.advance(target.saturating_sub(runtime.now()));
            runtime.quiet().await;
            fom.send(word).unwrap();
            runtime.quiet().await;
        }
        let totals = &runtime.operations().types[0];
        assert_eq!(totals.operation, "Walker");
        assert_eq!(
            (
                totals.started,
                totals.ended,
                totals.failed,
                totals.in_flight
            ),
            (3, 3, 1, 0)
        );
        assert_eq!((totals.mean, totals.longest), (secs(10) / 3, secs(4)));
        assert!(runtime.operation(ids[1]).is_none());
        assert!(!runtime.wake(ids[1]), "it is gone");
        assert!(runtime.find::<Walker>("b").is_none());
    });
}

/// OB-07: a listing shows every fom with phase, state, age and what it waits for, and stops nobody: also while one
/// blocks, one runs without coming back, and one is still queued behind it.
/// Trap 13: running and blocked foms are in it, and ages are by phase as well.
#[test]
fn the_listing_shows_every_fom_and_stops_nobody() {
    struct Stuck(&'static str, mpsc::Sender<()>, mpsc::Receiver<()>);
    struct Answers;
    #[fom(operation(Stuck), error(Oops), event(Word), transient)]
    enum Sticking {
        #[phase(start, to(Runs, Blocks, Sleeps, Hears, Asks, Awaits), sync)]
        Choose,
        #[phase(to(Done), sync)]
        Runs,
        #[phase(to(Done), blocking)]
        Blocks,
        #[phase(to(Done), within = "9s")]
        Sleeps,
        #[phase(to(Done), on(Go, Stop, Fail))]
        Hears,
        #[phase(to(Done))]
        Asks,
        #[phase(to(Done))]
        Awaits,
        #[phase(end)]
        Done,
    }
    impl Stuck {
        fn stick(&self) {
            self.1.send(()).unwrap();
            let _ = self.2.recv();
        }
    }
    impl StickingTransitions for Stuck {
        fn choose(&mut self, _: &mut Cx<'_, Word>) -> Result<StickingAfterChoose, Oops> {
            Ok(match self.0 {
                "runs" => StickingAfterChoose::Runs,
                "blocks" => StickingAfterChoose::Blocks,
                "sleeps" => StickingAfterChoose::Sleeps,
                "hears" => StickingAfterChoose::Hears,
                "asks" => StickingAfterChoose::Asks,
                _ => StickingAfterChoose::Awaits,
            })
        }
        fn runs(&mut self, _: &mut Cx<'_, Word>) -> Result<(), Oops> {
            self.stick();
            Ok(())
        }
        fn blocks(&mut self, _: &mut BlockingCx<'_>) -> Result<(), Oops> {
            self.stick();
            Ok(())
        }
        async fn sleeps(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), Oops> {
            cx.sleep(secs(100)).await;
            Ok(())
        }
        async fn hears(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), Oops> {
            cx.event().await;
            Ok(())
        }
        async fn asks(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), Oops> {
            // Nobody ever answers.
            cx.call(|_: &Answers, reply: Reply<()>| std::mem::forget(reply))
                .await
                .map_err(|_| Oops)
        }
        async fn awaits(&mut self, _: &mut Cx<'_, Word>) -> Result<(), Oops> {
            pending().await
        }
    }
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).resource(Answers).build().unwrap();
        let mut unstick = Vec::new();
        let mut stuck = |what| {
            let (sticks, sticking) = mpsc::channel();
            let (go, gone) = mpsc::channel();
            unstick.push(go);
            let fom = runtime
                .submit(Stuck(what, sticks, gone))
                .key(what)
                .start()
                .unwrap();
            (fom, sticking)
        };
        let waiting = ["sleeps", "hears", "asks", "awaits"].map(&mut stuck);
        runtime.quiet().await;
        waiting[1].0.wake();
        waiting[0].0.wake();
        runtime.quiet().await;
        clock.advance(secs(1));
        let (blocks, sticking) = stuck("blocks");
        sticking.recv().unwrap();
        clock.advance(secs(1));
        let (runs, sticking) = stuck("runs");
        sticking.recv().unwrap();
        let (queued, _) = stuck("queued");
        clock.advance(secs(1));

        let all = runtime.operations();
        let shown: Vec<_> = all
            .foms
            .iter()
            .map(|fom| {
                let state = if fom.blocked {
                    "blocked".into()
                } else {
                    fom.state.to_string()
                };
                let waiting_for = fom.waiting_for.clone().unwrap_or_default();
                let waiting_for = waiting_for.rsplit("::").next().unwrap().to_owned();
                (
                    fom.key.clone().unwrap().to_string(),
                    fom.phase,
                    state,
                    fom.in_phase.as_secs(),
                    fom.age.as_secs(),
                    waiting_for,
                )
            })
            .collect();
        let expected = [
            ("sleeps", "Sleeps", "waiting", 3, 3, "a timer"),
            (
                "hears",
                "Hears",
                "waiting",
                3,
                3,
                "an event: Go, Stop, Fail",
            ),
            ("asks", "Asks", "waiting", 3, 3, "Answers"),
            ("awaits", "Awaits", "waiting", 3, 3, "a future"),
            ("blocks", "Blocks", "blocked", 2, 2, "a blocking call"),
            ("runs", "Runs", "running", 1, 1, ""),
            ("queued", "Choose", "init", 1, 1, ""),
        ]
        .map(|(key, phase, state, in_phase, age, what)| {
            (
                key.to_owned(),
                phase,
                state.to_owned(),
                in_phase,
                age,
                what.to_owned(),
            )
        });
        assert_eq!(shown, expected);
        assert_eq!(all.foms[0].deadline_in, Some(secs(6)));
        let table = all.to_string();
        for (key, phase, state, ..) in &expected {
            let line = table
                .lines()
                .find(|line| line.contains(phase))
                .unwrap_or_else(|| panic!("{key} in {table}"));
            assert!(
                line.contains("Stuck") && line.contains(state.as_str()),
                "{line}"
            );
        }
        assert_eq!(all.localities[0].foms, 7);
        drop(unstick);
        for (fom, _) in waiting {
            fom.cancel();
            assert!(fom.await.is_err());
        }
        queued.cancel();
        assert!(queued.await.is_err());
        blocks.await.unwrap();
        runs.await.unwrap();
    });
}

/// The end of a runtime gives an answer to whoever waits for a fom, waiting, queued or sleeping.
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
