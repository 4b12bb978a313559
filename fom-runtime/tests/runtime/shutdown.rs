//! The end of a runtime: drained, at once, or by dropping it. Each is bounded, and no caller is left waiting.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    time::{Duration, Instant},
};

use fom_runtime::{
    BlockingCx, Cause,
    error::{BoxError, RefusedReason},
    machine::FomState,
    prelude::*,
    submission::Reached,
};
use futures::executor::block_on;

use crate::kit::task::{
    self, Door, Drops, LIMIT, TaskPhaseKind, limit, one, pause, quick, task, until,
};

fn two() -> Runtime {
    Runtime::builder().localities(2).pin(false).build().unwrap()
}

/// Holds a locality until the door opens.
fn hold(runtime: &Runtime, locality: usize) -> (Handle<task::Task>, Door) {
    let (entered, has_entered) = mpsc::channel();
    let door = Door::default();
    let holder = {
        let door = door.clone();
        quick(move |_| {
            entered.send(()).unwrap();
            door.pass();
        })
    };
    let holder = runtime
        .submit(holder)
        .place(Placement::Locality(locality))
        .start()
        .unwrap();
    has_entered.recv().unwrap();
    (holder, door)
}

/// A fom in a blocking section that only the door ends.
fn stuck(runtime: &Runtime) -> (Handle<task::Task>, Door) {
    let (entered, has_entered) = mpsc::channel();
    let door = Door::default();
    let fom = {
        let door = door.clone();
        quick(move |cx| {
            let _guard = cx.enter_block().unwrap();
            entered.send(()).unwrap();
            door.pass();
        })
    };
    let handle = runtime.submit(fom).start().unwrap();
    has_entered.recv().unwrap();
    (handle, door)
}

fn forever() -> task::Task {
    task(|_| Box::pin(std::future::pending()))
}

/// SV-09: a drain runs all queued foms to their end, in every locality.
#[test]
fn a_drain_runs_all_that_is_queued() {
    let _limit = limit();
    let runtime = two();
    let ran = Arc::new(AtomicUsize::new(0));
    let doors = [hold(&runtime, 0), hold(&runtime, 1)];
    for _ in 0..200 {
        let ran = Arc::clone(&ran);
        let counts = task(move |_| {
            Box::pin(async move {
                pause().await;
                tokio::time::sleep(Duration::from_millis(1)).await;
                ran.fetch_add(1, SeqCst);
            })
        });
        drop(runtime.submit(counts).start().unwrap());
    }
    let ends = {
        let runtime = runtime.clone();
        std::thread::spawn(move || runtime.shutdown_blocking(Shutdown::Drain, LIMIT))
    };
    // Once the drain began, nothing is admitted.
    until("the drain begins", || {
        let refused = runtime.submit(quick(|_| {})).start();
        refused.is_err_and(|refused| refused.reason() == RefusedReason::ShuttingDown)
    });
    for (holder, door) in doors {
        door.open();
        holder.wait().unwrap();
    }
    let report = ends.join().unwrap();
    assert!(report.remained.is_empty());
    assert_eq!(ran.load(SeqCst), 200);
}

/// A fom that submits in the middle of a drain, from every place it can.
struct Parent {
    begun: mpsc::Sender<()>,
    draining: Door,
    log: Arc<Mutex<Vec<&'static str>>>,
}

#[fom(operation(Parent), transient)]
enum Parenting {
    #[phase(start, to(Blocking))]
    Running,
    #[phase(blocking, to(Done))]
    Blocking,
    #[phase(end)]
    Done,
}

impl Parent {
    fn child(&self, runtime: &Runtime, name: &'static str) {
        let log = Arc::clone(&self.log);
        let child = quick(move |cx| {
            // Children may have children.
            let grandchild = {
                let log = Arc::clone(&log);
                quick(move |_| log.lock().unwrap().push("grandchild"))
            };
            log.lock().unwrap().push(name);
            drop(cx.runtime().submit(grandchild).start().unwrap());
        });
        drop(
            runtime
                .submit(child)
                .place(Placement::RoundRobin)
                .start()
                .expect(name),
        );
    }
}

