//! The states of a fom, and its turns: one at a time, in a serial locality, within a budget.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use fom_runtime::{config::Budget, machine::FomState, prelude::*, time::TestClock};

use crate::kit::foms::{Chain, Oops, Oops2, Walker, Word, walker};
use crate::kit::{Gate, Log, limited, many, one, secs};

/// FL-01: a fom is in one of five states, readable from any thread. The state is init until the fom is admitted, then
/// ready, running and waiting in turn, and finished for good. (Any other step is a panic of the token, which the models
/// in tests/loom drive; outside code cannot request such a step.)
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

/// Counts its runs, and detects two runs at a time.
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

/// FL-02: a fom is run by one thread at a time, however many threads wake it, and the last wake is seen.
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
        // The fom waits before the first wake: otherwise all wakes may merge with its first run.
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

/// FL-03: foms, posted work and timers of one locality run one at a time, so its data needs no lock. A plain counter,
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

/// FL-04: an exit goes on at once, a wait parks, an end frees. A fom that goes on and on must let others run when its
/// budget is used up, at the tail of the queue.
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

/// Trap 11: a fom that goes on forever starves neither posted work nor other foms, nor its own deadline or cancel.
#[test]
fn a_fom_without_end_starves_no_other() {
    struct Endless;
    #[fom(operation(Endless), error(Oops), transient)]
    enum Endlessly {
        #[allow(dead_code)]
        #[phase(start, to(Round, Never), within = "5s", keep(Round), sync)]
        Begin,
        #[allow(dead_code)]
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
