//! Enter-block and leave-block: what the locality does meanwhile, and which waits are allowed.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

use fom_runtime::{
    BlockingCx, Cause,
    config::Followers,
    context::BlockGuard,
    error::{BlockError, BoxError},
    prelude::*,
    time::TestClock,
};

use crate::copying::{copy, sleeps};
use crate::kit::alone::alone;
use crate::kit::task::{self, Door, limit, locality, one, pause, quick, task, until};

#[derive(Clone, Copy, Default)]
struct Count(u64);

/// LO-04: while a fom is in a blocking section, the other foms of its locality run, also foms submitted meanwhile.
#[test]
fn others_run_while_one_blocks() {
    let _limit = limit();
    let runtime = one();
    let door = Door::default();
    let (operation, began) = copy(&door, false);
    let blocked = runtime.submit(operation).start().unwrap();
    began.recv().unwrap();
    for _ in 0..100 {
        runtime
            .submit(quick(|_| {}))
            .start()
            .unwrap()
            .wait()
            .unwrap();
    }
    let listed = runtime.operation(blocked.id()).unwrap();
    assert!(listed.blocked);
    assert_eq!(listed.waiting_for().as_deref(), Some("a blocking call"));
    assert_eq!(locality(&runtime, 0).blocked_threads, 1);
    door.open();
    blocked.wait().unwrap();
    assert_eq!(locality(&runtime, 0).blocked_threads, 0);
}

/// LO-04: on leave-block, the fom resumes before all foms in the queue.
#[test]
fn returning_foms_run_before_the_queue() {
    alone(|| {
        let _limit = limit();
        let runtime = one();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (entered, has_entered) = mpsc::channel();
        let leave = Door::default();
        let returning = {
            let (log, leave) = (Arc::clone(&log), leave.clone());
            runtime.submit(task(move |cx| {
                Box::pin(async move {
                    let guard = cx.enter_block().unwrap();
                    entered.send(()).unwrap();
                    leave.pass();
                    drop(guard);
                    log.lock().unwrap().push("returned".to_owned());
                })
            }))
        };
        let returning = returning.start().unwrap();
        has_entered.recv().unwrap();
        // This fom holds the locality until the other fom waits for the locality and a queue has formed.
        let (running, runs) = mpsc::channel();
        let hold = Door::default();
        let holder = {
            let (log, hold) = (Arc::clone(&log), hold.clone());
            runtime.submit(quick(move |cx| {
                let runtime = cx.runtime();
                for n in 0..3 {
                    let log = Arc::clone(&log);
                    let queued = quick(move |_| log.lock().unwrap().push(format!("queued {n}")));
                    drop(runtime.submit(queued).start().unwrap());
                }
                running.send(()).unwrap();
                hold.pass();
            }))
        };
        let holder = holder.start().unwrap();
        runs.recv().unwrap();
        leave.open();
        // No channel reports that a thread waits for the locality. A thread that has slept has long left its section.
        until("the thread waits for its locality", || sleeps(&runtime));
        hold.open();
        holder.wait().unwrap();
        returning.wait().unwrap();
        runtime.shutdown_blocking(Shutdown::Drain, task::LIMIT);
        assert_eq!(
            *log.lock().unwrap(),
            ["returned", "queued 0", "queued 1", "queued 2"]
        );
    });
}

/// FL-03: what a locality owns needs no lock while foms block, return and wait: no increment is lost. FL-02: no fom
/// runs twice at the same time.
#[test]
fn locality_data_needs_no_lock() {
    let _limit = limit();
    const FOMS: u64 = 24;
    const ROUNDS: u64 = 150;
    let runtime = Runtime::builder()
        .localities(2)
        .pin(false)
        .locality_data(|_| Ok::<_, BoxError>(Count::default()))
        .followers(Followers {
            least: 1,
            most: 6,
            idle: Duration::from_millis(1),
        })
        .build()
        .unwrap();
    let inside = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let handles: Vec<_> = (0..FOMS)
        .map(|n| {
            let inside = Arc::clone(&inside);
            let body = task(move |cx| {
                Box::pin(async move {
                    for round in 0..ROUNDS {
                        let here = &inside[cx.locality()];
                        assert_eq!(here.fetch_add(1, SeqCst), 0, "two handlers in one locality");
                        // Read, let time pass, write: a second handler would interfere here.
                        let seen = cx.local(|count: &mut Count| count.0);
                        std::hint::spin_loop();
                        cx.local(|count: &mut Count| count.0 = seen + 1);
                        here.fetch_sub(1, SeqCst);
                        match (n + round) % 4 {
                            0 => drop(cx.enter_block().unwrap()),
                            1 => {
                                let _guard = cx.enter_block().unwrap();
                                std::thread::yield_now();
                            }
                            2 => pause().await,
                            _ => {}
                        }
                    }
                })
            });
            runtime
                .submit(body)
                .place(Placement::Locality(n as usize % 2))
                .start()
                .unwrap()
        })
        .collect();
    for handle in handles {
        handle.wait().unwrap();
    }
    let sum = futures::executor::block_on(runtime.each(|local| local.data::<Count>().0)).unwrap();
    assert_eq!(sum, [FOMS / 2 * ROUNDS; 2]);
}