impl ParentingTransitions for Parent {
    async fn running(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let guard = cx.enter_block()?;
        self.begun.send(()).unwrap();
        self.draining.pass();
        self.child(&guard.runtime(), "in a section");
        drop(guard);
        self.child(&cx.runtime(), "in a phase");
        let runtime = cx.runtime();
        cx.local(|_: &mut ()| self.child(&runtime, "in local"));
        Ok(())
    }

    fn blocking(&mut self, cx: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        self.child(&cx.runtime(), "in a blocking phase");
        Ok(())
    }
}

/// SV-09: a draining runtime takes what foms in flight submit, also from their sections, and refuses all others.
#[test]
fn a_drain_takes_children() {
    let _limit = limit();
    let runtime = Runtime::builder()
        .localities(2)
        .pin(false)
        .locality_data(|_| Ok::<_, BoxError>(()))
        .build()
        .unwrap();
    let (begun, has_begun) = mpsc::channel();
    let (draining, log) = (Door::default(), Arc::default());
    let parent = Parent {
        begun,
        draining: draining.clone(),
        log: Arc::clone(&log),
    };
    let parent = runtime.submit(parent).start().unwrap();
    has_begun.recv().unwrap();
    let ends = {
        let runtime = runtime.clone();
        std::thread::spawn(move || runtime.shutdown_blocking(Shutdown::Drain, LIMIT))
    };
    until("the drain begins", || {
        runtime.submit(quick(|_| {})).start().is_err()
    });
    // A fom of another runtime counts as outside.
    let other = one();
    let outsider = {
        let runtime = runtime.clone();
        quick(move |_| {
            let refused = runtime.submit(quick(|_| {})).start().unwrap_err();
            assert_eq!(refused.reason(), RefusedReason::ShuttingDown);
        })
    };
    other.submit(outsider).start().unwrap().wait().unwrap();
    draining.open();
    assert!(ends.join().unwrap().remained.is_empty());
    parent.wait().unwrap();
    let mut log = log.lock().unwrap().clone();
    log.sort_unstable();
    let grandchild = "grandchild";
    assert_eq!(
        log,
        [
            grandchild,
            grandchild,
            grandchild,
            grandchild,
            "in a blocking phase",
            "in a phase",
            "in a section",
            "in local"
        ]
    );
}

/// SV-09: a drain that runs out of time says which foms remain, ends them, and answers their callers.
#[test]
fn a_drain_out_of_time() {
    let _limit = limit();
    let runtime = two();
    let waits = runtime
        .submit(forever())
        .key("the one that waits")
        .start()
        .unwrap();
    let (stuck, door) = stuck(&runtime);
    let reached = waits.reached([TaskPhaseKind::Done]);
    let begun = Instant::now();
    let report = runtime.shutdown_blocking(Shutdown::Drain, Duration::from_millis(50));
    assert!(begun.elapsed() >= Duration::from_millis(50));
    let mut remained: Vec<_> = report
        .remained
        .iter()
        .map(|fom| (fom.id, fom.phase, fom.blocked))
        .collect();
    remained.sort_unstable();
    assert_eq!(
        remained,
        [(waits.id(), "Work", false), (stuck.id(), "Work", true)]
    );
    assert_eq!(report.remained[0].key, Some("the one that waits".into()));
    assert!(matches!(waits.wait().unwrap_err().cause, Cause::Shutdown));
    assert_eq!(reached.wait(), Reached::Ended);
    // Answered although it still blocks its thread.
    assert_eq!(stuck.state(), FomState::Running);
    let stuck_fom = stuck.fom().clone();
    assert!(matches!(stuck.wait().unwrap_err().cause, Cause::Shutdown));
    door.open();
    until("it ends when it can", || {
        stuck_fom.state() == FomState::Finished
    });
    until("its locality ends then", || {
        runtime
            .operations()
            .localities
            .iter()
            .all(|home| home.threads == 0)
    });
}

