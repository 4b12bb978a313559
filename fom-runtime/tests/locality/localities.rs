//! Localities as users see them: the index, threads bound to processors, their own data, jobs, and the end.

use std::{
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::{Context, Wake, Waker},
};

use fom_runtime::{
    config::Followers,
    error::{BoxError, BuildError, CallError, RefusedReason},
    prelude::*,
};
use futures::executor::block_on;

use crate::kit::alone::assert_passed;
use crate::kit::task::{self, Door, Drops, limit, one, quick, task};

/// Returns the processors that this thread may use, as the kernel lists them.
fn allowed() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap();
    line.trim().to_owned()
}

/// Returns the numbers in a list such as `0-2,5`.
fn numbers(list: &str) -> Vec<usize> {
    list.split(',')
        .flat_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            first.parse().unwrap()..=last.parse::<usize>().unwrap()
        })
        .collect()
}

/// LO-01: there is one locality for each core that the process may use, numbered from zero, and its threads are bound
/// to its processors. Trap 21: the index counts localities, not processors.
#[test]
fn localities_are_the_cores_of_the_process() {
    let _limit = limit();
    let mine = numbers(&allowed());
    let runtime = Runtime::new().unwrap();
    let listed = runtime.operations().localities;
    assert_eq!(runtime.localities(), listed.len());
    assert!((1..=mine.len()).contains(&listed.len()));
    let mut all: Vec<usize> = Vec::new();
    for (index, locality) in listed.iter().enumerate() {
        assert_eq!(locality.index, index);
        let bound = block_on(runtime.call(index, |local| (local.index(), allowed()))).unwrap();
        assert_eq!(bound, (index, bound.1.clone()));
        assert_eq!(numbers(&bound.1), locality.cpus);
        all.extend(&locality.cpus);
    }
    all.sort_unstable();
    assert_eq!(all, mine, "each processor belongs to one locality");
}

/// Trap 21: a process that may use one core has one locality, whichever core it is. LO-01.
#[test]
fn cpusets_are_respected() {
    const INSIDE: &str = "FOM_TEST_CPU";
    let _limit = limit();
    if let Ok(cpu) = std::env::var(INSIDE) {
        let runtime = Runtime::new().unwrap();
        assert_eq!(runtime.localities(), 1);
        assert_eq!(
            runtime.operations().localities[0].cpus,
            [cpu.parse::<usize>().unwrap()]
        );
        let handle = runtime
            .submit(quick(|cx| assert_eq!(cx.locality(), 0)))
            .start()
            .unwrap();
        handle.wait().unwrap();
        return;
    }
    let last = *numbers(&allowed()).last().unwrap();
    let ran = Command::new("taskset")
        .args(["-c", &last.to_string()])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "localities::cpusets_are_respected"])
        .env(INSIDE, last.to_string())
        .output();
    match ran {
        Ok(ran) => assert_passed(&ran),
        // A machine without taskset cannot check this.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
    }
}

/// Trap 1: submissions of one thread to one locality are admitted in order, also as one burst to a busy locality.
/// LO-02.
#[test]
fn submissions_of_one_thread_keep_their_order() {
    let _limit = limit();
    let runtime = one();
    let log = Arc::new(Mutex::new(Vec::new()));
    let (entered, has_entered) = mpsc::channel();
    let hold = Door::default();
    let holder = {
        let hold = hold.clone();
        runtime.submit(quick(move |_| {
            entered.send(()).unwrap();
            hold.pass();
        }))
    };
    let holder = holder.start().unwrap();
    has_entered.recv().unwrap();
    let submit = |n: u32| {
        let log = Arc::clone(&log);
        drop(
            runtime
                .submit(quick(move |_| log.lock().unwrap().push(n)))
                .start()
                .unwrap(),
        );
    };
    (0..500).for_each(submit);
    hold.open();
    // Also while the locality runs.
    (500..1000).for_each(submit);
    holder.wait().unwrap();
    runtime.shutdown_blocking(Shutdown::Drain, task::LIMIT);
    assert_eq!(*log.lock().unwrap(), (0..1000).collect::<Vec<_>>());
}