/// FL-02: at most one run of a fom at a time, however many threads wake the fom at once, also while the fom blocks.
#[test]
fn runs_of_a_fom_do_not_overlap() {
    let _limit = limit();
    let runtime = Runtime::builder().localities(2).pin(false).build().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let runs = Arc::new(AtomicUsize::new(0));
    let fom = {
        let (over, runs) = (Arc::clone(&over), Arc::clone(&runs));
        runtime.submit(task(move |cx| {
            Box::pin(async move {
                let inside = AtomicBool::new(false);
                // Polled in every run; nothing but the end makes the future ready.
                std::future::poll_fn(|_| {
                    assert!(!inside.swap(true, SeqCst), "two runs at a time");
                    if runs.fetch_add(1, SeqCst).is_multiple_of(3) {
                        let _guard = cx.enter_block().unwrap();
                        std::thread::yield_now();
                    }
                    inside.store(false, SeqCst);
                    if over.load(SeqCst) {
                        std::task::Poll::Ready(())
                    } else {
                        std::task::Poll::Pending
                    }
                })
                .await;
            })
        }))
    };
    let fom = fom.start().unwrap();
    let wakers: Vec<_> = (0..3)
        .map(|_| {
            let (address, runs) = (fom.fom().clone(), Arc::clone(&runs));
            std::thread::spawn(move || {
                while runs.load(SeqCst) < 500 {
                    address.wake();
                    std::thread::yield_now();
                }
            })
        })
        .collect();
    for waker in wakers {
        waker.join().unwrap();
    }
    over.store(true, SeqCst);
    fom.wake();
    fom.wait().unwrap();
}

/// LO-03: posts of plain threads reach a locality while its handler blocks and returns all the time: no wake is lost.
#[test]
fn no_post_is_lost_while_the_core_moves() {
    let _limit = limit();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .locality_data(|_| Ok::<_, BoxError>(Count::default()))
        .build()
        .unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let mover = {
        let over = Arc::clone(&over);
        runtime.submit(task(move |cx| {
            Box::pin(async move {
                while !over.load(SeqCst) {
                    for _ in 0..50 {
                        drop(cx.enter_block().unwrap());
                    }
                    pause().await;
                }
            })
        }))
    };
    let mover = mover.start().unwrap();
    for n in 1..=3000 {
        // Each call is answered before the next is sent: a lost call would hang here.
        let count = futures::executor::block_on(runtime.call(0, |local| {
            let count = local.data::<Count>();
            count.0 += 1;
            count.0
        }));
        assert_eq!(count, Ok(n));
    }
    over.store(true, SeqCst);
    mover.wait().unwrap();
}

/// Leaks its guard, and goes on to a phase with a deadline while another thread has the locality.
struct Leaks;

#[derive(Debug)]
enum Word {
    #[allow(dead_code, reason = "it never comes")]
    Go,
}

#[fom(operation(Leaks), event(Word), transient)]
enum Leaking {
    #[phase(start, sync, to(Wait))]
    Leak,
    #[phase(sync, on(Go), within = "1s", to(Done))]
    Wait,
    #[phase(end)]
    Done,
}

impl LeakingTransitions for Leaks {
    fn leak(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        std::mem::forget(cx.enter_block()?);
        Ok(())
    }