/// SV-09: with `Now`, a queued fom never runs and is answered with its operation. A waiting fom ends. A running fom is
/// dropped at its next wait.
#[test]
fn now_ends_everything() {
    let _limit = limit();
    let runtime = one();
    let dropped = Arc::new(AtomicUsize::new(0));
    let waits = runtime.submit(forever()).start().unwrap();
    let (tell, told) = mpsc::channel();
    let runs = {
        let drops = Drops(Arc::clone(&dropped));
        task(move |cx| {
            Box::pin(async move {
                let _drops = drops;
                tell.send(()).unwrap();
                // The fom holds the locality until it is told.
                until("it is told", || cx.is_cancelled());
                // The future is dropped here.
                pause().await;
                unreachable!("it went on after its runtime was shut down");
            })
        })
    };
    let runs = runtime.submit(runs).start().unwrap();
    told.recv().unwrap();
    let ran = Arc::new(AtomicBool::new(false));
    let queued: Vec<_> = (0..20)
        .map(|_| {
            let ran = Arc::clone(&ran);
            runtime
                .submit(quick(move |_| ran.store(true, SeqCst)))
                .start()
                .unwrap()
        })
        .collect();
    assert!(
        runtime
            .shutdown_blocking(Shutdown::Now, LIMIT)
            .remained
            .is_empty()
    );
    for handle in queued {
        let failure = handle.wait().unwrap_err();
        assert!(matches!(failure.cause, Cause::Shutdown));
        assert!(failure.operation.is_some());
    }
    assert!(!ran.load(SeqCst));
    assert!(matches!(waits.wait().unwrap_err().cause, Cause::Shutdown));
    assert!(matches!(runs.wait().unwrap_err().cause, Cause::Shutdown));
    assert_eq!(dropped.load(SeqCst), 1);
}

/// SV-09: `Now` with a fom stuck in a blocking section returns within its bound, and answers the fom's caller.
#[test]
fn now_with_a_stuck_fom() {
    let _limit = limit();
    let runtime = one();
    let (stuck, door) = stuck(&runtime);
    let begun = Instant::now();
    let report = runtime.shutdown_blocking(Shutdown::Now, Duration::from_millis(10));
    // 200 ms of grace; the rest is for a loaded machine.
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(report.remained.len(), 1);
    assert!(report.remained[0].blocked);
    assert!(matches!(stuck.wait().unwrap_err().cause, Cause::Shutdown));
    door.open();
    until("its locality ends", || {
        runtime.operations().localities[0].threads == 0
    });
}

/// SV-09: a shutdown in async code; if its future is dropped, the shutdown goes on.
#[tokio::test]
async fn an_async_shutdown() {
    let _limit = limit();
    let runtime = two();
    let waits = runtime.submit(forever()).start().unwrap();
    let report = runtime.shutdown(Shutdown::Now, LIMIT).await;
    assert!(report.remained.is_empty());
    assert!(matches!(waits.await.unwrap_err().cause, Cause::Shutdown));
    let runtime = two();
    let waits = runtime.submit(forever()).start().unwrap();
    {
        let mut shutdown = std::pin::pin!(runtime.shutdown(Shutdown::Now, LIMIT));
        // Begun, and given up.
        let _ = task::poll_once(shutdown.as_mut());
    }
    assert!(matches!(waits.await.unwrap_err().cause, Cause::Shutdown));
}

/// SV-09: dropping the last handle answers all waiting callers. Foms that hold runtime handles do not keep the runtime
/// alive.
#[test]
fn dropping_the_last_handle() {
    let _limit = limit();
    let dropped = Arc::new(AtomicUsize::new(0));
    for n in 1..=20 {
        let runtime = Runtime::builder()
            .localities(2)
            .pin(false)
            .resource(Drops(Arc::clone(&dropped)))
            .build()
            .unwrap();
        let waiting: Vec<_> = (0..10)
            .map(|_| runtime.submit(forever()).start().unwrap())
            .collect();
        let busy: Vec<_> = (0..4)
            .map(|_| {
                let submits = task(|cx| {
                    Box::pin(async move {
                        let runtime = cx.runtime();
                        // Submits until it is refused; each child waits forever.
                        while let Ok(child) = runtime
                            .submit(forever())
                            .place(Placement::RoundRobin)
                            .start()
                        {
                            drop(child);
                            pause().await;
                        }
                    })
                });
                runtime.submit(submits).start().unwrap()
            })
            .collect();
        let reached = waiting[0].reached([TaskPhaseKind::Done]);
        drop(runtime);
        for handle in waiting {
            assert!(matches!(handle.wait().unwrap_err().cause, Cause::Shutdown));
        }
        assert_eq!(reached.wait(), Reached::Ended);
        for handle in busy {
            if let Err(failure) = handle.wait() {
                assert!(matches!(failure.cause, Cause::Shutdown), "{failure:?}");
            }
        }
        // All localities have ended then, so the children were told as well.
        until("nothing is left", || dropped.load(SeqCst) == n);
    }
}

