//! What wakes a fom: a wake is a coalesced token, from anywhere; and the order of a burst.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::Poll,
};

use fom_runtime::{error::BoxError, machine::FomState, prelude::*, time::TestClock};

use crate::kit::{Gate, Log, limited, many, one};

/// Counts its polls, and never goes on.
struct Polled {
    polls: Arc<AtomicUsize>,
    /// Stops once, in a blocking section or not: reports that it stands, and waits for permission to go on.
    stand: Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>,
    in_block: bool,
}

#[fom(operation(Polled), transient)]
enum Polling {
    #[phase(start, to(Never))]
    Poll,
    #[phase(end)]
    Never,
}

impl PollingTransitions for Polled {
    async fn poll(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        if let Some((stands, go)) = &mut self.stand
            && self.in_block
        {
            let _guard = cx.enter_block().unwrap();
            stands.send(()).unwrap();
            go.recv().unwrap();
        }
        poll_fn(|_| {
            if self.polls.fetch_add(1, Ordering::SeqCst) == 0
                && !self.in_block
                && let Some((stands, go)) = &mut self.stand
            {
                stands.send(()).unwrap();
                go.recv().unwrap();
            }
            Poll::Pending
        })
        .await
    }
}

fn polled() -> (Polled, Arc<AtomicUsize>) {
    let polls = Arc::<AtomicUsize>::default();
    let fom = Polled {
        polls: Arc::clone(&polls),
        stand: None,
        in_block: false,
    };
    (fom, polls)
}

/// WK-01: a wake comes from any thread. (allocation.rs tests that it allocates nothing. The models of token and
/// inbox in tests/loom show that it takes no lock but the one of the sleeping reactor.)
#[test]
fn any_thread_wakes() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let (fom, polls) = polled();
        let fom = runtime
            .submit(fom)
            .place(Placement::Locality(0))
            .start()
            .unwrap();
        runtime.quiet().await;
        assert_eq!(polls.load(Ordering::SeqCst), 1);
        // A plain thread.
        let address = fom.fom().clone();
        std::thread::spawn(move || address.wake()).join().unwrap();
        runtime.quiet().await;
        assert_eq!(polls.load(Ordering::SeqCst), 2);
        // Another locality, and the fom's own.
        for locality in [1, 0] {
            let address = fom.fom().clone();
            runtime.post(locality, move |_| address.wake()).unwrap();
            runtime.quiet().await;
        }
        assert_eq!(polls.load(Ordering::SeqCst), 4);
        // By id, from a tokio task.
        let (by_id, id) = (runtime.clone(), fom.id());
        assert!(tokio::spawn(async move { by_id.wake(id) }).await.unwrap());
        runtime.quiet().await;
        assert_eq!(polls.load(Ordering::SeqCst), 5);
        fom.cancel();
        assert!(fom.await.is_err());
    });
}

/// WK-02: a wake is a coalesced token. Any number of wakes of a fom that is queued, ready, running or blocked are one
/// more run, and never none. Trap 2: a wake of a fom that does not wait is neither lost nor queued twice. Trap 3: the
/// admission and the wakes of one fom do not overwrite each other.
#[test]
fn a_wake_is_a_coalesced_token() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        // Queued, not yet admitted: the first run answers the wakes.
        let (fom, polls) = polled();
        let gate = Gate::close(&runtime, 0);
        let fom = runtime.submit(fom).start().unwrap();
        (0..5).for_each(|_| fom.wake());
        assert_eq!(fom.state(), FomState::Init);
        gate.open();
        runtime.quiet().await;
        assert_eq!(polls.load(Ordering::SeqCst), 1);

        // Waiting, then ready.
        for wakes in [1, 2, 1000] {
            let before = polls.load(Ordering::SeqCst);
            let gate = Gate::close(&runtime, 0);
            (0..wakes).for_each(|_| fom.wake());
            assert_eq!(fom.state(), FomState::Ready);
            gate.open();
            runtime.quiet().await;
            assert_eq!(polls.load(Ordering::SeqCst), before + 1, "{wakes} wakes");
        }
        fom.cancel();
        assert!(fom.await.is_err());

        // Running, and blocked.
        for in_block in [false, true] {
            for wakes in [0, 1, 100] {
                let (stands, standing) = mpsc::channel();
                let (go, gone) = mpsc::channel();
                let (mut fom, polls) = polled();
                fom.stand = Some((stands, gone));
                fom.in_block = in_block;
                let fom = runtime.submit(fom).start().unwrap();
                standing.recv().unwrap();
                assert_eq!(fom.state(), FomState::Running);
                (0..wakes).for_each(|_| fom.wake());
                go.send(()).unwrap();
                runtime.quiet().await;
                let expected = if wakes == 0 { 1 } else { 2 };
                assert_eq!(
                    polls.load(Ordering::SeqCst),
                    expected,
                    "{wakes} wakes, blocked: {in_block}"
                );
                assert_eq!(fom.state(), FomState::Waiting);
                fom.cancel();
                assert!(fom.await.is_err());
            }
        }
    });
}