    fn wait(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<LeakingAfterWait, BoxError> {
        Ok(LeakingAfterWait::Done)
    }
}

/// LO-04: if a fom has leaked its guard, the deadline of its next phase is still armed in its locality.
#[test]
fn a_leaked_guard_does_not_keep_a_deadline_from_being_armed() {
    let _limit = limit();
    let clock = TestClock::new();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(clock.clone())
        .build()
        .unwrap();
    let fom = runtime.submit(Leaks).start().unwrap();
    futures::executor::block_on(runtime.quiet());
    assert_eq!(fom.phase(), "Wait");
    clock.advance(Duration::from_secs(1));
    let cause = fom.wait().unwrap_err().cause;
    assert!(
        matches!(cause, Cause::Late { armed_in: "Wait" }),
        "{cause:?}"
    );
}

/// Leaks its guard, then loops.
struct Loops;

#[fom(operation(Loops), transient)]
enum Looping {
    #[phase(start, sync, to(Again))]
    Leak,
    #[allow(dead_code)]
    #[phase(sync, to(Again, Done))]
    Again,
    #[phase(end)]
    Done,
}

impl LoopingTransitions for Loops {
    fn leak(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        std::mem::forget(cx.enter_block()?);
        Ok(())
    }

    fn again(&mut self, _: &mut Cx<'_>) -> Result<LoopingAfterAgain, BoxError> {
        Ok(LoopingAfterAgain::Again)
    }
}

/// LO-04: a fom that leaked its guard returns to its locality with its next step. It takes turns, and a caller can
/// cancel it.
#[test]
fn a_leaked_guard_ends_with_the_next_step() {
    let _limit = limit();
    let runtime = one();
    let fom = runtime.submit(Loops).start().unwrap();
    futures::executor::block_on(fom.reached([LoopingKind::Again]).into_future());
    let other = runtime.submit(quick(|_| {})).start().unwrap();
    other.wait().unwrap();
    fom.cancel();
    assert!(matches!(fom.wait().unwrap_err().cause, Cause::Cancelled));
}

/// LO-04: enter-block does not nest, and is an error outside the turn of a phase function.
#[test]
fn entering_twice_is_an_error() {
    let _limit = limit();
    let runtime = one();
    let (tell, told) = mpsc::channel();
    let outer = runtime.submit(quick(move |cx| {
        // The guard borrows the context, so a second call is possible only after a leak.
        std::mem::forget(cx.enter_block().unwrap());
        tell.send(matches!(cx.enter_block(), Err(BlockError::NotInPhase)))
            .unwrap();
    }));
    outer.start().unwrap().wait().unwrap();
    assert!(told.recv().unwrap());
}

/// LO-04: a leaked guard ends with the run of its fom. The locality lives and gets its thread back.
#[test]
fn a_leaked_guard_does_not_kill_the_locality() {
    let _limit = limit();
    let runtime = one();
    for _ in 0..10 {
        let leaks = quick(|cx| std::mem::forget(cx.enter_block().unwrap()));
        runtime.submit(leaks).start().unwrap().wait().unwrap();
        runtime
            .submit(quick(|_| {}))
            .start()
            .unwrap()
            .wait()
            .unwrap();
    }
    until("all threads are back", || {
        locality(&runtime, 0).blocked_threads == 0
    });
    // Leaked while other foms are due: another thread has the locality when the run ends.
    let leaks = task(|cx| {
        Box::pin(async move {
            let runtime = cx.runtime();
            let others: Vec<_> = (0..10)
                .map(|_| runtime.submit(quick(|_| {})).start().unwrap())
                .collect();
            std::mem::forget(cx.enter_block().unwrap());
            for other in others {
                other.await.unwrap();
            }
        })
    });
    runtime.submit(leaks).start().unwrap().wait().unwrap();
    until("all threads are back", || {
        locality(&runtime, 0).blocked_threads == 0
    });
    let report = runtime.shutdown_blocking(Shutdown::Drain, task::LIMIT);
    assert!(report.remained.is_empty());
}

/// LO-04: a panic inside a blocking section leaves the section and fails only its fom. The locality goes on.
#[test]
fn a_panic_inside_leaves_the_section() {
    let _limit = limit();
    let runtime = one();
    let open = Door::default();
    open.open();
    let (operation, _began) = copy(&open, true);
    let failure = runtime
        .submit(operation)
        .start()
        .unwrap()
        .wait()
        .unwrap_err();
    assert!(
        matches!(&failure.cause, Cause::Panicked(text) if text == "disk on fire"),
        "{failure:?}"
    );
    assert!(failure.operation.is_some());
    let inside = quick(|cx| {
        let _guard = cx.enter_block().unwrap();
        panic!("inside the guard");
    });
    let failure = runtime.submit(inside).start().unwrap().wait().unwrap_err();
    assert!(matches!(failure.cause, Cause::Panicked(_)));
    assert_eq!(locality(&runtime, 0).blocked_threads, 0);
    runtime
        .submit(quick(|_| {}))
        .start()
        .unwrap()
        .wait()
        .unwrap();
}

/// Trap 14: leave-block wakes a sleeping handler, again and again.
#[test]
fn leaving_wakes_a_sleeping_handler() {
    let _limit = limit();
    let runtime = one();
    // A fom that waits forever: the handler keeps the locality, and sleeps in it while the other fom blocks.
    let waits = runtime
        .submit(task(|_| Box::pin(std::future::pending())))
        .start()
        .unwrap();
    for _ in 0..50 {
        let (entered, has_entered) = mpsc::channel();
        let leave = Door::default();
        let blocks = {
            let leave = leave.clone();
            runtime.submit(quick(move |cx| {
                let _guard = cx.enter_block().unwrap();
                entered.send(()).unwrap();
                leave.pass();
            }))
        };
        let blocks = blocks.start().unwrap();
        has_entered.recv().unwrap();
        // Round trip: another thread is the handler by now, and goes to sleep after this call.
        futures::executor::block_on(runtime.call(0, |_| ())).unwrap();
        leave.open();
        blocks.wait().unwrap();
    }
    waits.cancel();
    assert!(waits.wait().is_err());
}

/// Trap 18: waiting for a fom of the same locality inside a phase does not deadlock: the wait is a blocking section.
/// LO-15.
#[test]
fn waiting_for_a_fom_of_the_same_locality() {
    let _limit = limit();
    let runtime = one();
    let outer = runtime.submit(quick(|cx| {
        let child = cx
            .runtime()
            .submit(quick(|_| {}))
            .place(Placement::Here)
            .start()
            .unwrap();
        assert_eq!(child.locality(), cx.locality());
        child.wait().unwrap();
        // Nested waits.
        let deep = cx.submit(quick(|cx| {
            cx.runtime()
                .submit(quick(|_| {}))
                .start()
                .unwrap()
                .wait()
                .unwrap();
        }));
        deep.start().unwrap().wait().unwrap();
        let passing = cx.runtime().submit(quick(|_| {})).start().unwrap();
        passing.reached([task::TaskPhaseKind::Done]).wait();
    }));
    outer.start().unwrap().wait().unwrap();
}

/// Trap 17: a wait inside a job is refused, since no fom can have a section for it. The refusal does not stop the
/// locality.
#[test]
fn waiting_inside_a_job_is_refused() {
    let _limit = limit();
    let runtime = one();
    let forever = runtime
        .submit(task(|_| Box::pin(std::future::pending())))
        .start()
        .unwrap();
    let fom = forever.fom().clone();
    runtime.post(0, move |_| drop(forever.wait())).unwrap();
    // Answered only if the job before it did not block.
    futures::executor::block_on(runtime.call(0, |_| ())).unwrap();
    let incidents = runtime.operations().incidents;
    assert!(
        incidents.len() == 1 && incidents[0].text.contains("for ever"),
        "{incidents:?}"
    );
    fom.cancel();
}

/// Trap 17: a wait inside a task that a fom spawned on its locality's reactor is refused, too.
#[test]
fn waiting_inside_a_spawned_task_is_refused() {
    let _limit = limit();
    let runtime = one();
    let spawns = task(|cx| {
        Box::pin(async move {
            let runtime = cx.runtime();
            let spawned = tokio::spawn(async move {
                runtime
                    .submit(quick(|_| {}))
                    .start()
                    .unwrap()
                    .await
                    .unwrap();
                let _ = runtime.submit(quick(|_| {})).start().unwrap().wait();
            });
            assert!(spawned.await.unwrap_err().is_panic());
        })
    });
    runtime.submit(spawns).start().unwrap().wait().unwrap();
}

/// Trap 17: a wait inside `Cx::local` is refused, too.
#[test]
fn waiting_inside_local_is_refused() {
    let _limit = limit();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .locality_data(|_| Ok::<_, BoxError>(Count(0)))
        .build()
        .unwrap();
    let waits = runtime.submit(quick(|cx| {
        let child = cx.runtime().submit(quick(|_| {})).start().unwrap();
        cx.local(|_: &mut Count| drop(child.wait()));
    }));
    let failure = waits.start().unwrap().wait().unwrap_err();
    assert!(matches!(failure.cause, Cause::Panicked(_)));
    runtime
        .submit(quick(|cx| cx.local(|count: &mut Count| count.0 += 1)))
        .start()
        .unwrap()
        .wait()
        .unwrap();
}

/// Trap 16: a section belongs to its thread, so its guard is not `Send` and cannot be held over an `.await`. (The
/// documentation of `Cx::enter_block` has code that must not compile: the locality's data is out of reach in a
/// section.)
#[test]
fn guards_stay_on_their_thread() {
    // The inherent function exists only for `Send` types, and there takes precedence over the trait's.
    struct Is<T>(std::marker::PhantomData<T>);
    trait Otherwise {
        fn is_send(&self) -> bool {
            false
        }
    }
    impl<T> Otherwise for Is<T> {}
    impl<T: Send> Is<T> {
        fn is_send(&self) -> bool {
            true
        }
    }
    assert!(Is::<u8>(std::marker::PhantomData).is_send());
    assert!(!Is::<BlockGuard<'static>>(std::marker::PhantomData).is_send());
    assert!(!Is::<BlockingCx<'static>>(std::marker::PhantomData).is_send());
}

/// LO-04: a blocking section may wait for work in its own locality: foms, timers, and tokio tasks spawned there.
#[test]
fn a_section_may_wait_for_its_own_locality() {
    let _limit = limit();
    let runtime = one();
    let waits = runtime.submit(quick(|cx| {
        let (tell, told) = mpsc::channel();
        // Nothing else is in flight: only the spawned task keeps a thread at the reactor.
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            tell.send(()).unwrap();
        });
        let guard = cx.enter_block().unwrap();
        told.recv().unwrap();
        drop(guard);
        // Posted inside the section, when no thread has the locality any more.
        let guard = cx.enter_block().unwrap();
        let (tell, told) = mpsc::channel();
        guard
            .runtime()
            .post(0, move |_| tell.send(()).unwrap())
            .unwrap();
        told.recv().unwrap();
    }));
    waits.start().unwrap().wait().unwrap();
}

/// LO-04: what a fom submits in a section comes before what the fom submits after the section.
#[test]
fn order_is_kept_over_the_end_of_a_section() {
    let _limit = limit();
    for _ in 0..20 {
        let runtime = Runtime::builder()
            .localities(1)
            .pin(false)
            .locality_data(|_| Ok::<_, BoxError>(Count(0)))
            .build()
            .unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let submits = {
            let log = Arc::clone(&log);
            runtime.submit(task(move |cx| {
                Box::pin(async move {
                    let runtime = cx.runtime();
                    let note = |n: u32| {
                        let log = Arc::clone(&log);
                        drop(
                            runtime
                                .submit(quick(move |_| log.lock().unwrap().push(n)))
                                .start()
                                .unwrap(),
                        );
                    };
                    note(0);
                    let guard = cx.enter_block().unwrap();
                    note(1);
                    drop(guard);
                    note(2);
                    cx.local(|_: &mut Count| note(3));
                    note(4);
                })
            }))
        };
        submits.start().unwrap().wait().unwrap();
        runtime.shutdown_blocking(Shutdown::Drain, task::LIMIT);
        assert_eq!(*log.lock().unwrap(), [0, 1, 2, 3, 4]);
    }
}

/// One locality with a clock that stands still. Its sections follow each other closely, so all are guessed short.
fn hasty() -> Runtime {
    Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(TestClock::new())
        .build()
        .unwrap()
}

/// LO-04: a section that was guessed short and blocks for long does not stop its locality, whatever was ready there
/// before.
#[test]
fn a_section_guessed_short_may_block() {
    let _limit = limit();
    let runtime = hasty();
    let fom = runtime.submit(quick(|cx| {
        for _ in 0..20 {
            for _ in 0..100 {
                drop(cx.enter_block().unwrap());
            }
            let (tell, told) = mpsc::channel();
            let ready = cx.submit(quick(move |_| tell.send(()).unwrap()));
            drop(ready.place(Placement::Here).start().unwrap());
            let guard = cx.enter_block().unwrap();
            told.recv().unwrap();
            drop(guard);
        }
    }));
    fom.start().unwrap().wait().unwrap();
    assert_eq!(locality(&runtime, 0).blocked_threads, 0);
}