/// SV-05: `idle` returns only once nothing is in flight; what the foms held is gone by then.
#[test]
fn idle_waits_for_the_last() {
    let _limit = limit();
    let runtime = two();
    block_on(runtime.idle());
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut taken = 0;
    for round in 0..100 {
        let foms = round % 4;
        for _ in 0..foms {
            let drops = Drops(Arc::clone(&dropped));
            let holds = task(move |_| {
                Box::pin(async move {
                    let _drops = drops;
                    pause().await;
                })
            });
            // Without its handle: what the fom held is dropped at its end.
            drop(runtime.submit(holds).start().unwrap());
        }
        taken += foms;
        block_on(runtime.idle());
        assert_eq!(runtime.in_flight(), 0);
        // Trap 20: the end is told last; a caller that hears of it may take down what the foms pointed to.
        assert_eq!(dropped.load(SeqCst), taken);
    }
    let waits = runtime.submit(forever()).start().unwrap();
    let mut idle = std::pin::pin!(runtime.idle());
    assert!(task::poll_once(idle.as_mut()).is_pending());
    waits.cancel();
    block_on(idle);
}

/// Trap 20: when the outcome is told, the fom is out of every table, and what it ran in is dropped.
#[test]
fn the_outcome_is_told_last() {
    let _limit = limit();
    let runtime = two();
    let dropped = Arc::new(AtomicUsize::new(0));
    for n in 1..=300 {
        let drops = Drops(Arc::clone(&dropped));
        let holds = task(move |_| {
            Box::pin(async move {
                let _drops = drops;
                pause().await;
            })
        });
        let handle = runtime.submit(holds).key("one").start().unwrap();
        let fom = handle.fom().clone();
        handle.wait().unwrap();
        assert_eq!(dropped.load(SeqCst), n);
        assert_eq!(fom.state(), FomState::Finished);
        assert!(runtime.find::<task::Task>("one").is_none());
        assert!(runtime.operation(fom.id()).is_none());
    }
}

/// Trap 19: a shutdown counts submissions not yet admitted, in every locality. While it begins, each submission is
/// taken and ends, or is refused; none is lost.
#[test]
fn submissions_that_race_with_a_drain() {
    let _limit = limit();
    for _ in 0..30 {
        let runtime = two();
        let ran = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (runtime, ran) = (runtime.clone(), Arc::clone(&ran));
                std::thread::spawn(move || {
                    let mut taken = Vec::new();
                    loop {
                        let ran = Arc::clone(&ran);
                        let counts = quick(move |_| {
                            ran.fetch_add(1, SeqCst);
                        });
                        match runtime.submit(counts).start() {
                            Ok(handle) => taken.push(handle),
                            Err(refused) => {
                                assert_eq!(refused.reason(), RefusedReason::ShuttingDown);
                                return taken;
                            }
                        }
                    }
                })
            })
            .collect();
        until("some ran", || ran.load(SeqCst) > 20);
        let report = runtime.shutdown_blocking(Shutdown::Drain, LIMIT);
        assert!(report.remained.is_empty());
        let at_the_end = ran.load(SeqCst);
        let taken: Vec<_> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        assert_eq!(taken.len(), at_the_end);
        for handle in taken {
            handle.wait().unwrap();
        }
    }
}

/// Trap 19: the same with `Now`: every submission that was taken is answered.
#[test]
fn submissions_that_race_with_now() {
    let _limit = limit();
    for _ in 0..30 {
        let runtime = two();
        let submitted = Arc::new(AtomicUsize::new(0));
        let submits = {
            let (runtime, submitted) = (runtime.clone(), Arc::clone(&submitted));
            std::thread::spawn(move || {
                let mut taken = Vec::new();
                while let Ok(handle) = runtime.submit(forever()).start() {
                    submitted.fetch_add(1, SeqCst);
                    taken.push(handle);
                }
                taken
            })
        };
        until("some are in", || submitted.load(SeqCst) > 20);
        let report = runtime.shutdown_blocking(Shutdown::Now, LIMIT);
        assert!(report.remained.is_empty());
        for handle in submits.join().unwrap() {
            assert!(matches!(handle.wait().unwrap_err().cause, Cause::Shutdown));
        }
    }
}