/// WK-03: wakes from many threads at once never queue a fom twice: after the last wake it runs, and then it waits.
#[test]
fn duplicate_wakes_never_queue_twice() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let (fom, polls) = polled();
        let fom = runtime.submit(fom).start().unwrap();
        runtime.quiet().await;
        let gate = Gate::close(&runtime, 0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| fom.wake()));
            }
        });
        gate.open();
        runtime.quiet().await;
        assert_eq!(polls.load(Ordering::SeqCst), 2);
        // With the locality running, at most one run for each wake.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| fom.wake()));
            }
        });
        runtime.quiet().await;
        let polls = polls.load(Ordering::SeqCst);
        assert!((3..=2 + 4000).contains(&polls), "{polls}");
        assert_eq!(fom.state(), FomState::Waiting);
        fom.cancel();
        assert!(fom.await.is_err());
    });
}

/// WK-04: a wake after the end does nothing: an address keeps the memory, not the fom, and an id is never used again.
#[test]
fn a_wake_after_the_end_is_nothing() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let (fom, polls) = polled();
        let fom = runtime.submit(fom).start().unwrap();
        let address = fom.fom().clone();
        runtime.quiet().await;
        fom.cancel();
        assert!(fom.await.is_err());
        runtime.idle().await;
        let (next, next_polls) = polled();
        let next = runtime.submit(next).start().unwrap();
        assert_ne!(next.id(), address.id());
        runtime.quiet().await;
        (0..10).for_each(|_| address.wake());
        assert!(!runtime.wake(address.id()));
        runtime.quiet().await;
        assert_eq!(polls.load(Ordering::SeqCst), 1);
        assert_eq!(next_polls.load(Ordering::SeqCst), 1);
        drop(next);
        drop(runtime);
        address.wake();
        address.cancel();
        assert_eq!(address.state(), FomState::Finished);
    });
}

/// WK-05: a wake inside the tick, by the fom itself, is not lost: the fom runs again, once.
#[test]
fn a_wake_inside_the_tick_is_not_lost() {
    struct Selfish(Arc<AtomicUsize>);
    #[fom(operation(Selfish), transient)]
    enum Selfishly {
        #[phase(start, to(Done))]
        Wakes,
        #[phase(end)]
        Done,
    }
    impl SelfishlyTransitions for Selfish {
        async fn wakes(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
            let (runtime, id) = (cx.runtime(), cx.id());
            poll_fn(|task| match self.0.fetch_add(1, Ordering::SeqCst) {
                // By id, twice by its waker, and then not at all.
                0 => {
                    assert!(runtime.wake(id));
                    Poll::Pending
                }
                1 => {
                    task.waker().wake_by_ref();
                    #[allow(clippy::waker_clone_wake, reason = "both ways of waking are meant")]
                    task.waker().clone().wake();
                    Poll::Pending
                }
                2 => Poll::Pending,
                _ => Poll::Ready(()),
            })
            .await;
            Ok(())
        }
    }
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let polls = Arc::<AtomicUsize>::default();
        let fom = runtime.submit(Selfish(Arc::clone(&polls))).start().unwrap();
        runtime.quiet().await;
        assert_eq!(polls.load(Ordering::SeqCst), 3);
        assert_eq!(fom.state(), FomState::Waiting);
        fom.wake();
        fom.await.unwrap();
    });
}

/// Trap 1: submissions of one thread to one locality run in order, also in a burst.
#[test]
fn a_burst_runs_in_its_order() {
    struct Says(u32, Log);
    #[fom(operation(Says), transient)]
    enum Saying {
        #[phase(start, to(Done), sync)]
        Say,
        #[phase(end)]
        Done,
    }
    impl SayingTransitions for Says {
        fn say(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            self.1.put(self.0);
            Ok(())
        }
    }
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let gate = Gate::close(&runtime, 0);
        for n in 0..100 {
            drop(runtime.submit(Says(n, log.clone())).start().unwrap());
        }
        gate.open();
        runtime.idle().await;
        let expected: Vec<_> = (0..100).map(|n: u32| n.to_string()).collect();
        assert_eq!(log.take(), expected);
    });
}