/// LO-02: a fom may get its turn with its time used up, because its thread lost the processor. It is not sent behind
/// the foms after it. FL-04: every run has at least one step.
#[test]
fn a_budget_of_no_time_keeps_the_order() {
    let _limit = limit();
    let budget = fom_runtime::config::Budget {
        phases: 1,
        time: std::time::Duration::ZERO,
    };
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .budget(budget)
        .build()
        .unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    for n in 0..200_u32 {
        let log = Arc::clone(&log);
        drop(
            runtime
                .submit(quick(move |_| log.lock().unwrap().push(n)))
                .start()
                .unwrap(),
        );
    }
    runtime.shutdown_blocking(Shutdown::Drain, task::LIMIT);
    assert_eq!(*log.lock().unwrap(), (0..200).collect::<Vec<_>>());
}

/// LO-02: submissions of several concurrent threads keep the order of each thread, and so do jobs.
#[test]
fn each_thread_has_its_order() {
    let _limit = limit();
    const EACH: usize = 500;
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .locality_data(|_| Ok::<_, BoxError>([0_usize; 6]))
        .build()
        .unwrap();
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let runtime = runtime.clone();
            std::thread::spawn(move || {
                for n in 0..EACH {
                    let check = move |place: usize, seen: &mut [usize; 6]| {
                        assert_eq!(seen[place], n);
                        seen[place] += 1;
                    };
                    let fom = quick(move |cx| cx.local(|seen| check(thread, seen)));
                    drop(runtime.submit(fom).start().unwrap());
                    runtime
                        .post(0, move |local| check(3 + thread, local.data()))
                        .unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    block_on(runtime.idle());
    assert_eq!(
        block_on(runtime.call(0, |local| *local.data::<[usize; 6]>())),
        Ok([EACH; 6])
    );
    assert!(runtime.operations().incidents.is_empty());
}

/// LO-03: one handler at a time, however many threads a locality has; while the locality has work, a thread handles it.
#[test]
fn one_handler_at_a_time() {
    let _limit = limit();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .followers(Followers {
            least: 3,
            most: 8,
            idle: std::time::Duration::from_millis(1),
        })
        .build()
        .unwrap();
    let inside = Arc::new(AtomicUsize::new(0));
    let enter = |inside: &AtomicUsize| {
        assert_eq!(inside.fetch_add(1, SeqCst), 0);
        std::thread::yield_now();
        inside.fetch_sub(1, SeqCst);
    };
    let handles: Vec<_> = (0..300)
        .map(|n| {
            let inside = Arc::clone(&inside);
            let fom = quick(move |cx| {
                enter(&inside);
                if n % 3 == 0 {
                    let _guard = cx.enter_block().unwrap();
                    std::thread::yield_now();
                }
                enter(&inside);
            });
            runtime.submit(fom).start().unwrap()
        })
        .collect();
    for handle in handles {
        handle.wait().unwrap();
    }
}

/// LO-09: a call into another locality is answered; a call into the fom's own runs in place. Trap 18: no deadlock.
#[test]
fn calls_into_localities() {
    let _limit = limit();
    let runtime = Runtime::builder().localities(2).pin(false).build().unwrap();
    assert_eq!(block_on(runtime.call(1, |local| local.index())), Ok(1));
    assert_eq!(
        block_on(runtime.call(2, |_| ())),
        Err(CallError::NoSuchLocality(2))
    );
    assert_eq!(runtime.post(2, |_| ()), Err(CallError::NoSuchLocality(2)));
    let calls = task(|cx| {
        Box::pin(async move {
            let (runtime, here) = (cx.runtime(), cx.locality());
            let in_place = std::thread::current().id();
            let answered = runtime.call(here, move |_| std::thread::current().id() == in_place);
            // Ready at the first poll, without a wake.
            let mut answered = std::pin::pin!(answered);
            let polled = answered
                .as_mut()
                .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
            assert_eq!(polled, std::task::Poll::Ready(Ok(true)));
            assert_eq!(
                runtime.call(1 - here, |local| local.index()).await,
                Ok(1 - here)
            );
            assert_eq!(runtime.each(|local| local.index()).await, Ok(vec![0, 1]));
        })
    });
    runtime.submit(calls).start().unwrap().wait().unwrap();
}

/// LO-09: a call that is given up before it began never runs; a call that panics is an error for its caller alone.
#[test]
fn calls_can_be_given_up() {
    let _limit = limit();
    let runtime = one();
    let (entered, has_entered) = mpsc::channel();
    let hold = Door::default();
    let holder = {
        let hold = hold.clone();
        runtime.submit(quick(move |_| {
            entered.send(()).unwrap();
            hold.pass();
        }))
    };
    let holder = holder.start().unwrap();
    has_entered.recv().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let given_up = {
        let (runtime, ran) = (runtime.clone(), Arc::clone(&ran));
        async move { runtime.call(0, move |_| ran.fetch_add(1, SeqCst)).await }
    };
    let mut given_up = Box::pin(given_up);
    let pending = given_up
        .as_mut()
        .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(pending.is_pending());
    drop(given_up);
    hold.open();
    holder.wait().unwrap();
    assert_eq!(
        block_on(runtime.call(0, |_| -> u8 { panic!("in a call") })),
        Err(CallError::Dropped)
    );
    assert_eq!(block_on(runtime.call(0, |_| 1)), Ok(1));
    assert_eq!(ran.load(SeqCst), 0);
    let incidents = runtime.operations().incidents;
    assert!(
        incidents.len() == 1 && incidents[0].text.contains("in a call"),
        "{incidents:?}"
    );
}

/// Data of a locality that records where it was made and that it was dropped.
struct Made {
    on: std::thread::ThreadId,
    cpus: String,
    _drops: Drops,
}

/// LO-11: each locality's data is made in its locality, before anything else runs there, and dropped at its end.
#[test]
fn data_is_made_and_dropped_in_the_locality() {
    let _limit = limit();
    let drops = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&drops);
    let runtime = Runtime::builder()
        .localities(2)
        .locality_data(move |_| {
            let _drops = Drops(Arc::clone(&counter));
            Ok::<_, BoxError>(Made {
                on: std::thread::current().id(),
                cpus: allowed(),
                _drops,
            })
        })
        .locality_data(|index| Ok::<_, BoxError>(index as u64 * 10))
        .build()
        .unwrap();
    let made = block_on(runtime.each(|local| {
        let ten = *local.data::<u64>();
        let made = local.data::<Made>();
        (made.on, made.cpus == allowed(), ten)
    }));
    let made = made.unwrap();
    assert_ne!(made[0].0, std::thread::current().id());
    assert_ne!(made[0].0, made[1].0);
    assert!(made.iter().all(|made| made.1));
    assert_eq!(made.iter().map(|made| made.2).collect::<Vec<_>>(), [0, 10]);
    // Foms reach the data, and the error for a missing type says how to add it.
    let uses = quick(|cx| cx.local(|ten: &mut u64| *ten += 1));
    runtime
        .submit(uses)
        .place(Placement::Locality(1))
        .start()
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(
        block_on(runtime.call(1, |local| *local.data::<u64>())),
        Ok(11)
    );
    let failure = runtime
        .submit(quick(|cx| cx.local(|_: &mut i8| ())))
        .start()
        .unwrap()
        .wait()
        .unwrap_err();
    assert!(
        failure
            .cause
            .to_string()
            .contains("no locality data of type `i8`"),
        "{failure}"
    );
    assert_eq!(drops.load(SeqCst), 0);
    runtime.shutdown_blocking(Shutdown::Drain, task::LIMIT);
    assert_eq!(drops.load(SeqCst), 2);
}

/// LO-11: when the data of the second locality cannot be made, the first locality's data is dropped before `build`
/// fails. The same holds when its constructor panics.
#[test]
fn data_that_cannot_be_made_rolls_back() {
    let _limit = limit();
    for panics in [false, true] {
        let drops = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&drops);
        let failed = Runtime::builder()
            .localities(2)
            .pin(false)
            .locality_data(|_| Ok::<_, BoxError>(7_u64))
            .locality_data(move |index| {
                if index == 1 {
                    assert!(!panics, "no data");
                    return Err("out of data");
                }
                Ok(Drops(Arc::clone(&counter)))
            })
            .build();
        let error = failed.unwrap_err();
        assert!(
            matches!(error, BuildError::LocalityData { locality: 1, .. }),
            "{error:?}"
        );
        assert!(
            error
                .to_string()
                .contains(if panics { "panicked" } else { "out of data" }),
            "{error}"
        );
        assert_eq!(drops.load(SeqCst), 1);
    }
}

/// LO-05: when threads cannot be created, `build` ends the threads it has started and fails with that cause; in async
/// code too.
#[tokio::test]
async fn build_without_threads_fails() {
    let _limit = limit();
    for possible in 0..4 {
        let ended = Arc::new(AtomicUsize::new(0));
        let made = Arc::new(AtomicUsize::new(0));
        let spawn = {
            let (ended, made) = (Arc::clone(&ended), Arc::clone(&made));
            move |name: String, main: Box<dyn FnOnce() + Send>| {
                if made.load(SeqCst) == possible {
                    return Err(std::io::Error::other("no more threads"));
                }
                made.fetch_add(1, SeqCst);
                let drops = Drops(Arc::clone(&ended));
                let main = move || {
                    main();
                    drop(drops);
                };
                std::thread::Builder::new().name(name).spawn(main).map(drop)
            }
        };
        // Each locality needs two threads.
        let error = Runtime::builder()
            .localities(2)
            .pin(false)
            .spawn_with(spawn)
            .build()
            .unwrap_err();
        assert!(matches!(error, BuildError::Thread(_)), "{error:?}");
        assert!(error.to_string().contains("no more threads"));
        assert_eq!(made.load(SeqCst), possible);
        task::until("the threads end", || ended.load(SeqCst) == possible);
    }
}

/// LO-11: a setting out of range is an error that says the valid range.
#[test]
fn settings_are_checked() {
    let _limit = limit();
    let followers = |least, most| Followers {
        least,
        most,
        ..Followers::default()
    };
    let budget = fom_runtime::config::Budget {
        phases: 0,
        ..fom_runtime::config::Budget::default()
    };
    for (builder, what) in [
        (Runtime::builder().localities(0), "localities"),
        (
            Runtime::builder().followers(followers(0, 1)),
            "followers.least",
        ),
        (
            Runtime::builder().followers(followers(3, 2)),
            "followers.most",
        ),
        (Runtime::builder().budget(budget), "budget.phases"),
        (Runtime::builder().mailbox(0), "mailbox"),
    ] {
        let error = builder.build().unwrap_err();
        assert!(
            matches!(error, BuildError::Range { what: found, .. } if found == what),
            "{error}"
        );
    }
}

/// A caller that waits for quiet learns of the end of its locality. The locality ends even if the waker of the caller
/// panics.
#[test]
fn a_bad_waker_at_the_end() {
    struct Bad;
    impl Wake for Bad {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics");
        }
    }
    let _limit = limit();
    let runtime = one();
    let door = Door::default();
    let (tell, told) = mpsc::channel();
    let blocks = runtime.submit(quick({
        let door = door.clone();
        move |cx| {
            tell.send(cx.runtime()).unwrap();
            let _guard = cx.enter_block().unwrap();
            door.pass();
        }
    }));
    let fom = blocks.start().unwrap();
    // The future does not keep the runtime alive.
    let inside = told.recv().unwrap();
    let mut quiet = Box::pin(inside.quiet());
    let waker = Waker::from(Arc::new(Bad));
    assert!(
        quiet
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    drop(runtime);
    door.open();
    drop(fom.wait());
    task::until("its threads end", || {
        inside.operations().localities[0].threads == 0
    });
    let incidents = inside.operations().incidents;
    assert!(
        incidents
            .iter()
            .any(|incident| incident.text.contains("a waker that panics")),
        "{incidents:?}"
    );
}

/// LO-12: every locality is visited once, and the counts are added up without a lock.
#[test]
fn each_locality_is_visited_once() {
    let _limit = limit();
    let runtime = Runtime::builder()
        .localities(4)
        .pin(false)
        .locality_data(|_| Ok::<_, BoxError>(0_u64))
        .build()
        .unwrap();
    let handles: Vec<_> = (0..100)
        .map(|_| {
            runtime
                .submit(quick(|cx| cx.local(|count: &mut u64| *count += 1)))
                .start()
                .unwrap()
        })
        .collect();
    for handle in handles {
        handle.wait().unwrap();
    }
    let counts = block_on(runtime.each(|local| (local.index(), *local.data::<u64>()))).unwrap();
    assert_eq!(
        counts.iter().map(|count| count.0).collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
    assert_eq!(counts.iter().map(|count| count.1).sum::<u64>(), 100);
}

/// LO-17: after the end, submitting, posting and calling fail with errors that say so; a second shutdown does nothing.
#[test]
fn after_the_end() {
    let _limit = limit();
    let runtime = one();
    let dropped = Arc::new(AtomicUsize::new(0));
    runtime.shutdown_blocking(Shutdown::Drain, task::LIMIT);
    let drops = Drops(Arc::clone(&dropped));
    let refused = runtime
        .submit(quick(move |_| drop(drops)))
        .start()
        .unwrap_err();
    assert_eq!(refused.reason(), RefusedReason::ShuttingDown);
    assert!(refused.to_string().contains("shutting down"));
    drop(refused.into_operation());
    assert_eq!(dropped.load(SeqCst), 1);
    let failure = block_on(async { runtime.submit(quick(|_| {})).await }).unwrap_err();
    assert!(matches!(
        failure.cause,
        Cause::Refused(RefusedReason::ShuttingDown)
    ));
    assert!(failure.operation.is_some());
    assert_eq!(runtime.post(0, |_| ()), Err(CallError::Dropped));
    assert_eq!(block_on(runtime.call(0, |_| ())), Err(CallError::Dropped));
    assert_eq!(block_on(runtime.each(|_| ())), Err(CallError::Dropped));
    block_on(runtime.idle());
    block_on(runtime.quiet());
    assert_eq!(runtime.in_flight(), 0);
    let report = runtime.shutdown_blocking(Shutdown::Now, task::LIMIT);
    assert!(report.remained.is_empty());
    let listed = runtime.operations();
    assert!(listed.foms.is_empty());
    task::until("its threads end", || {
        runtime.operations().localities[0].threads == 0
    });
}

/// LO-17: several runtimes live side by side, and a runtime can be built again after another has ended.
#[test]
fn several_runtimes_and_restarts() {
    let _limit = limit();
    let other = one();
    let stays = other
        .submit(task(|_| Box::pin(std::future::pending())))
        .start()
        .unwrap();
    for _ in 0..20 {
        let runtime = Runtime::builder().localities(2).pin(false).build().unwrap();
        let far = other.clone();
        let uses_both = task(move |cx| {
            Box::pin(async move {
                let home = (cx.locality(), cx.runtime().localities());
                assert_eq!(home.1, 2);
                far.submit(quick(|cx| assert_eq!(cx.runtime().localities(), 1)))
                    .await
                    .unwrap();
                // The fom is back at home after a locality of the other runtime woke it.
                assert_eq!(Runtime::current().unwrap().localities(), 2);
                assert_eq!(cx.locality(), home.0);
            })
        });
        runtime.submit(uses_both).start().unwrap().wait().unwrap();
        let report = runtime.shutdown_blocking(Shutdown::Drain, task::LIMIT);
        assert!(report.remained.is_empty());
    }
    stays.cancel();
    assert!(stays.wait().is_err());
    assert!(other.operations().incidents.is_empty());
}

/// LO-17: a resource of an ended runtime is dropped with its last handle, and its threads are gone.
#[test]
fn nothing_is_left_of_a_runtime() {
    let _limit = limit();
    let dropped = Arc::new(AtomicUsize::new(0));
    for n in 1..=5 {
        let runtime = Runtime::builder()
            .localities(2)
            .pin(false)
            .resource(Drops(Arc::clone(&dropped)))
            .build()
            .unwrap();
        let handle = runtime
            .submit(quick(|cx| drop(cx.enter_block().unwrap())))
            .start()
            .unwrap();
        handle.wait().unwrap();
        drop(runtime);
        task::until("the resource is dropped", || dropped.load(SeqCst) == n);
    }
}
